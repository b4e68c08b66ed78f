"""Differences between a CPU and other devices: host reads, and the cost of kernel launches.

On a CPU a host read is free, so that only the rows that matter are computed. On other devices it
waits for all earlier work, so that all rows are computed and a mask selects. Results are the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

FREE_HOST_READS = frozenset({"cpu"})
"""Types of devices on which host reads do not synchronise."""
_library = torch.library.Library("marinenav", "FRAGMENT")
_library.define(
    "write_rows(Tensor mask, Tensor index, Tensor[] pool, Tensor(a!)[] new, Tensor[] finished) -> ()",
    tags=(torch.Tag.flexible_layout, torch.Tag.pt2_compliant_tag),
)


def host_reads_are_free(device: torch.device) -> bool:
    """Return whether reading the values of a tensor on the host does not wait for its device."""
    return device.type in FREE_HOST_READS


def launches_dominate(device: torch.device) -> bool:
    """Return whether launching a kernel takes longer than its computation on small tensors."""
    return not host_reads_are_free(device)  # true of all devices except a CPU


def rows_where(mask: Tensor) -> Tensor | None:
    """Return the rows [n] int64 where a mask [E] is true; None where counting them would wait."""
    if not host_reads_are_free(mask.device):
        return None
    return mask.nonzero().squeeze(-1)  # host: free


def may_hold(flags: Tensor) -> bool:
    """Return whether a flag is true; True if reading them would wait for the device."""
    return not host_reads_are_free(flags.device) or bool(flags.any())  # host: free


def replaced_rows(
    mask: Tensor, index: Tensor, pool: Sequence[Tensor], old: Sequence[Tensor], finished: Sequence[Tensor] = ()
) -> list[Tensor]:
    """Take rows from a pool where a mask is true and keep the old ones elsewhere.

    Args:
        mask: [E] bool.
        index: [E] int64, rows of the pool.
        pool: tensors [P, ...].
        old: tensors [E, ...]; they are not changed.
        finished: all other results of the function that is compiled with this one. Generated code computes them
            before it writes rows: it would else compute a result late, from a tensor that has new rows by then.

    Returns:
        New tensors of the shapes and layouts of the old ones.
    """
    if host_reads_are_free(mask.device):
        # Copied here, since generated code writes the copy where it computes the tensor.
        new = [tensor.clone() for tensor in old]
        torch.ops.marinenav.write_rows(mask, index, pool, new, list(finished))
        return new
    kept = ~mask
    # The old tensor comes first, since the first operand decides the layout of the result.
    return [
        torch.where(kept.view(-1, *[1] * (tensor.ndim - 1)), tensor, source[index])
        for source, tensor in zip(pool, old, strict=True)
    ]


@torch.library.impl(_library, "write_rows", "CPU")
def _write_rows(
    mask: Tensor, index: Tensor, pool: Sequence[Tensor], new: Sequence[Tensor], finished: Sequence[Tensor]
) -> None:
    """Write rows of a pool in place by gathering only these few, which generated code cannot do."""
    rows = mask.nonzero().squeeze(-1)
    if not len(rows):  # the pool may then have other shapes
        return
    entries = index[rows]
    for tensor, source in zip(new, pool, strict=True):
        tensor.index_copy_(0, rows, source.index_select(0, entries))


# The operator returns nothing.
torch.library.register_fake("marinenav::write_rows", lambda mask, index, pool, new, finished: None)
