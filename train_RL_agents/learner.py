"""The learner: losses, gradients, optimiser, slow and averaged copies of the weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch._functorch.config
from torch import Tensor, nn

from train_RL_agents.agents import Agent, Batch, Losses
from train_RL_agents.config import TrainerConfig
from train_RL_agents.distributed import Ranks


def mix_in(slow: nn.Module, fast: nn.Module, share: float) -> None:
    """Move the parameters of ``slow`` towards those of ``fast`` by a share of the way."""
    with torch.no_grad():
        torch._foreach_lerp_(list(slow.parameters()), list(fast.parameters()), share)


def compiled(losses: Callable[..., Losses]) -> Callable[..., Losses]:
    """The same losses in generated code.

    The backward pass recomputes what is cheap: by default masks of ReLUs are kept as booleans,
    which generated CPU code writes one by one, a third of the time of an update.
    """
    torch._functorch.config.aggressive_recomputation = True
    result: Callable[..., Losses] = torch.compile(losses, fullgraph=True)
    return result


def cosine(progress: float, first: float, last: float) -> float:
    """Fall from first to last along half a cosine as progress goes from 0 to 1."""
    return last + 0.5 * (first - last) * (1.0 + math.cos(math.pi * min(progress, 1.0)))


class Learner:
    """Updates an agent from batches.

    Args:
        agent: on its device.
        config: rates, clipping, targets.
        generator: randomness of the updates, on the agent's device.
        compile: whether the losses are compiled.
        ranks: the processes that gradients are averaged over; None for this one alone.
    """

    def __init__(
        self,
        agent: Agent[Any],
        config: TrainerConfig,
        generator: torch.Generator,
        compile: bool,
        ranks: Ranks | None = None,
    ) -> None:
        self.agent, self.config, self._generator = agent, config, generator
        self.averaged = copy.deepcopy(agent).requires_grad_(False)
        self._parameters = list(agent.networks.parameters())
        self.optimizer = torch.optim.Adam(self._parameters, lr=config.learning_rate, fused=True)
        losses = compiled(agent.losses) if compile else agent.losses
        self._losses = losses if ranks is None else ranks.share_gradients(agent, losses)
        self.updates = 0

    def set_progress(self, progress: float) -> None:
        """Set the step size for this share of the run done."""
        rate = cosine(progress, self.config.learning_rate, self.config.learning_rate_final)
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def update(self, batch: Batch) -> tuple[dict[str, Tensor], Tensor | None]:
        """One gradient step.

        Returns:
            Scalars for the log, and priorities [B] if the agent gives them; all on the device.
        """
        random = self.agent.draw(batch.reward.shape[0], self._generator)
        losses = self._losses(batch, random)
        priority = losses.pop("priority", None)
        total = torch.stack([loss for name, loss in losses.items() if name.startswith("loss")])
        self.optimizer.zero_grad(set_to_none=True)
        total.sum().backward()
        norm = nn.utils.clip_grad_norm_(self._parameters, self.config.max_grad_norm, foreach=True)
        self.optimizer.step()
        self.updates += 1
        if self.config.target_update_interval == 0:
            self.update_targets()
        decay = min(self.config.average_decay, self.updates / (self.updates + 10.0))
        mix_in(self.averaged.networks, self.agent.networks, 1.0 - decay)
        scalars = {name: value.detach() for name, value in losses.items()}
        return scalars | {"grad_norm": norm}, priority

    def update_targets(self) -> None:
        """Move the target networks towards the learned ones."""
        for name, target in self.agent.targets.items():
            mix_in(target, self.agent.networks[name], self.config.tau)

    def state_dict(self) -> dict[str, Any]:
        """Weights (learned, slow, averaged), optimiser and counter."""
        return {
            "agent": self.agent.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore them."""
        self.agent.load_state_dict(state["agent"])
        self.averaged.load_state_dict(state["averaged"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.updates = state["updates"]


class Meter:
    """Means of scalars, accumulated on the device and read once per log entry."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._count = 0

    def add(self, values: dict[str, Tensor]) -> None:
        """Add one set of scalars."""
        for name, value in values.items():
            self._sums[name] = self._sums[name] + value if self._count else value
        self._count += 1

    def read(self, others: dict[str, Tensor] | None = None) -> dict[str, float]:
        """The means since the last reading, and other scalars as they are, in one transfer."""
        means = {name: total / self._count for name, total in self._sums.items()}
        scalars = means | (others or {})
        self._sums, self._count = {}, 0
        if not scalars:
            return {}
        values: Iterable[float] = torch.stack([each.float() for each in scalars.values()]).tolist()
        return dict(zip(scalars, values, strict=True))

    def state_dict(self) -> dict[str, Any]:
        """What has not been read yet."""
        return {"sums": dict(self._sums), "count": self._count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore it."""
        self._sums, self._count = dict(state["sums"]), state["count"]
