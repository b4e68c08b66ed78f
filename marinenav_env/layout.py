"""Memory layout: kernels run fastest when neighbouring environments are neighbours in memory.

A batch [E, R, ...] has few robots and objects and many environments, so the innermost dimension
that vector instructions run along should be E. These helpers build tensors of the usual logical
shape whose memory is the other way round; elementwise operations then keep it so. Values never
depend on the layout.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    """Stack tensors [E, ...] along a new last dimension, environments innermost."""
    return reverse(torch.stack([reverse(tensor) for tensor in tensors]))


def cat_last(tensors: Sequence[Tensor]) -> Tensor:
    """Join tensors [E, ...] along the last dimension, environments innermost."""
    return reverse(torch.cat([reverse(tensor) for tensor in tensors]))
