"""Running mean and variance on the device, and normalisation by them."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def merge(
    count: Tensor, mean: Tensor, variance: Tensor, values: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Count, mean and variance of more values (Chan, Golub and LeVeque 1979).

    Args:
        count: scalar.
        mean: [F].
        variance: [F].
        values: [N, F].
        weight: [N], 1 for values that count, else 0.
    """
    added = weight.sum()
    total = (count + added).clamp_min(1e-8)
    own = (values * weight[:, None]).sum(0) / added.clamp_min(1e-8)
    spread = ((values - own).square() * weight[:, None]).sum(0)
    delta = own - mean
    squares = variance * count + spread + delta.square() * count * added / total
    spread = torch.where(count + added > 0.0, squares / total, variance)
    return count + added, mean + delta * added / total, spread


class RunningNorm(nn.Module):
    """Shifts and scales features by their running mean and standard deviation.

    Args:
        width: features F.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.count: Tensor
        self.mean: Tensor
        self.variance: Tensor
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, features: Tensor) -> Tensor:
        """Normalised features [..., F], within 10 standard deviations."""
        scaled = (features - self.mean) * torch.rsqrt(self.variance + 1e-8)
        return scaled.clamp(-10.0, 10.0)

    def update(self, features: Tensor, weight: Tensor) -> None:
        """Take in features [..., F] where the weight [...] is 1."""
        flat = features.flatten(0, -2), weight.flatten().to(features.dtype)
        merged = merge(self.count, self.mean, self.variance, *flat)
        for own, new in zip((self.count, self.mean, self.variance), merged, strict=True):
            own.copy_(new)
