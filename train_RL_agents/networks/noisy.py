"""Noisy linear layers for exploration (Fortunato et al. 2018)."""

import math

import torch
from torch import Tensor, nn


class NoisyLinear(nn.Module):
    """Linear layer with factorised noise in its weights, an argument, as it is drawn outside compiled code."""

    def __init__(self, in_features: int, out_features: int, sigma_0: float) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        bound, sigma = 1.0 / math.sqrt(in_features), sigma_0 / math.sqrt(in_features)
        self.weight = nn.Parameter(torch.empty(out_features, in_features).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((out_features, in_features), sigma))
        self.bias_sigma = nn.Parameter(torch.full((out_features,), sigma))

    def forward(self, features: Tensor, noise: Tensor | None) -> Tensor:
        """Return the output [..., out_features] for standard normal noise [in_features + out_features], or without."""
        plain = nn.functional.linear(features, self.weight, self.bias)
        if noise is None:
            return plain
        rows, columns = (noise.sign() * noise.abs().sqrt()).split((self.in_features, self.out_features))
        # The weights' noise is the outer product of rows and columns.
        noisy = nn.functional.linear(features * rows, self.weight_sigma, self.bias_sigma)
        return plain + noisy * columns
