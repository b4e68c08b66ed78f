"""Rows as matrices, against the rows."""

import pytest
import torch
from tensordict import TensorDict

from tests.train_RL_agents.helpers import seeded
from train_RL_agents.memory.column_layout import ColumnLayout


def example():
    """A row of numbers, flags and an index; entries are not in the order of their names."""
    return TensorDict(
        {
            "seen": {
                "y": torch.zeros(3, 2),
                "x": torch.zeros(2),
                "mask": torch.zeros(3, dtype=torch.bool),
            },
            "action": torch.zeros((), dtype=torch.int64),
            "reward": torch.zeros(()),
        }
    )


def rows_of(*batch):
    """Random rows of a batch shape, with environments innermost as the world's."""

    def draw(leaf):
        drawn = torch.randn([*reversed(batch), *leaf.shape], generator=seeded(leaf.ndim))
        order = (*reversed(range(len(batch))), *range(len(batch), drawn.ndim))
        values = 9.0 * drawn.permute(order)
        return values > 0.0 if leaf.dtype == torch.bool else values.to(leaf.dtype)

    return example().apply(draw, batch_size=batch)


def test_columns_are_in_the_order_of_the_keys_and_nested_ones_of_their_names():
    packing, rows = ColumnLayout(example()), rows_of(4)
    assert packing.widths == {"bool": 3, "float32": 9, "int64": 1}
    packed = packing.pack(rows)
    numbers = (rows["seen", "x"], rows["seen", "y"].flatten(1), rows["reward"][:, None])
    assert torch.equal(packed["float32"], torch.cat(numbers, 1))
    assert torch.equal(packed["int64"].squeeze(1), rows["action"])


@pytest.mark.parametrize("batch", [(), (5,), (4, 3), (2, 4, 3), (0,)])
def test_what_is_packed_is_unpacked(batch):
    packing, rows = ColumnLayout(example()), rows_of(*batch)
    packed = packing.pack(rows)
    assert {kind: each.shape for kind, each in packed.items()} == {
        kind: (*batch, width) for kind, width in packing.widths.items()
    }
    found = packing.unpack(packed)
    assert found.batch_size == batch and bool((found == rows).all())
    assert {key: each.dtype for key, each in found.items(True, True)} == {
        key: each.dtype for key, each in rows.items(True, True)
    }


def test_unpacked_rows_are_views():
    packing = ColumnLayout(example())
    packed = packing.zeros([4], torch.device("cpu"))
    packing.unpack(packed)["seen", "y"].fill_(2.0)
    assert packed["float32"].sum(1).tolist() == [12.0] * 4


def test_the_order_of_names_and_further_leaves_do_not_matter():
    packing, rows = ColumnLayout(example()), rows_of(4)
    turned = TensorDict({name: rows[name] for name in ("reward", "action", "seen")}, [4])
    turned["seen"] = {name: rows["seen", name] for name in ("mask", "x", "y")}
    turned["further"] = torch.ones(4)
    for kind, each in packing.pack(turned).items():
        assert torch.equal(each, packing.pack(rows)[kind])


def test_the_sign_of_zero_stays():
    packing, rows = ColumnLayout(example()), rows_of(4)
    rows["seen", "y"].fill_(-0.0)
    assert packing.unpack(packing.pack(rows))["seen", "y"].signbit().all()
