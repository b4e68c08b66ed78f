"""Critics Q(s, a) of DDPG and SAC, scalar or with fixed quantiles.

Twin critics with truncated targets are TD3's (Fujimoto et al. 2018); dropping the highest of the pooled quantiles is
TQC's (Kuznetsov et al. 2020).
"""

from typing import TypeVar

import torch
from torch import Tensor, nn

from train_RL_agents.agents.agent_configs import ActionCriticConfig
from train_RL_agents.agents.base import Agent, average_critics
from train_RL_agents.agents.losses import critic_loss, truncated_targets
from train_RL_agents.networks.encoders import ObservationNetwork
from train_RL_agents.networks.layers import ensemble_outputs, to_float32
from train_RL_agents.networks.observation import Observation, ObservationSpec

ConfigType = TypeVar("ConfigType", bound=ActionCriticConfig)


def action_encoder(size: int, width: int) -> nn.Module:
    """Return the published encoder of actions, whose output [..., width] multiplies that of the first hidden layer."""
    return nn.Sequential(nn.Linear(size, width), nn.ReLU())


class ActionCritic(ObservationNetwork):
    """Critic Q(s, a) with one value, or with quantiles at the fractions (i + 1/2) / N."""

    def __init__(self, config: ActionCriticConfig, spec: ObservationSpec) -> None:
        super().__init__(config, spec)
        published, sizes = config.action_input == "published", config.hidden_sizes
        self.action_encoder = action_encoder(spec.action_size, sizes[0]) if published else None
        joined = self.encoded_width if published else self.encoded_width + spec.action_size
        width = self.add_hidden(joined, sizes, config.layer_norm)
        self.output_layer = nn.Linear(width, config.quantiles if config.critic == "quantile" else 1)

    def forward(self, observation: Observation | Tensor, action: Tensor | None = None) -> Tensor:
        """Return the values [B, 1] or quantiles [B, N] of actions [B, D].

        Without actions, return the encoded observations, which can be passed in their place.
        """
        if isinstance(observation, Tensor):
            features = observation
        else:
            features = self.encode(observation)
            features = features if self.action_encoder is None else self.trunk(features, end=1)
        if action is None:
            return features
        if self.action_encoder is None:
            features = self.trunk(torch.cat((features, action), -1), end=1)
        else:
            features = features * self.action_encoder(action)
        return to_float32(self.output_layer(self.trunk(features, begin=1)))


class ActionCriticAgent(Agent[ConfigType]):
    """Base class of agents with an actor and critics Q(s, a) (DDPG, SAC)."""

    critics: list[str]

    def add_critics(self) -> None:
        """Add the critics to ``networks`` as ``critic_0``, ``critic_1``, ..., and set ``critics`` to their names."""
        self.critics = [f"critic_{index}" for index in range(self.config.critics)]
        self.networks.update({name: ActionCritic(self.config, self.spec) for name in self.critics})

    def output_networks(self) -> list[str]:
        """Return the name of the actor, the only network that ``outputs`` uses."""
        return ["actor"]

    def return_quantiles(self, observation: Observation, action: Tensor) -> Tensor | None:
        """Return the sorted quantiles [..., N] of the return of actions; None for scalar critics."""
        if self.config.critic == "scalar":
            return None
        return average_critics([self.networks[name](observation, action) for name in self.critics])

    def critics_loss(self, values: list[Tensor], targets: Tensor) -> Tensor:
        """Return the sum of ``losses.critic_loss`` over critics with outputs [B, N], for targets [B, M]; a scalar."""
        errors = [critic_loss(value, targets, self.config.kappa) for value in values]
        return torch.stack(errors).sum()

    def target_values(self, observation: Observation, action: Tensor) -> Tensor:
        """Return low estimates of the values of actions by the target critics: [B, 1], or unsorted quantiles [B, M]."""
        values = ensemble_outputs([self.targets[name] for name in self.critics], observation, action)
        return truncated_targets(torch.stack(values), self.config.dropped)
