"""Views with environments innermost, and copies into memory that stays."""

import pytest
import torch
from tensordict import TensorClass, TensorDict
from torch import Tensor

from marinenav_env.runtime.layout import copy_all, environments_innermost, to_fast_storage
from marinenav_env.runtime.loop import list_tensors


def test_environments_become_neighbours_in_memory():
    tensor = torch.randn(5, 3, 2)
    placed = environments_innermost(tensor)
    assert torch.equal(placed, tensor)
    assert placed.stride() == (1, 5, 15)


class Inner(TensorClass):
    flag: Tensor
    count: Tensor


class Outer(TensorClass):
    value: Tensor
    inner: Inner


def outer(number):
    """Everything in it depends on a number; one field has environments innermost."""
    value = environments_innermost(torch.full((4, 3), -0.0 if number == 0 else float(number)))
    inner = Inner(flag=torch.full((4,), number % 2 == 1), count=torch.full((4,), number), batch_size=[4])
    return Outer(value=value, inner=inner, batch_size=[4])


def dictionary(number):
    parts = outer(number)
    inner = TensorDict({"flag": parts.inner.flag, "count": parts.inner.count}, [4])
    return TensorDict({"value": parts.value, "inner": inner}, [4])


@pytest.mark.parametrize("make", [outer, dictionary])
def test_tensors_are_copied_to_where_they_stay(make):
    static, names = make(3), ["value", ("inner", "flag"), ("inner", "count")]
    places = [static.get(name).data_ptr() for name in names]
    for number in (4, 5, 0):
        copy_all(list_tensors(static), list_tensors(make(number)))
        for name in names:
            assert torch.equal(static.get(name), make(number).get(name))
    assert static.get("value").signbit().all()  # bits, not numbers
    assert [static.get(name).data_ptr() for name in names] == places


def test_large_tensors_are_copied_one_by_one(monkeypatch):
    """A GPU gives 65,536 numbers of a list of tensors to one block."""
    together, copy = [], torch._foreach_copy_

    def spy(targets, sources):
        together.append([each.numel() for each in targets])
        copy(targets, sources)

    monkeypatch.setattr(torch, "_foreach_copy_", spy)
    sizes = (2, 40_000, 32_768, 32_769)
    targets = [torch.zeros(size) for size in sizes]
    copy_all(targets, [torch.ones(size) for size in sizes])
    assert together == [[2, 32_768]]
    assert all(bool(each.all()) for each in targets)


@pytest.mark.slow
def test_stored_changes_no_value():
    """Flags in every layout, absent and repeated ones, and numbers."""
    flags = torch.rand(9, 5, 3, generator=torch.Generator().manual_seed(0)) < 0.5
    given = flags, environments_innermost(flags), flags[:, 0, 0], flags[:0], flags[:, 0].long()

    def all_stored(values):
        return [to_fast_storage(~value if value.dtype == torch.bool else value) for value in values]

    found = torch.compile(all_stored, fullgraph=True)(given)
    for value, expected in zip(found, all_stored(given), strict=True):
        assert value.dtype == expected.dtype and torch.equal(value, expected)
