"""Memory layout: kernels run fastest when neighbouring environments are neighbours in memory.

A batch [E, R, ...] has few robots and objects and many environments, so the innermost dimension
that vector instructions run along, and that threads share, should be E. Functions take and give
tensors of the usual logical shape, but compute on them with the dimensions reversed, [..., R, E]:
a view, no copy. Where a compiler stores what lies between, it then stores environments innermost
too. Values never depend on the layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def copy_all(targets: Iterable[Tensor], sources: Iterable[Tensor]) -> None:
    """Copy tensors into others of the same shapes; all of a type by one kernel, where one can."""
    pairs: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for target, source in zip(targets, sources, strict=True):
        if target is not source:
            into, out_of = pairs.setdefault(target.dtype, ([], []))
            into.append(target)
            out_of.append(source)
    for into, out_of in pairs.values():
        torch._foreach_copy_(into, out_of)


def copy_in(static: Any, new: Any) -> None:
    """Copy all tensors of a TensorDict or TensorClass into those of the same names in another."""
    names = list(static.keys(include_nested=True, leaves_only=True))
    copy_all((static.get(name) for name in names), (new.get(name) for name in names))
