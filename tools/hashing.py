"""Hashes of nested tensors that do not depend on names and order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

_ROUNDING_FACTOR = 1e6
"""Number of steps per unit to which rounded_bytes rounds."""


def iterate_tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield all tensors in nested dicts, lists and tuples."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for child in value.values():
            yield from iterate_tensors(child)
    elif isinstance(value, list | tuple):
        for child in value:
            yield from iterate_tensors(child)


def unordered_hash(parts: Iterable[bytes]) -> str:
    """Return a hash (12 hexadecimal digits) of parts that does not depend on their order, as of the keys of a dict."""
    hashes = sorted(hashlib.sha256(part).digest() for part in parts)
    return hashlib.sha256(b"".join(hashes)).hexdigest()[:12]


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    """Return type, shape and content of a tensor as bytes."""
    flat = tensor.contiguous().reshape(-1).view(torch.uint8)
    return f"{tensor.dtype} {list(tensor.shape)} ".encode() + flat.numpy().tobytes()


def rounded_bytes(tensor: torch.Tensor) -> bytes:
    """Return shape and values of a tensor, rounded to 1e-6, as bytes, on which machines that sum differently agree."""
    whole = (tensor.double() * _ROUNDING_FACTOR).round().to(torch.int64)
    return f"{list(whole.shape)} ".encode() + whole.numpy().tobytes()
