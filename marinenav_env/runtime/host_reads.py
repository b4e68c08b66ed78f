"""What differs between a CPU and other devices: host reads, and what takes time.

On a CPU a read is free: only the rows that matter are computed. On other devices it waits for all
that was started before: every row is computed, and a mask selects. Both give the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

FREE_HOST_READS = frozenset({"cpu"})
"""Types of devices on which host reads do not synchronise."""
_library = torch.library.Library("marinenav", "FRAGMENT")
_library.define(
    "replaced_rows(Tensor mask, Tensor index, Tensor[] pool, Tensor[] old) -> Tensor[]",
    tags=(torch.Tag.flexible_layout, torch.Tag.pt2_compliant_tag),
)


def host_reads_are_free(device: torch.device) -> bool:
    """Return whether reading a tensor's values on the host does not synchronise with its device."""
    return device.type in FREE_HOST_READS


def launches_dominate(device: torch.device) -> bool:
    """Return whether starting a kernel takes longer than what it computes on small tensors."""
    return not host_reads_are_free(device)  # as it is everywhere but on a CPU


def rows_where(mask: Tensor) -> Tensor | None:
    """Return the rows [n] int64 where a mask [E] is true; None where counting them would wait."""
    if not host_reads_are_free(mask.device):
        return None
    return mask.nonzero().squeeze(-1)  # host: free


def may_hold(flags: Tensor) -> bool:
    """Return whether a flag is true, as far as that can be read without waiting; else True."""
    return not host_reads_are_free(flags.device) or bool(flags.any())  # host: free


def replaced_rows(mask: Tensor, index: Tensor, pool: Sequence[Tensor], old: Sequence[Tensor]) -> list[Tensor]:
    """Take rows from a pool where a mask is true and keep the old ones elsewhere.

    Args:
        mask: [E] bool.
        index: [E] int64, the row of the pool that each row would take.
        pool: tensors [P, ...].
        old: tensors [E, ...]; they are not changed.

    Returns:
        New tensors of the shapes and layouts of the old ones.
    """
    if host_reads_are_free(mask.device):
        new: list[Tensor] = torch.ops.marinenav.replaced_rows(mask, index, pool, old)
        return new
    kept = ~mask
    # The old ones come first: the first operand decides the layout of the result.
    return [
        torch.where(kept.view(-1, *[1] * (ours.ndim - 1)), ours, theirs[index])
        for theirs, ours in zip(pool, old, strict=True)
    ]


@torch.library.impl(_library, "replaced_rows", "CPU")
def _replaced(mask: Tensor, index: Tensor, pool: Sequence[Tensor], old: Sequence[Tensor]) -> list[Tensor]:
    """Gather only the rows that are replaced, which are few; generated code could not."""
    rows = mask.nonzero().squeeze(-1)
    if not len(rows):  # then the pool may be of another kind
        return [each.clone() for each in old]
    entries = index[rows]
    return [
        ours.clone().index_copy_(0, rows, theirs.index_select(0, entries))
        for theirs, ours in zip(pool, old, strict=True)
    ]


def _shapes(mask: Tensor, index: Tensor, pool: Sequence[Tensor], old: Sequence[Tensor]) -> list[Tensor]:
    """Return tensors as ``replaced_rows`` does, without its values."""
    return [torch.empty_like(each) for each in old]


torch.library.register_fake("marinenav::replaced_rows", _shapes)
