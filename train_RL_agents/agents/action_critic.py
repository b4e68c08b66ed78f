"""Critics of given actions, scalar or with fixed quantiles, as DDPG and SAC share them.

Twin critics with pessimistic targets are TD3's (Fujimoto et al. 2018); dropping the highest of the
pooled quantiles is TQC's (Kuznetsov et al. 2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from marinenav_env.validation import require, require_numbers
from train_RL_agents.agents.base import AgentConfig
from train_RL_agents.losses import critic_error, pessimistic
from train_RL_agents.networks import ENCODED, HIDDEN, Inputs, ObservationNetwork, hidden, widened


@dataclass(frozen=True)
class ActionCriticConfig(AgentConfig):
    """Settings of the critics."""

    critic: Literal["scalar", "quantile"] = "quantile"
    """One value per action, or fixed quantiles of its return."""
    quantiles: int = 25
    """Quantiles of a quantile critic."""
    dropped: int = 2
    """Highest quantiles of each critic that targets leave out."""
    critics: int = 2
    """Independent critics; targets are pessimistic over them."""
    action_input: Literal["early", "published"] = "early"
    """Where the action enters: at the input, or as a factor after the first hidden layer."""
    layer_norm: bool = True
    """LayerNorm in the hidden layers of the critics."""

    def __post_init__(self) -> None:
        require_numbers(self, "agent", ("quantiles",), at_least=1, at_most=1024)
        require_numbers(self, "agent", ("critics",), at_least=1, at_most=10)
        fine = 0 <= self.dropped < self.quantiles
        require(fine, "agent.dropped", self.dropped, f"from 0 to {self.quantiles - 1}")


class ActionCritic(ObservationNetwork):
    """Values of given actions: one, or quantiles at fractions (i + 1/2) / N."""

    def __init__(self, config: ActionCriticConfig) -> None:
        super().__init__(config.features)
        published = config.action_input == "published"
        joined = ENCODED if published else ENCODED + 2
        self.action_encoder = nn.Sequential(nn.Linear(2, HIDDEN), nn.ReLU()) if published else None
        self.hidden_layer = hidden(joined, HIDDEN, config.layer_norm)
        self.hidden_layer_2 = hidden(HIDDEN, HIDDEN, config.layer_norm)
        self.output_layer = nn.Linear(
            HIDDEN, config.quantiles if config.critic == "quantile" else 1
        )

    def forward(self, inputs: Inputs, action: Tensor) -> Tensor:
        """Values [B, N] of actions [B, 2]."""
        features = self.encode(inputs)
        if self.action_encoder is None:
            features = torch.relu(self.hidden_layer(torch.cat((features, action), -1)))
        else:
            features = torch.relu(self.hidden_layer(features)) * self.action_encoder(action)
        return widened(self.output_layer(torch.relu(self.hidden_layer_2(features))))


def add_critics(networks: nn.ModuleDict, config: ActionCriticConfig) -> list[str]:
    """Add the critics to an agent's networks; returns their names."""
    names = [f"critic_{index}" for index in range(config.critics)]
    networks.update({name: ActionCritic(config) for name in names})
    return names


def pessimistic_values(
    critics: list[nn.Module], inputs: Inputs, action: Tensor, dropped: int
) -> Tensor:
    """Low estimates [B, M] of the values of actions by several critics; see losses.pessimistic."""
    return pessimistic(torch.stack([critic(inputs, action) for critic in critics]), dropped)


def critics_quantiles(critics: list[nn.Module], inputs: Inputs, action: Tensor) -> Tensor:
    """Ascending quantiles [B, N] of the returns of actions, mean over quantile critics."""
    return torch.stack([critic(inputs, action) for critic in critics]).mean(0).sort(-1).values


def critics_error(values: list[Tensor], targets: Tensor) -> Tensor:
    """Sum of the errors of several critics; see losses.critic_error."""
    return torch.stack([critic_error(each, targets) for each in values]).sum()
