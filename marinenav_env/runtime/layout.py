"""Memory layout, in which environments are innermost because kernels then run fastest.

A batch [E, R, ...] has few robots and objects and many environments, so the innermost dimension,
along which vector instructions and threads run, should be E. Functions take and return tensors of
the usual logical shape, but compute on views with the dimensions in reverse order, [..., R, E].
Compiled code then stores intermediate results with environments innermost as well. Values never depend
on the layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor


def env_last(tensor: Tensor) -> Tensor:
    """Return a view [..., R, E] of a tensor [E, R, ...], with all dimensions in reverse order."""
    # Written out because torch.compile misinterprets range(n, -1, -1) here.
    return tensor.permute([tensor.ndim - 1 - axis for axis in range(tensor.ndim)])


def env_first(tensor: Tensor) -> Tensor:
    """Return a view [E, R, ...] of a tensor [..., R, E]; the inverse of ``env_last``."""
    return env_last(tensor)


def environments_innermost(tensor: Tensor) -> Tensor:
    """Return a tensor [E, ...] with the same values and environments adjacent in memory."""
    return env_first(env_last(tensor).contiguous())


def stack_last(tensors: Sequence[Tensor]) -> Tensor:
    """Stack tensors [..., E] along a new last dimension of the result [E, ..., n]."""
    return env_first(torch.stack(list(tensors)))


_VIEWS_AS_BOOL = torch.__version__ >= "2.15"
"""True if numbers can be viewed as bool in compiled code; the compiler of torch 2.11 raises an error."""


def stored(value: Tensor) -> Tensor:
    """Return an equal tensor [E, ...] that compiled code stores fast; on a CPU, it would store bool slowly."""
    slow = value.dtype == torch.bool and value.device.type == "cpu" and _VIEWS_AS_BOOL
    if not slow or not torch.compiler.is_compiling():
        return value
    return env_first(torch.where(env_last(value), 1.0, 0.0).to(torch.uint8).view(torch.bool))


_SMALL = 32_768
"""Number of elements up to which tensors are copied together by one kernel, which has blocks of 65,536 elements."""


def copy_all(targets: Iterable[Tensor], sources: Iterable[Tensor]) -> None:
    """Copy tensors into others of the same shapes; one kernel copies all small tensors of a type."""
    pairs: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for target, source in zip(targets, sources, strict=True):
        if target is source:
            continue
        if torch.compiler.is_compiling() or target.numel() > _SMALL:
            target.copy_(source)
        else:
            into, out_of = pairs.setdefault(target.dtype, ([], []))
            into.append(target)
            out_of.append(source)
    for into, out_of in pairs.values():
        torch._foreach_copy_(into, out_of)
