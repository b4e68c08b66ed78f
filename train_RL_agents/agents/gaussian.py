"""Stochastic actions in (-1, 1): normal numbers, squashed."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from train_RL_agents.networks.features import Features
from train_RL_agents.networks.layers import ENCODED, HIDDEN, ObservationNetwork, squash, to_float32
from train_RL_agents.networks.observation import Inputs


class GaussianActor(ObservationNetwork):
    """Mean and log standard deviation of the action before squashing."""

    def __init__(self, features: Features) -> None:
        super().__init__(features)
        self.hidden_layer = nn.Linear(ENCODED, HIDDEN)
        self.hidden_layer_2 = nn.Linear(HIDDEN, HIDDEN)
        self.output_layer_mu = nn.Linear(HIDDEN, 2)
        self.output_layer_log_std = nn.Linear(HIDDEN, 2)

    def forward(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Mean and log standard deviation, [B, 2] each."""
        features = self.trunk(self.encode(inputs))
        log_std = to_float32(self.output_layer_log_std(features)).clamp(-20.0, 2.0)
        return to_float32(self.output_layer_mu(features)), log_std


def squashed_sample(shape: tuple[Tensor, Tensor], normal: Tensor) -> tuple[Tensor, Tensor]:
    """An action (2 / pi) atan(z) [B, 2] and its log density [B].

    Args:
        shape: mean and log standard deviation of z, [B, 2] each.
        normal: [B, 2] standard normal.
    """
    mean, log_std = shape
    z = mean + log_std.exp() * normal
    log_density = -0.5 * (normal.square() + math.log(2.0 * math.pi)) - log_std
    slope = math.log(2.0 / math.pi) - torch.log1p(z.square())
    return squash(z), (log_density - slope).sum(-1)
