"""A ban on reads of tensors by the host, which make it wait for a GPU, and on tensors made from numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class _NoReads(TorchDispatchMode):
    """Refuses operators whose result only the host can know, also deep inside others.

    It also refuses to make a tensor of Python numbers, which are copied from the host: a CUDA graph cannot do that.
    """

    REFUSED = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "_unique2", "lift_fresh")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        name = func.overloadpacket.__name__
        assert name not in self.REFUSED, f"{name} reads on the host, or copies from it"
        if name.startswith(("index", "_index")) and isinstance(args[1], list | tuple):
            masks = [index for index in args[1] if index is not None and index.dtype == torch.bool]
            assert not masks, f"{name} with a mask reads on the host"
        return func(*args, **kwargs or {})


@contextmanager
def no_host_reads() -> Iterator[None]:
    """Within it, reading a tensor's value in Python or through an operator fails."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a tensor was read on the host")

    names = (
        "item",
        "tolist",
        "numpy",
        "nonzero",
        "cpu",
        "__bool__",
        "__int__",
        "__float__",
        "__index__",
        "__array__",
        "__contains__",
    )
    patches = [patch.object(torch.Tensor, name, refuse) for name in names]
    for each in patches:
        each.start()
    try:
        with _NoReads():
            yield
    finally:
        for each in patches:
            each.stop()
