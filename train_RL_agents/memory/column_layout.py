"""Transitions of replay stored as one matrix per dtype.

A transition has about ten tensors, and gathering them separately costs a cache miss and a kernel for every tensor. Here
one operation gathers all columns of a dtype.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

STORED_MASK = "stored"
"""Key of the mask of transitions to store beside their matrices, and of open windows in a saved state."""

PackedTensors = dict[str, Tensor]
"""Tensors packed into one matrix [..., W] per dtype, by the name of the dtype such as ``float32``.

The W columns of a matrix hold all numbers of that dtype of one transition; see ColumnLayout.
"""


class PackedTransitions(NamedTuple):
    """Packed transitions to insert into replay."""

    matrices: PackedTensors
    """Matrices [B, W] by the name of their dtype; a row is one transition."""
    mask: Tensor | None
    """Mask [B] bool of the transitions to store; None: all."""


class _Column(NamedTuple):
    """Columns ``begin`` to ``end`` (exclusive) of the matrix of a dtype, which hold one leaf tensor of a transition."""

    key: tuple[str, ...]
    """Key of the leaf in the TensorDict of a transition."""
    dtype: str
    begin: int
    end: int
    shape: torch.Size


class ColumnLayout:
    """Layout of the leaf tensors of a transition in columns of matrices, one matrix per dtype.

    Leaves are in the order of the keys; those of a nested key are sorted by name.
    """

    def __init__(self, example: TensorDictBase) -> None:
        self.widths: dict[str, int] = {}
        """Number W of columns of each matrix, by the name of its dtype."""
        self._columns: list[_Column] = []
        for key, leaf in _leaves(example):
            kind, begin = dtype_name(leaf), self.widths.get(dtype_name(leaf), 0)
            self.widths[kind] = begin + leaf.numel()
            self._columns.append(_Column(key, kind, begin, self.widths[kind], leaf.shape))

    def zeros(self, batch: Sequence[int], device: torch.device) -> PackedTensors:
        """Return matrices [*batch, W] of zeros by the name of their dtype; W is its number of columns (``widths``)."""
        return {
            kind: torch.zeros(*batch, width, dtype=getattr(torch, kind), device=device)
            for kind, width in self.widths.items()
        }

    def pack(self, rows: TensorDictBase) -> PackedTensors:
        """Pack a TensorDict of transitions into matrices [*batch, W], without leaves that are not in the layout."""
        parts: dict[str, list[Tensor]] = {kind: [] for kind in self.widths}
        batch = rows.batch_size
        reversed_axes = [*reversed(range(len(batch)))]
        for column in self._columns:
            leaf = rows.get(column.key)
            # Steps of the world have environments innermost in memory; all columns are transposed at once below.
            columns = leaf.permute((*range(len(batch), leaf.ndim), *reversed_axes))
            parts[column.dtype].append(columns.reshape(column.end - column.begin, batch.numel()))
        return {
            kind: torch.cat(columns).t().contiguous().view(*batch[::-1], width).permute((*reversed_axes, -1))
            for (kind, width), columns in zip(self.widths.items(), parts.values(), strict=True)
        }

    def unpack(self, packed: PackedTensors) -> TensorDict:
        """Convert packed matrices to a TensorDict of transitions whose tensors are views of the matrices."""
        first = next(iter(packed.values()))
        batch = first.shape[:-1]
        rows: dict[str, Any] = {}
        for key, kind, begin, end, shape in self._columns:
            level = rows
            for name in key[:-1]:
                level = level.setdefault(name, {})
            level[key[-1]] = packed[kind][..., begin:end].view((*batch, *shape))
        return TensorDict(rows, batch, device=first.device)


def dtype_name(leaf: Tensor) -> str:
    """Return the name of a tensor's dtype, such as ``float32``."""
    return str(leaf.dtype).removeprefix("torch.")


def _leaves(tree: TensorDictBase) -> Iterator[tuple[tuple[str, ...], Tensor]]:
    """Yield the key and the tensor of every leaf of a TensorDict; leaves of nested keys are sorted by name."""
    for name, value in tree.items():
        if isinstance(value, Tensor):
            yield (name,), value
        else:
            inner = ((key, leaf) for key, leaf in _leaves(value))
            yield from sorted((((name, *key), leaf) for key, leaf in inner), key=lambda it: it[0])
