"""Noisy linear layers for exploration (Fortunato et al. 2018)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class NoisyLinear(nn.Module):
    """Linear layer with factorised noise in its weights.

    The noise is an argument, because it is drawn outside compiled code, from the run's own generator.
    """

    def __init__(self, inputs: int, outputs: int, sigma_0: float) -> None:
        super().__init__()
        self.inputs, self.outputs = inputs, outputs
        bound, sigma = 1.0 / math.sqrt(inputs), sigma_0 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), sigma))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), sigma))

    def forward(self, features: Tensor, noise: Tensor | None) -> Tensor:
        """Map features [..., inputs] to [..., outputs]; noise is standard normal [inputs + outputs], or None."""
        plain = nn.functional.linear(features, self.weight, self.bias)
        if noise is None:
            return plain
        rows, columns = (noise.sign() * noise.abs().sqrt()).split((self.inputs, self.outputs))
        # The weights' noise is the outer product of rows and columns.
        noisy = nn.functional.linear(features * rows, self.weight_sigma, self.bias_sigma)
        return plain + noisy * columns
