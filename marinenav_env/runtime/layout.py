"""Memory layout, in which environments are innermost because kernels then run fastest.

A batch [E, R, ...] has few robots and objects and many environments, so the innermost dimension,
along which vector instructions and threads run, should be E. Functions take and return tensors of
the usual logical shape, but compute on views with the dimensions in reverse order, [..., R, E].
Compiled code then stores intermediate results with environments innermost as well. Values never depend
on the layout.
"""

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


_CAN_VIEW_AS_BOOL = torch.__version__ >= "2.15"
"""True if compiled code can view uint8 tensors as bool; the compiler of torch 2.11 raises an error."""


def to_fast_storage(value: Tensor) -> Tensor:
    """Return an equal tensor [E, ...] that compiled code writes to memory fast, also if it is bool on a CPU.

    Compiled code for a CPU writes bool slowly, so the values are written as uint8 and viewed as bool.
    """
    slow = value.dtype == torch.bool and value.device.type == "cpu" and _CAN_VIEW_AS_BOOL
    if not slow or not torch.compiler.is_compiling():
        return value
    return env_first(torch.where(env_last(value), 1.0, 0.0).to(torch.uint8).view(torch.bool))


_MAX_GROUPED_SIZE = 32_768
"""Largest number of elements of a tensor that ``copy_all`` copies by the same kernel as others of its type."""


def copy_all(targets: Iterable[Tensor], sources: Iterable[Tensor]) -> None:
    """Copy each source tensor into the target of the same position and shape, small ones of a dtype by one kernel."""
    pairs: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for target, source in zip(targets, sources, strict=True):
        if target is source:
            continue
        if torch.compiler.is_compiling() or target.numel() > _MAX_GROUPED_SIZE:
            target.copy_(source)
        else:
            into, out_of = pairs.setdefault(target.dtype, ([], []))
            into.append(target)
            out_of.append(source)
    for into, out_of in pairs.values():
        torch._foreach_copy_(into, out_of)
