"""Restoration of saved tensors."""

from typing import Any


def restore_tensors(target: Any, values: dict[Any, Any]) -> None:
    """Copy a nested dict of tensors, in place, into a tensorclass, tensordict or dict of the same structure.

    A RuntimeError says which tensor is missing or unknown, of another type or shape, or not finite.
    """
    if values.keys() != set(target.keys()):
        different = ", ".join(sorted(map(str, values.keys() ^ set(target.keys()))))
        raise RuntimeError(f"{different}: missing or unknown")
    for name, value in values.items():
        tensor = target.get(name)
        if isinstance(value, dict):
            restore_tensors(tensor, value)
            continue
        if tensor.shape != value.shape:
            raise RuntimeError(f"{name} is {list(value.shape)}, here {list(tensor.shape)}")
        if tensor.dtype != value.dtype:
            raise RuntimeError(f"{name} is {value.dtype}, here {tensor.dtype}")
        if value.is_floating_point() and not value.isfinite().all():  # host: loading a checkpoint
            raise RuntimeError(f"{name} is not finite")
        tensor.copy_(value)
