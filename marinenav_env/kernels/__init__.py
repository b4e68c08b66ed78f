"""Kernels that compute a step of the world in place of PyTorch's operators."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.support.validation import ConfigError, require


class StepKernel(Protocol):
    """Kernel that computes ``World.advance`` for one configuration."""

    @property
    def advance(self) -> Any:
        """Return a function like ``World.advance``, which starts an episode wherever one has ended."""


class MakeKernel(Protocol):
    """Factory of kernels."""

    def __call__(self, config: WorldConfig, quantiles: Tensor, continuous: bool) -> StepKernel:
        """Make a kernel; raises ConfigError where it cannot run.

        Args:
            config: configuration of the world.
            quantiles: von Mises quantile table of the radius noise.
            continuous: whether actions are continuous or indices of pairs of thrust changes.
        """

    def covers(self, config: WorldConfig) -> str:
        """Return what a configuration needs and the kernel lacks, in words; empty if nothing."""


KERNELS: dict[str, MakeKernel] = {}
"""Kernels by name. The module ``NAME_world`` of this package registers its kernel when imported."""


def find_kernel(name: str, config: WorldConfig) -> MakeKernel | None:
    """Return the factory of a kernel; None for ``compiled``, which uses PyTorch's operators.

    Raises:
        ConfigError: when it cannot be imported or lacks something that the configuration asks for.
    """
    if name == "compiled":
        return None
    try:
        import_module(f"{__name__}.{name}_world")
    except ImportError as error:
        raise ConfigError(f"execution.kernel={name}: {name} is not installed") from error
    lacks = KERNELS[name].covers(config)
    require(not lacks, "execution.kernel", name, f"compiled with {lacks}")
    return KERNELS[name]
