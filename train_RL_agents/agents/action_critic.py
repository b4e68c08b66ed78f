"""Critics Q(s, a) of DDPG and SAC, scalar or with fixed quantiles.

Twin critics with truncated targets are TD3's (Fujimoto et al. 2018); dropping the highest of the pooled quantiles is
TQC's (Kuznetsov et al. 2020).
"""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

import torch
from torch import Tensor, nn

from marinenav_env.support.validation import PositiveFloat, at_least, at_most, require
from train_RL_agents.agents.base import Agent, AgentConfig
from train_RL_agents.agents.losses import critic_loss, truncated_targets
from train_RL_agents.networks.encoders import ObservationNetwork
from train_RL_agents.networks.layers import ensemble_outputs, to_float32
from train_RL_agents.networks.observation import Observation, ObservationSpec


@dataclass(frozen=True)
class ActionCriticConfig(AgentConfig):
    """Settings of the critics of DDPG and SAC."""

    critic: Literal["scalar", "quantile"] = "quantile"
    """Output of a critic: one value per action, or quantiles of its return at fixed fractions."""
    quantiles: Annotated[int, at_least(1), at_most(1024)] = 25
    """Number of quantiles of a quantile critic."""
    kappa: PositiveFloat = 10.0
    """Threshold of the Huber loss of a quantile critic (scaled reward); see QuantileConfig."""
    dropped: int = 2
    """Number of the highest quantiles of each critic that are left out of the targets."""
    critics: Annotated[int, at_least(1), at_most(10)] = 2
    """Number of independent critics; targets are low estimates over them."""
    action_input: Literal["early", "published"] = "early"
    """How the action enters the critic: early, concatenated with the encoded observation; or published, encoded and
    multiplied with the output of the first hidden layer."""
    layer_norm: bool = True
    """LayerNorm in the hidden layers of the critics."""

    def __post_init__(self) -> None:
        super().__post_init__()
        is_valid = 0 <= self.dropped < self.quantiles
        require(is_valid, "agent.dropped", self.dropped, f"from 0 to {self.quantiles - 1}")


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
    """Names of the critics among ``networks``."""

    def add_critics(self) -> None:
        """Add the critics to ``networks`` as ``critic_0``, ``critic_1``, ..., and set ``critics`` to their names."""
        self.critics = [f"critic_{index}" for index in range(self.config.critics)]
        self.networks.update({name: ActionCritic(self.config, self.spec) for name in self.critics})

    def output_networks(self) -> list[str]:
        """Return the name of the actor, the only network that ``outputs`` uses."""
        return ["actor"]

    def critic_quantiles(self, observation: Observation, action: Tensor) -> Tensor | None:
        """Return the quantiles [C, ..., N] of the return of actions, or None for scalar critics."""
        if self.config.critic == "scalar":
            return None
        return torch.stack([self.networks[name](observation, action) for name in self.critics])

    def critics_loss(self, values: list[Tensor], targets: Tensor) -> Tensor:
        """Return the sum of ``losses.critic_loss`` over critics with outputs [B, N], for targets [B, M]; a scalar."""
        errors = [critic_loss(value, targets, self.config.kappa) for value in values]
        return torch.stack(errors).sum()

    def target_values(self, observation: Observation, action: Tensor) -> Tensor:
        """Return low estimates of the values of actions by the target critics: [B, 1], or unsorted quantiles [B, M]."""
        values = ensemble_outputs([self.targets[name] for name in self.critics], observation, action)
        return truncated_targets(torch.stack(values), self.config.dropped)
