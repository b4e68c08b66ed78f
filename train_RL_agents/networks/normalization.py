"""Running mean and variance on the device, and normalisation by them."""

import torch
from torch import Tensor, nn


def merge_moments(
    count: Tensor, mean: Tensor, variance: Tensor, values: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return count, mean [F] and variance [F] after values [N, F] are added (Chan, Golub and LeVeque 1979).

    Values that count have the weight 1, others 0.
    """
    added = weight.sum()
    total = (count + added).clamp_min(1e-8)
    batch_mean = (values * weight[:, None]).sum(0) / added.clamp_min(1e-8)
    spread = ((values - batch_mean).square() * weight[:, None]).sum(0)
    delta = batch_mean - mean
    squares = variance * count + spread + delta.square() * count * added / total
    spread = torch.where(count + added > 0.0, squares / total, variance)
    return count + added, mean + delta * added / total, spread


class RunningNorm(nn.Module):
    """Normalisation of features by their running mean and standard deviation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.count: Tensor
        self.mean: Tensor
        self.variance: Tensor
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, features: Tensor) -> Tensor:
        """Return the normalised features [..., F], clipped to 10 standard deviations."""
        scaled = (features - self.mean) * torch.rsqrt(self.variance + 1e-8)
        return scaled.clamp(-10.0, 10.0)

    def update(self, features: Tensor, weight: Tensor) -> None:
        """Add to the statistics the features [..., F] whose weight [...] is 1; all others have weight 0."""
        flat = features.flatten(0, -2), weight.flatten().to(features.dtype)
        merged = merge_moments(self.count, self.mean, self.variance, *flat)
        for buffer, value in zip((self.count, self.mean, self.variance), merged, strict=True):
            buffer.copy_(value)
