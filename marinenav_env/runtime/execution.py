"""Settings of the execution of tensor functions: device, compilation, CUDA graphs, precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch

from marinenav_env.runtime.loop import Loop
from marinenav_env.support.validation import at_least, at_most, check_fields

KernelName = Literal["compiled", "triton"]
"""Implementation of a step of the world: PyTorch's operators, or one Triton kernel."""
PrecisionName = Literal["auto", "fp32", "bf16", "fp16"]


@dataclass(frozen=True)
class Execution:
    """Execution settings: device, threads, compilation, CUDA graphs and precision."""

    device: str = "auto"
    """Torch device, or auto: a GPU if there is one, else the CPU."""
    threads: Annotated[int, at_least(0), at_most(1024)] = 0
    """Number of CPU threads of torch, at most one per core; 0: OMP_NUM_THREADS if set, else one per
    core that is idle when the run begins. The number stays the same during the run."""
    compile: bool = True
    """Compile the world, the policy and the update; the first run then takes a minute longer."""
    capture: bool = True
    """Launch collection and updates as CUDA graphs on a GPU; without effect on a CPU."""
    kernel: KernelName = "compiled"
    """Kernel of a step of the world: compiled (PyTorch's operators, compiled by the setting compile)
    or triton (one Triton kernel on a GPU, equal up to rounding). ``marinenav bench`` compares their
    speed."""
    precision: PrecisionName = "fp32"
    """Precision of matrix products in the losses: float32, or bfloat16 or float16 with means, targets
    and weights in float32; auto: fp32 on a CPU, bf16 on a GPU, fp16 on a GPU without bf16. Policies act
    in float32."""
    tf32: bool = False
    """Round the factors of float32 matrix products to 10 bits of mantissa (TF32), on GPUs from Ampere on."""
    fused_optimizer: bool = True
    """Compute Adam's step for all weights by one fused kernel instead of several. Without effect on
    compiled updates."""

    def __post_init__(self) -> None:
        check_fields(self, "execution")

    def make_loop(self, step: Callable[..., tuple[Any, Any]], state: Any, device: torch.device, **options: Any) -> Loop:
        """Return a Loop, which calls ``step`` repeatedly, owns the state, and may compile or capture the step.

        Args:
            step: function that takes a state and inputs, and returns a tuple of the next state and outputs.
            state: initial state, as tensors in tuples, dicts or TensorDicts.
            device: device of all tensors of the step.
            **options: keyword arguments of Loop; ``compile`` and ``capture`` among them override these settings.
        """
        settings = {"compile": self.compile, "capture": self.capture} | options
        return Loop(step, state, device, **settings)


EAGER_EXECUTION = Execution(compile=False, capture=False)
"""Execution settings without compilation and without CUDA graphs."""
