"""How functions of tensors are run: eagerly, compiled, captured; on which device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch

from marinenav_env.runtime.compiling import compiled
from marinenav_env.runtime.loop import Loop
from marinenav_env.support.validation import at_least, at_most, check_fields

Kernel = Literal["compiled", "triton"]
Precision = Literal["auto", "fp32", "bf16", "fp16"]


@dataclass(frozen=True)
class Execution:
    """How world, policy and updates are computed."""

    device: str = "auto"
    """A torch device, or auto: a GPU if there is one, else the CPU."""
    threads: Annotated[int, at_least(0), at_most(1024)] = 0
    """CPU threads of torch, at most one per core; 0: as OMP_NUM_THREADS says, else one for each
    core that is idle when the run begins. The run keeps their number."""
    compile: bool = True
    """Compile world, policy and update; the first run then takes a minute longer."""
    capture: bool = True
    """On a GPU, launch collection and updates as CUDA graphs; without effect on a CPU."""
    kernel: Kernel = "compiled"
    """What computes a step of the world: PyTorch's operators, which the setting compile has
    compiled, or one Triton kernel on a GPU, to rounding the same. ``marinenav bench`` compares
    their speed."""
    precision: Precision = "fp32"
    """Matrix products in the losses: float32, or bfloat16 or float16 with means, targets and
    weights in float32; auto: fp32 on a CPU, bf16 on a GPU, fp16 on one without it. Policies act in
    float32."""
    tf32: bool = False
    """Round the factors of float32 matrix products to 10 bits, on GPUs from Ampere on."""
    fused_optimizer: bool = True
    """Adam's step as one kernel; else as several over all weights. Without effect on compiled
    updates."""

    def __post_init__(self) -> None:
        check_fields(self, "execution")

    def function(self, function: Callable[..., Any], device: torch.device, **options: Any) -> Callable[..., Any]:
        """Return a function of tensors, compiled if that is asked for.

        Args:
            function: of tensors.
            device: of the tensors.
            options: see compiling.compiled.
        """
        return compiled(function, device, **options) if self.compile else function

    def loop(self, step: Callable[..., tuple[Any, Any]], state: Any, device: torch.device, **options: Any) -> Loop:
        """Return what makes steps of a function and owns the state between them.

        Args:
            step: from a state and inputs to the next state and outputs.
            state: the first one.
            device: of everything that the step touches.
            options: see Loop.
        """
        settings = {"compile": self.compile, "capture": self.capture} | options
        return Loop(step, state, device, **settings)


EAGER = Execution(compile=False, capture=False)
"""Every operator by itself."""
