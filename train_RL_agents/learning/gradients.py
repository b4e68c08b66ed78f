"""Losses of a batch and their gradients, as one function of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value

from marinenav_env.runtime.compiling import compile_function
from train_RL_agents.agents import Agent, Losses
from train_RL_agents.agents.batches import LossFunction
from train_RL_agents.learning.flat import FlatWeights

GradientFunction = Callable[[Any, Any, Tensor], tuple[Tensor, Losses]]
"""Function that maps a batch, its noise and a factor (a scalar) to the gradient [N] of the factor times the total loss,
in the layout of FlatWeights, and to all losses, without gradients."""

HALF_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""Dtype of matrix products for each value of ``trainer.precision`` that is half precision."""


def in_half_precision(losses: LossFunction, device: torch.device, dtype: torch.dtype) -> LossFunction:
    """Return a loss function that computes matrix products in bfloat16 or float16.

    Outputs of networks are float32 (``to_float32``), so targets and means over the batch are not rounded. The range of
    bfloat16 is that of float32; gradients in float16 need a LossScale.
    """

    def cast(batch: Any, noise: Any) -> Losses:
        # Without the cache of cast weights, which would give the learned networks copies that were made for targets and
        # have no gradient.
        with torch.autocast(device.type, dtype, cache_enabled=False):
            return losses(batch, noise)

    return cast


class _TotalLoss(nn.Module):
    """Module whose output is the total loss of an agent, so that ``functional_call`` can replace its parameters."""

    def __init__(self, agent: Agent[Any], losses: LossFunction) -> None:
        super().__init__()
        self.agent, self._losses = agent, losses

    def forward(self, batch: Any, noise: Any, factor: Tensor) -> tuple[Tensor, Losses]:
        """Return the sum of the losses to minimise times a factor, and all losses by name without gradients."""
        losses = self._losses(batch, noise)
        minimised = [loss for name, loss in losses.items() if name.startswith("loss")]
        detached = {name: value.detach() for name, value in losses.items()}
        return torch.stack(minimised).sum() * factor, detached


def make_gradient_function(agent: Agent[Any], losses: LossFunction, flat: FlatWeights) -> GradientFunction:
    """Return a function that computes gradients by autograd; a parameter without any is a RuntimeError."""
    total_loss = _TotalLoss(agent, losses)

    def gradients(batch: Any, noise: Any, factor: Tensor) -> tuple[Tensor, Losses]:
        total, values = total_loss(batch, noise, factor)
        parts = torch.autograd.grad(total, flat.learned_parameters, allow_unused=True)
        return flat.concatenate_gradients(flat.require_all_gradients(parts)), values

    return gradients


def make_compiled_gradient_function(
    agent: Agent[Any], losses: LossFunction, flat: FlatWeights, device: torch.device
) -> GradientFunction:
    """Return a function that computes losses and their gradients, compiled into one graph.

    This avoids the overhead of autograd for every parameter of a compiled function, a tenth of the time of an update on
    a CPU. A parameter without a gradient gets zeros.
    """
    total_loss = _TotalLoss(agent, losses)
    names = [f"agent.networks.{name}" for name in flat.learned_names]

    def gradients(batch: Any, noise: Any, factor: Tensor) -> tuple[Tensor, Losses]:
        def total(parameters: Sequence[Tensor]) -> tuple[Tensor, Losses]:
            named = dict(zip(names, parameters, strict=True))
            result: tuple[Tensor, Losses] = functional_call(total_loss, named, (batch, noise, factor))
            return result

        with torch.no_grad():  # second derivatives are not needed
            parts, (_, values) = grad_and_value(total, has_aux=True)(flat.learned_parameters)
            return flat.concatenate_gradients(parts), values

    options: dict[str, Any] = {}
    if device.type == "cpu" and torch.__version__ >= "2.15":
        # One run of the C++ compiler for all kernels takes half as long as one for each. A precompiled header, which
        # no other function uses, would take 5 s and save one.
        options |= {"cpp_wrapper": True, "cpp_cache_precompile_headers": False}
    kept_for = repr((type(agent), agent.config, agent.spec)) if getattr(losses, "__self__", None) is agent else None
    # Where the code is not kept, without guards on the hundred parameters: they are never replaced.
    return compile_function(gradients, device, False, options, kept_for)
