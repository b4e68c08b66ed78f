"""Hashes of nested tensors that do not depend on names and order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

_MICRO = 1e6


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield all tensors in nested containers."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for child in value.values():
            yield from tensors(child)
    elif isinstance(value, list | tuple):
        for child in value:
            yield from tensors(child)


def digest(parts: Iterable[bytes]) -> str:
    """Return a hash (12 hexadecimal digits) of parts in any order, so that renaming keys does not change it."""
    hashes = sorted(hashlib.sha256(part).digest() for part in parts)
    return hashlib.sha256(b"".join(hashes)).hexdigest()[:12]


def content(tensor: torch.Tensor) -> bytes:
    """Return the type, shape and bytes of a tensor."""
    flat = tensor.contiguous().reshape(-1).view(torch.uint8)
    return f"{tensor.dtype} {list(tensor.shape)} ".encode() + flat.numpy().tobytes()


def rounded(tensor: torch.Tensor) -> bytes:
    """Return the shape of a tensor and its values rounded to 1e-6, so that machines that sum differently agree."""
    whole = (tensor.double() * _MICRO).round().to(torch.int64)
    return f"{list(whole.shape)} ".encode() + whole.numpy().tobytes()
