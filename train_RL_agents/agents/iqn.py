"""IQN: implicit quantiles of the return of each discrete action (Dabney et al. 2018).

Fractions are drawn once per update, one from each of N strata, and may enter after the last hidden
layer, so that the trunk is evaluated once and not once per fraction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from marinenav_env.validation import require_numbers
from train_RL_agents.agents.base import Agent, Batch, Losses
from train_RL_agents.agents.losses import quantile_huber, td_target
from train_RL_agents.agents.quantile import (
    QuantileConfig,
    QuantileNetwork,
    draw_fractions,
    midpoints,
    risk_level,
)
from train_RL_agents.networks.observation import Inputs


@dataclass(frozen=True)
class IQNConfig(QuantileConfig):
    """Settings of IQN."""

    acting_quantiles: int = 32
    """Quantile fractions when acting, evenly spread below the risk level."""
    random_fractions: bool = False
    """While training, act on fractions drawn afresh for every robot, as published."""
    double: bool = True
    """Choose the next action with the learned network, value it with the target network."""
    dueling: bool = True
    """Separate heads for the value of the state and the advantages of the actions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_numbers(self, "agent", ("acting_quantiles",), at_least=1, at_most=1024)


class IQN(Agent[IQNConfig]):
    """See the module."""

    config_type = IQNConfig
    continuous = False
    acting = "critic_0"
    answers: ClassVar[dict[str, str]] = {
        "quantiles": "quantile of the return of each action at each fraction (scaled reward)"
    }
    rule = "the index of the highest mean over the fractions"
    supports_risk = True
    tau_midpoints: Tensor
    acting_taus: Tensor

    def __init__(self, config: IQNConfig, num_actions: int = 25) -> None:
        super().__init__(config, num_actions)
        for index in range(config.critics):
            self.networks[f"critic_{index}"] = QuantileNetwork(config, config.dueling, num_actions)
        self.make_targets(*self.networks)
        self.register_buffer("tau_midpoints", midpoints(config.quantiles), persistent=False)
        self.register_buffer("acting_taus", midpoints(config.acting_quantiles), persistent=False)

    def act(self, inputs: Inputs, risk: Tensor | None = None) -> Tensor:
        """The action of the highest mean over the quantiles below the risk level."""
        level = risk_level(self.config, inputs, risk)
        taus = self.acting_taus if level is None else level[..., None] * self.acting_taus
        return self._mean_values(inputs, taus, self.networks).argmax(-1)

    def return_quantiles(self, inputs: Inputs, action: Tensor) -> Tensor:
        """Mean of the networks' quantiles at the fractions that ``act`` averages over."""
        return torch.stack([net.of_action(inputs, self.acting_taus, action)
                            for net in _all(self.networks)]).mean(0).sort(-1).values  # fmt: skip

    def answer(self, inputs: Inputs, taus: Tensor | None = None) -> tuple[Tensor, ...]:
        """Quantiles [B, N, A] at fractions [B, N], averaged over the networks."""
        nets: Any = self.networks.values()
        return (torch.stack([net(inputs, taus) for net in nets]).mean(0),)

    def decide(self, *answers: Tensor) -> Tensor:
        """The action of the highest mean."""
        return answers[0].mean(-2).argmax(-1)

    def answering(self) -> list[str]:
        """All networks."""
        return list(self.networks)

    def answer_taus(self, inputs: Inputs) -> Tensor:
        """The fractions [B, N] of ``act``."""
        level = risk_level(self.config, inputs, None)
        if level is None:
            level = torch.ones_like(inputs.self_state[..., 0])
        return level[..., None] * self.acting_taus

    def behave(self, inputs: Inputs, random: Tensor | None) -> Tensor:
        """The action of the highest mean over the same quantiles, or over random ones."""
        taus = self.acting_taus if random is None else random
        return self._mean_values(inputs, taus, self.networks).argmax(-1)

    def exploration_noise(self, batch: torch.Size, generator: torch.Generator) -> Tensor | None:
        """Fractions [B, N], if they are to be random."""
        if not self.config.random_fractions:
            return None
        shape = (*batch, self.config.acting_quantiles)
        return torch.rand(shape, generator=generator, device=generator.device)

    def draw(self, batch_size: int, generator: torch.Generator) -> Tensor:
        """Fractions [2, N], one from each stratum."""
        return draw_fractions(self.tau_midpoints, generator)

    def losses(self, batch: Batch, random: Tensor) -> Losses:
        """Quantile regression of every network."""
        taus, target_taus = random
        with torch.no_grad():
            chooser = self.networks if self.config.double else self.targets
            choice = self._mean_values(batch.next_observation, target_taus, chooser).argmax(-1)
            target = [net.of_action(batch.next_observation, target_taus, choice)
                    for net in _all(self.targets)]  # fmt: skip
            targets = td_target(batch.reward, batch.discount, torch.stack(target).amin(0))
        chosen = [net.of_action(batch.observation, taus, batch.action)
                  for net in _all(self.networks)]  # fmt: skip
        errors = [quantile_huber(each, targets, taus, self.config.kappa) for each in chosen]
        return {
            "loss": torch.stack(errors).sum(),
            "value": chosen[0].mean(),
            "target": targets.mean(),
        }

    @staticmethod
    def _mean_values(inputs: Inputs, taus: Tensor, networks: nn.ModuleDict) -> Tensor:
        """Means over fractions and networks, [B, A]."""
        return torch.stack([net.mean(inputs, taus) for net in _all(networks)]).mean(0)


def _all(networks: nn.ModuleDict) -> list[Any]:
    return list(networks.values())
