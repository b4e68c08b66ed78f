"""Networks of continuous policies."""

import math

import torch
from torch import Tensor, nn

from train_RL_agents.networks.encoder_config import EncoderConfig
from train_RL_agents.networks.encoders import ObservationNetwork
from train_RL_agents.networks.layers import squash, to_float32
from train_RL_agents.networks.observation import Observation, ObservationSpec


class Actor(ObservationNetwork):
    """Network that maps observations to actions with components in (-1, 1)."""

    def __init__(self, config: EncoderConfig, spec: ObservationSpec) -> None:
        super().__init__(config, spec)
        width = self.add_hidden(self.encoded_width, config.hidden_sizes)
        self.output_layer = nn.Linear(width, spec.action_size)

    def forward(self, observation: Observation) -> Tensor:
        """Return the actions [B, D] for observations [B]."""
        return squash(self.pre_activation(observation))

    def pre_activation(self, observation: Observation) -> Tensor:
        """Return the actions [B, D] before squashing."""
        return to_float32(self.output_layer(self.trunk(self.encode(observation))))


class GaussianActor(ObservationNetwork):
    """Network that maps observations to mean and log standard deviation of a normal action before squashing."""

    def __init__(self, config: EncoderConfig, spec: ObservationSpec) -> None:
        super().__init__(config, spec)
        width = self.add_hidden(self.encoded_width, config.hidden_sizes)
        self.output_layer_mu = nn.Linear(width, spec.action_size)
        self.output_layer_log_std = nn.Linear(width, spec.action_size)

    def forward(self, observation: Observation) -> tuple[Tensor, Tensor]:
        """Return the mean and log standard deviation, [B, D] each."""
        features = self.trunk(self.encode(observation))
        log_std = to_float32(self.output_layer_log_std(features)).clamp(-20.0, 2.0)
        return to_float32(self.output_layer_mu(features)), log_std


def normal_log_density(value: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Return the log density of each component of values [..., D] under independent normal distributions."""
    normal = (value - mean) * torch.exp(-log_std)
    return -0.5 * (normal.square() + math.log(2.0 * math.pi)) - log_std


def squash_log_derivative(value: Tensor) -> Tensor:
    """Return the logarithm of the derivative of ``squash`` at values, elementwise."""
    return math.log(2.0 / math.pi) - torch.log1p(value.square())


def sample_squashed(parameters: tuple[Tensor, Tensor], normal: Tensor) -> tuple[Tensor, Tensor]:
    """Return actions (2 / pi) atan(z) [B, D] and their log density [B], for mean and log standard deviation of z."""
    mean, log_std = parameters
    z = mean + log_std.exp() * normal
    log_density = -0.5 * (normal.square() + math.log(2.0 * math.pi)) - log_std
    return squash(z), (log_density - squash_log_derivative(z)).sum(-1)
