"""Losses of a batch and their gradients, as one function of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value

from marinenav_env.runtime.compiling import compiled
from train_RL_agents.agents import Agent, Losses
from train_RL_agents.agents.base import LossFunction
from train_RL_agents.learning.common_subexpressions import CommonSubexpressions
from train_RL_agents.learning.flat import FlatWeights

Gradients = Callable[[Any, Any, Tensor], tuple[Tensor, Losses]]
"""From a batch, the noise for it and a factor (a scalar) to the gradient [N] of the factor times
what is minimised, laid out as FlatWeights, and all losses, without gradients."""

HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""Types of matrix products by the name of the precision."""


def in_half(losses: LossFunction, device: torch.device, dtype: torch.dtype) -> LossFunction:
    """Return the losses with matrix products in bfloat16 or float16.

    Networks give float32 again (``to_float32``), so targets and means over the batch are not
    rounded. The range of bfloat16 is that of float32; gradients in float16 need a LossScale.
    """

    def cast(batch: Any, noise: Any) -> Losses:
        # Without the cache: it would hand copies of weights made for targets, which carry no
        # gradient, to the networks that learn.
        with torch.autocast(device.type, dtype, cache_enabled=False):
            return losses(batch, noise)

    return cast


class _Minimised(nn.Module):
    """The sum of what is minimised as the output of a module, so that it depends on parameters.

    Args:
        agent: has the parameters.
        losses: its own, or others that use its networks.
    """

    def __init__(self, agent: Agent[Any], losses: LossFunction) -> None:
        super().__init__()
        self.agent, self._losses = agent, losses

    def forward(self, batch: Any, noise: Any, factor: Tensor) -> tuple[Tensor, Losses]:
        """Return the sum, times a factor; and all losses without gradients."""
        found = self._losses(batch, noise)
        own = [loss for name, loss in found.items() if name.startswith("loss")]
        known = {name: value.detach() for name, value in found.items()}
        return torch.stack(own).sum() * factor, known


def gradients_of(agent: Agent[Any], losses: LossFunction, flat: FlatWeights) -> Gradients:
    """Return the gradients of losses by autograd.

    Args:
        agent: learns.
        losses: of it.
        flat: its weights.

    Returns:
        A function that raises RuntimeError when no loss sends a gradient to a parameter.
    """
    minimised = _Minimised(agent, losses)

    def gradients(batch: Any, noise: Any, factor: Tensor) -> tuple[Tensor, Losses]:
        total, found = minimised(batch, noise, factor)
        parts = torch.autograd.grad(total, flat.learned, allow_unused=True)
        return flat.joined(flat.complete(parts)), found

    return gradients


def compiled_gradients(agent: Agent[Any], losses: LossFunction, flat: FlatWeights, device: torch.device) -> Gradients:
    """Return the same as generated code: one graph for losses and gradients.

    What autograd does around a compiled function, for every parameter of it, takes a tenth of an
    update on a CPU. A parameter without a gradient gets zeros.

    Args:
        agent: see gradients_of; its networks stay as they are.
        losses: likewise.
        flat: likewise.
        device: of all of them.
    """
    minimised = _Minimised(agent, losses)
    names = [f"agent.networks.{name}" for name in flat.learned_names]

    def gradients(batch: Any, noise: Any, factor: Tensor) -> tuple[Tensor, Losses]:
        def total(parameters: Sequence[Tensor]) -> tuple[Tensor, Losses]:
            own = dict(zip(names, parameters, strict=True))
            result: tuple[Tensor, Losses] = functional_call(minimised, own, (batch, noise, factor))
            return result

        with torch.no_grad():  # none of the gradients
            parts, (_, found) = grad_and_value(total, has_aux=True)(flat.learned)
            return flat.joined(parts), found

    further = {"post_grad_custom_pre_pass": CommonSubexpressions()}
    # A hundred parameters, which never change, would take longer to check than to use.
    return compiled(gradients, device, checks_all=False, further=further)
