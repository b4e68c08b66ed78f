"""Differences between a CPU and other devices: host reads, and launches of kernels, which take longer than small ones.

A host read copies values of a tensor to Python. On a CPU it is free, so only the rows that matter are computed. On
other devices it waits for all earlier work, so all rows are computed and a mask selects. Results are the same.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

FREE_HOST_READ_DEVICES = frozenset({"cpu"})
"""Types of devices whose tensors can be read on the host without synchronisation."""
_library = torch.library.Library("marinenav", "FRAGMENT")
"""Library that contains the custom operator ``write_rows``, see _write_rows."""
_library.define(
    "write_rows(Tensor mask, Tensor index, Tensor[] pool, Tensor(a!)[] new, Tensor[] finished) -> ()",
    tags=(torch.Tag.flexible_layout, torch.Tag.pt2_compliant_tag),
)


def host_reads_are_free(device: torch.device) -> bool:
    """Return whether values of a tensor on this device can be read on the host without waiting for the device."""
    return device.type in FREE_HOST_READ_DEVICES


def true_indices(mask: Tensor) -> Tensor | None:
    """Return the indices [n] int64 of the n true elements of a mask [E]; None if that would wait for the device."""
    if not host_reads_are_free(mask.device):
        return None
    return mask.nonzero().squeeze(-1)  # host: free


def may_have_any(flags: Tensor) -> bool:
    """Return whether any element of a bool tensor is true; also True if reading it would wait for the device."""
    return not host_reads_are_free(flags.device) or bool(flags.any())  # host: free


def replace_rows(
    mask: Tensor, index: Tensor, pool: Sequence[Tensor], old: Sequence[Tensor], finished: Sequence[Tensor] = ()
) -> list[Tensor]:
    """Return new tensors with rows of a pool where a mask [E] is true and with the old rows elsewhere.

    ``index`` [E] is the row of the pool for each row. ``finished`` are all other results of the compiled function that
    calls this one: generated code computes them before it writes rows; otherwise it might compute a result later, from
    a tensor that already has new rows.
    """
    if host_reads_are_free(mask.device):
        # Copied here, because generated code then writes the copy where it computes the tensor.
        new = [tensor.clone() for tensor in old]
        torch.ops.marinenav.write_rows(mask, index, pool, new, list(finished))
        return new
    kept = ~mask
    # The old tensor comes first, because the first operand determines the memory layout of the result.
    return [
        torch.where(kept.view(-1, *[1] * (tensor.ndim - 1)), tensor, source[index])
        for source, tensor in zip(pool, old, strict=True)
    ]


@torch.library.impl(_library, "write_rows", "CPU")
def _write_rows(
    mask: Tensor, index: Tensor, pool: Sequence[Tensor], new: Sequence[Tensor], finished: Sequence[Tensor]
) -> None:
    """Copy rows of ``pool`` into ``new`` in place where ``mask`` is true, without gathering the others."""
    rows = mask.nonzero().squeeze(-1)
    if not len(rows):  # then the pool may have other shapes
        return
    entries = index[rows]
    for tensor, source in zip(new, pool, strict=True):
        tensor.index_copy_(0, rows, source.index_select(0, entries))


# The operator returns nothing.
torch.library.register_fake("marinenav::write_rows", lambda mask, index, pool, new, finished: None)
