"""A GPU that is not there: tensors with shapes, types and a CUDA device, but without values.

What is computed with them is not known, but where: torch refuses to mix devices, and there is
nothing that the host could read. Gradients are taken as given, since autograd wants a driver.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torchrl.envs import EnvBase

GPU = torch.device("cuda", 0)
_READ = torch.ops.aten._local_scalar_dense.default
_COMPARE = torch.ops.aten.allclose.default
_DISTINCT = torch.ops.aten._unique2.default


class _FakeGpu(FakeTensorMode):
    """Fakes tensors; until it is strict, as setting up may read, every value is 1."""

    strict = False

    def __deepcopy__(self, memo: Any) -> Any:
        # Copies of fake tensors would copy their mode, and free its weak references twice.
        return self

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self.strict and func is _READ:
            return True
        if not self.strict and func is _COMPARE:
            return True
        if not self.strict and func is _DISTINCT:
            with self:
                index = torch.zeros_like(args[0], dtype=torch.int64)
                return args[0].flatten()[:1], index, index[:0]
        return super().__torch_dispatch__(func, types, args, kwargs)


class _Generator(torch.Generator):
    """Says that it is on a GPU."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return super().__new__(cls, "cpu")

    def __init__(self, device: Any = "cpu") -> None:
        self._device = torch.device(device)

    @property
    def device(self) -> torch.device:
        return self._device


class _OnlyGpu(TorchDispatchMode):
    """Refuses operators that a tensor on the CPU has a part in, such as copies to a GPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **kwargs or {})
        for each in tree_leaves((args, kwargs, result)):
            at_home = isinstance(each, Tensor) and each.device.type != "cuda"
            assert not at_home, f"{func} has to do with a tensor on the CPU"
        return result


@contextmanager
def fake_gpu() -> Iterator[_FakeGpu]:
    """Within it, everything on ``GPU`` is faked."""

    def backward(loss: Tensor) -> None:
        assert loss.shape == ()
        assert loss.requires_grad

    with (
        patch.object(torch, "Generator", _Generator),
        patch.object(Tensor, "backward", backward),
        patch.object(EnvBase, "_reset_check_done", lambda *_: None),
        _FakeGpu(allow_non_fake_inputs=True) as mode,
    ):
        yield mode


@contextmanager
def only(mode: _FakeGpu) -> Iterator[None]:
    """Within it, everything must stay on the GPU, unread."""
    mode.strict = True
    try:
        with _OnlyGpu():
            yield
    finally:
        mode.strict = False
