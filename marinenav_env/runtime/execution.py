"""Settings of the execution of tensor functions: device, threads, compilation, CUDA graphs; torch is not imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from marinenav_env.support.validation import at_least, at_most, check_fields

if TYPE_CHECKING:
    import torch

    from marinenav_env.runtime.loop import Loop


@dataclass(frozen=True)
class Execution:
    """Execution settings: device, threads, compilation and CUDA graphs."""

    device: str = "auto"
    """Torch device, or auto: a GPU if there is one, else the CPU."""
    threads: Annotated[int, at_least(0), at_most(1024)] = 0
    """Number of CPU threads of torch, at most one per core; 0: OMP_NUM_THREADS if set, else one for each core that
    other programs leave idle. That number follows the load during the run, and each change is logged."""
    compile: bool = True
    """Compile the world, the policy and the update; the first run then takes a minute longer."""
    capture: bool = True
    """Launch collection and updates as CUDA graphs on a GPU; without effect on a CPU."""

    def __post_init__(self) -> None:
        check_fields(self, "execution")

    def make_loop(self, step: Callable[..., tuple[Any, Any]], state: Any, device: torch.device, **options: Any) -> Loop:
        """Return a Loop; ``compile`` and ``capture`` among its options override these settings."""
        from marinenav_env.runtime.loop import Loop

        settings = {"compile": self.compile, "capture": self.capture} | options
        return Loop(step, state, device, **settings)


EAGER_EXECUTION = Execution(compile=False, capture=False)
"""Execution settings without compilation and without CUDA graphs."""
