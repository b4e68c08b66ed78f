"""Rows of replay as one matrix for each type of number, which takes one operation to read or write.

A row has about ten tensors. Gathering them one by one costs a cache miss and a kernel each. Here
one operation gathers all columns of a type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marinenav_env.runtime.host_reads import rows_where

STORED = "stored"
"""Key of the [B] bool that says which rows replay keeps."""

Packed = dict[str, Tensor]
"""Matrices [..., W] by the name of their type, such as ``float32``."""


class Rows(NamedTuple):
    """Rows for replay."""

    packed: Packed
    """[B, W] each."""
    stored: Tensor | None
    """[B] bool, which to keep; None: all."""


class _Column(NamedTuple):
    """Where the numbers of a leaf are."""

    key: tuple[str, ...]
    kind: str
    begin: int
    end: int
    shape: torch.Size


class ColumnLayout:
    """Maps the leaves of a row to columns.

    Leaves are in the order of the keys; those of a nested key are sorted by name.

    Args:
        example: one row, a TensorDict without batch dimensions, for shapes and types.
    """

    def __init__(self, example: TensorDictBase) -> None:
        self.widths: dict[str, int] = {}
        """Columns of each matrix."""
        self._columns: list[_Column] = []
        for key, leaf in _leaves(example):
            kind, begin = kind_of(leaf), self.widths.get(kind_of(leaf), 0)
            self.widths[kind] = begin + leaf.numel()
            self._columns.append(_Column(key, kind, begin, self.widths[kind], leaf.shape))

    def zeros(self, batch: Sequence[int], device: torch.device) -> Packed:
        """Return the matrices of blank rows of a batch shape."""
        return {
            kind: torch.zeros(*batch, width, dtype=getattr(torch, kind), device=device)
            for kind, width in self.widths.items()
        }

    def pack(self, rows: TensorDictBase) -> Packed:
        """Return the rows of any batch shape as matrices; leaves that are no columns are left out."""
        parts: dict[str, list[Tensor]] = {kind: [] for kind in self.widths}
        batch = rows.batch_size
        turned = [*reversed(range(len(batch)))]
        for column in self._columns:
            leaf = rows.get(column.key)
            # Steps of the world have environments innermost: the layout is turned once for all.
            columns = leaf.permute((*range(len(batch), leaf.ndim), *turned))
            parts[column.kind].append(columns.reshape(column.end - column.begin, batch.numel()))
        return {
            kind: torch.cat(each).t().contiguous().view(*batch[::-1], width).permute((*turned, -1))
            for (kind, width), each in zip(self.widths.items(), parts.values(), strict=True)
        }

    def unpack(self, packed: Packed) -> TensorDict:
        """Return the matrices as rows, which are views of them."""
        first = next(iter(packed.values()))
        batch = first.shape[:-1]
        rows: dict[str, Any] = {}
        for key, kind, begin, end, shape in self._columns:
            level = rows
            for name in key[:-1]:
                level = level.setdefault(name, {})
            level[key[-1]] = packed[kind][..., begin:end].view((*batch, *shape))
        return TensorDict(rows, batch, device=first.device)

    def rows(self, given: TensorDictBase) -> Rows:
        """Pack rows [B] with STORED; where host reads are free, only those that it marks."""
        stored = given.get(STORED)
        rows = rows_where(stored)
        if rows is None:
            return Rows(self.pack(given), stored)
        return Rows(self.pack(given[rows]), None)


def kind_of(leaf: Tensor) -> str:
    """Return the name of a tensor's type."""
    return str(leaf.dtype).removeprefix("torch.")


def _leaves(tree: TensorDictBase) -> Iterator[tuple[tuple[str, ...], Tensor]]:
    """Return the leaves with their keys; below the first level in the order of their names."""
    for name, value in tree.items():
        if isinstance(value, Tensor):
            yield (name,), value
        else:
            inner = ((key, leaf) for key, leaf in _leaves(value))
            yield from sorted((((name, *key), leaf) for key, leaf in inner), key=lambda it: it[0])
