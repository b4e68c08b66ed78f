"""Kernels that compute a step of the world instead of PyTorch's operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.support.validation import ConfigError, require

KernelFactory = Callable[[WorldConfig, Tensor, bool], Any]
"""Factory of an object whose method ``advance`` replaces ``World.advance`` and starts an episode wherever one has
ended; its arguments are those of triton_world.TritonWorld."""


def find_kernel(name: str, config: WorldConfig) -> KernelFactory | None:
    """Return the class that steps the world by a Triton kernel for ``triton``; None for ``compiled``.

    Raises:
        ConfigError: when the kernel cannot be imported or lacks something that the configuration requires.
    """
    if name == "compiled":
        return None
    try:
        from marinenav_env.kernels.triton_world import TritonWorld
    except ImportError as error:
        raise ConfigError(f"execution.kernel={name}: {name} is not installed") from error
    lacks = TritonWorld.unsupported(config)
    require(not lacks, "execution.kernel", name, f"compiled with {lacks}")
    return TritonWorld
