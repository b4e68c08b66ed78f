"""Networks of stochastic policies with a value function, and their settings.

The value is a function of a robot's own observation, or of the observations of all active robots of its environment
(MAPPO, Yu et al. 2022).
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Literal, Self

import torch
from torch import Tensor, nn

from marinenav_env.support.validation import NonNegativeFloat, at_least, at_most, require
from train_RL_agents.agents.base import AgentConfig
from train_RL_agents.networks.encoders import EncoderConfig, LayerWidth, LayerWidths, ObservationNetwork
from train_RL_agents.networks.layers import init_orthogonal, to_float32
from train_RL_agents.networks.observation import ACTIVE_KEY, Observation, ObservationSpec


@dataclass(frozen=True)
class ActorCriticConfig(AgentConfig):
    """Settings of agents with a stochastic policy and a value function (PPO, A2C)."""

    encoder: Literal["concat", "max", "attention"] = "max"
    """Pooling of the encoded objects: concatenation slot by slot, maximum, or attention; the latter two take any number
    of objects in any order."""
    self_width: LayerWidth = 32
    """Units of the encoder of the vessel's own state, and of additional vectors."""
    object_width: LayerWidth = 32
    """Units of the encoder of each object."""
    hidden_sizes: LayerWidths = (64, 64)
    """Units of each hidden layer."""
    actions: Literal["auto", "categorical", "gaussian", "clipped_gaussian"] = "auto"
    """Distribution of the actions: categorical over the thrust pairs; normal, squashed into (-1, 1); or normal, clipped
    to [-1, 1]; "auto" is gaussian in an environment with continuous actions, else categorical."""
    log_std: Annotated[float, at_least(-10.0), at_most(2.0)] = -0.5
    """Initial log standard deviation of normal actions."""
    critic: Literal["own", "fleet"] = "own"
    """Input of the value function: a robot's own observation, or those of all active robots of its environment."""
    normalize_observations: bool = False
    """Normalise the inputs of encoders by their running mean and standard deviation."""
    value_coef: NonNegativeFloat = 0.5
    """Weight of the value loss."""
    entropy: NonNegativeFloat = 0.001
    """Weight of the entropy at the start of the run."""
    entropy_final: NonNegativeFloat = 0.0
    """Weight of the entropy at the end of the run; it falls linearly."""

    def with_actions(self, num_actions: int) -> Self:
        """Return the settings for an environment; with at most one discrete action, its actions are continuous."""
        if self.actions != "auto":
            return self
        return replace(self, actions="gaussian" if num_actions <= 1 else "categorical")

    def __post_init__(self) -> None:
        super().__post_init__()
        has_effect = self.actions != "categorical" or self.log_std == type(self).log_std
        require(has_effect, "agent.log_std", self.log_std, "left out: it has no effect on categorical actions")


class ActorCriticNetwork(ObservationNetwork):
    """Network with a shared encoder that returns parameters of the action distribution and the value of the state."""

    def __init__(self, config: ActorCriticConfig, num_actions: int, spec: ObservationSpec) -> None:
        super().__init__(config, spec, config.normalize_observations)
        config = config.with_actions(num_actions)
        is_normal = config.actions != "categorical"
        size = spec.action_size
        outputs = size if is_normal else num_actions
        width = self.add_hidden(self.encoded_width, config.hidden_sizes)
        self.output_layer, self.value_layer = nn.Linear(width, outputs), nn.Linear(width, 1)
        self.log_std = nn.Parameter(torch.full((size,), config.log_std)) if is_normal else None
        self.fleet = FleetTrunk(self.encoded_width, config) if config.critic == "fleet" else None
        init_orthogonal(self, math.sqrt(2.0))
        init_orthogonal(self.output_layer, 0.01)
        init_orthogonal(self.value_layer, 1.0)

    def forward(self, observation: Observation) -> tuple[Tensor, Tensor]:
        """Return the parameters of the action distribution and the values [B] for observations [B].

        The parameters are logits [B, A], or means and log standard deviations [B, 2D].
        """
        encoded = self.encode(observation)
        features = self.trunk(encoded)
        value_features = features if self.fleet is None else self.fleet(encoded, observation[ACTIVE_KEY])
        return self._heads(features), to_float32(self.value_layer(value_features)).squeeze(-1)

    def policy(self, observation: Observation) -> Tensor:
        """Return the parameters of the action distribution for observations [B]; see ``forward``."""
        return self._heads(self.trunk(self.encode(observation)))

    def _heads(self, features: Tensor) -> Tensor:
        """Return the parameters of the action distribution for the output [B, H] of the last hidden layer."""
        outputs = to_float32(self.output_layer(features))
        if self.log_std is not None:
            return torch.cat((outputs, self.log_std.expand_as(outputs)), -1)
        return outputs


class FleetTrunk(nn.Module):
    """Hidden layers of the value of a fleet, for a robot's own features and the mean of those of all active robots."""

    def __init__(self, encoded_width: int, config: EncoderConfig) -> None:
        super().__init__()
        sizes = (2 * encoded_width, *config.hidden_sizes)
        layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
        self.layers = nn.Sequential(*(module for layer in layers for module in (layer, nn.ReLU())))

    def forward(self, encoded: Tensor, active: Tensor) -> Tensor:
        """Return the output [..., R, H] for encoded observations [..., R, F] and the mask [..., R] of active robots."""
        present = active.to(encoded.dtype)[..., None]
        count = present.sum(-2, keepdim=True).clamp_min(1.0)
        mean = (encoded * present).sum(-2, keepdim=True) / count
        joined: Tensor = self.layers(torch.cat((encoded, mean.expand_as(encoded)), -1))
        return joined
