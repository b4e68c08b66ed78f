"""Rows that a condition holds for, where the host may read them and where it may not."""

import pytest
import torch

from marinenav_env.runtime.host_reads import host_reads_are_free, may_have_any, replace_rows, true_indices
from marinenav_env.runtime.layout import environments_innermost

NOWHERE = "marinenav_env.runtime.host_reads.FREE_HOST_READ_DEVICES"


def test_host_reads_are_free_on_the_cpu_alone():
    free = [host_reads_are_free(torch.device(name)) for name in ("cpu", "cuda:1", "mps", "meta")]
    assert free == [True, False, False, False]


def test_what_would_be_waited_for_is_not_read(monkeypatch):
    flags = torch.tensor([False, True, True])
    rows = true_indices(flags)
    assert rows is not None and rows.tolist() == [1, 2]
    assert (may_have_any(flags), may_have_any(flags[:1])) == (True, False)
    monkeypatch.setattr(NOWHERE, frozenset())
    assert true_indices(flags) is None and may_have_any(flags[:1])


def some_rows():
    generator = torch.Generator().manual_seed(3)
    shapes = [(20, 3, 2), (20,), (20, 4)]
    old = [environments_innermost(torch.rand(shape, generator=generator)) for shape in shapes]
    old.append(old[1] < 0.5)
    pool = [torch.cat((each.flip(0), each)) for each in old]
    return torch.randint(40, (20,), generator=generator), pool, old


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_gathering_few_rows_equals_choosing_everywhere(share, monkeypatch):
    """What a CPU does, against what every other device does."""
    index, pool, old = some_rows()
    mask = torch.rand(20, generator=torch.Generator().manual_seed(4)) < share
    before = [each.clone() for each in old]
    found = replace_rows(mask, index, pool, old)
    monkeypatch.setattr(NOWHERE, frozenset())
    expected = replace_rows(mask, index, pool, old)
    for actual, reference, source, unchanged, new in zip(found, expected, old, before, pool, strict=True):
        assert torch.equal(actual, reference) and torch.equal(source, unchanged)
        assert actual.stride() == reference.stride() == source.stride()
        assert torch.equal(actual[mask], new[index][mask]) and torch.equal(actual[~mask], unchanged[~mask])


def test_it_is_an_operator_as_torch_expects():
    index, pool, old = some_rows()
    new = [tensor.clone() for tensor in old]
    given = torch.arange(20) % 3 == 0, index, pool, new, [index]
    operator = torch.ops.marinenav.write_rows.default
    found = torch.library.opcheck(operator, given, test_utils=("test_schema", "test_faketensor"))
    assert set(found.values()) == {"SUCCESS"}
