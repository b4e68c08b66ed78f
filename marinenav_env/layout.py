"""Memory layout: kernels run fastest when neighbouring environments are neighbours in memory.

A batch [E, R, ...] has few robots and objects and many environments, so the innermost dimension
that vector instructions run along, and that threads share, should be E. Functions take and give
tensors of the usual logical shape, but compute on them with the dimensions reversed, [..., R, E]:
a view, no copy. Where a compiler stores what lies between, it then stores environments innermost
too. Values never depend on the layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def reverse(tensor: Tensor) -> Tensor:
    """The same memory with the dimensions in reverse order."""
    # Written out because torch.compile mistakes range(n, -1, -1) here.
    return tensor.permute([tensor.ndim - 1 - axis for axis in range(tensor.ndim)])


def environments_innermost(tensor: Tensor) -> Tensor:
    """A tensor [E, ...] of the same values with environments adjacent in memory."""
    return reverse(reverse(tensor).contiguous())


def stack_last(tensors: Sequence[Tensor]) -> Tensor:
    """Stack reversed tensors [..., E] along a new last dimension of the result [E, ..., n]."""
    return reverse(torch.stack(list(tensors)))


def copy_in(static: Any, new: Any) -> None:
    """Copy tensors into those of the same names that stay where they are.

    All of a type are copied by one kernel, where a device can do that.

    Args:
        static: TensorDict or TensorClass that is written to.
        new: likewise; a tensor that both hold is left alone.
    """
    pairs: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}

    def note(to: Tensor, source: Tensor) -> Tensor:
        if to is not source:
            targets, sources = pairs.setdefault(to.dtype, ([], []))
            targets.append(to)
            sources.append(source)
        return to

    static.apply(note, new)
    for targets, sources in pairs.values():
        torch._foreach_copy_(targets, sources)
