"""Kernels that compute a step of the world instead of PyTorch's operators."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.support.validation import ConfigError, require


class StepKernel(Protocol):
    """Protocol of a kernel that computes ``World.advance`` for one configuration."""

    @property
    def advance(self) -> Any:
        """Return a function that replaces ``World.advance``; it starts an episode wherever one has ended."""


class KernelFactory(Protocol):
    """Protocol of a factory of kernels."""

    def __call__(self, config: WorldConfig, quantiles: Tensor, continuous: bool) -> StepKernel:
        """Build a kernel, or raise ConfigError where it cannot run.

        Args:
            config: configuration of the world.
            quantiles: von Mises quantile table of the radius noise, [rows, points].
            continuous: True for continuous actions, False for indices of pairs of thrust changes.
        """

    def unsupported(self, config: WorldConfig) -> str:
        """Return a description of what a configuration requires but the kernel lacks; empty if it lacks nothing."""


KERNEL_FACTORIES: dict[str, KernelFactory] = {}
"""Factories of kernels by name. The module ``NAME_world`` of this package registers its factory when imported."""


def find_kernel(name: str, config: WorldConfig) -> KernelFactory | None:
    """Return the factory of a kernel; None for ``compiled``, which uses PyTorch's operators.

    Raises:
        ConfigError: when the kernel cannot be imported or lacks something that the configuration requires.
    """
    if name == "compiled":
        return None
    try:
        import_module(f"{__name__}.{name}_world")
    except ImportError as error:
        raise ConfigError(f"execution.kernel={name}: {name} is not installed") from error
    lacks = KERNEL_FACTORIES[name].unsupported(config)
    require(not lacks, "execution.kernel", name, f"compiled with {lacks}")
    return KERNEL_FACTORIES[name]
