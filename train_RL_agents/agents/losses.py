"""Losses and targets as pure functions of tensors; each checks the shapes it is given."""

from __future__ import annotations

import torch
from torch import Tensor


def _expect(name: str, tensor: Tensor, *shape: int) -> None:
    if tensor.shape != shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {shape}")


def td_target(reward: Tensor, discount: Tensor, next_value: Tensor) -> Tensor:
    """Targets reward + discount * next value, without gradient.

    Args:
        reward: [B] (multi-step) reward.
        discount: [B] gamma^n, 0 where the robot ended.
        next_value: [B] or [B, N], one value or N quantiles of the next observation.

    Returns:
        Shaped as next_value.
    """
    batch = reward.shape[0]
    _expect("reward", reward, batch)
    _expect("discount", discount, batch)
    _expect("next_value", next_value, batch, *next_value.shape[1:])
    columns = [1] * (next_value.ndim - 1)
    return (reward.view(batch, *columns) + discount.view(batch, *columns) * next_value).detach()


def squared_error(values: Tensor, targets: Tensor) -> Tensor:
    """Half the mean squared error of values [B] to targets [B]."""
    _expect("targets", targets, *values.shape)
    return (0.5 * (values - targets).square()).mean()


def quantile_huber(quantiles: Tensor, targets: Tensor, taus: Tensor, kappa: float = 1.0) -> Tensor:
    """Quantile regression with the Huber loss (Dabney et al. 2018, eq. 3).

    Summed over the N fractions, averaged over the M target samples and over the batch.

    Args:
        quantiles: [B, N] predicted.
        targets: [B, M] target samples.
        taus: [N] or [B, N] fractions of the predicted quantiles.
        kappa: where the loss turns from quadratic to linear.

    Returns:
        Scalar.
    """
    batch, count = quantiles.shape
    _expect("targets", targets, batch, targets.shape[-1])
    _expect("taus", taus, *((count,) if taus.ndim == 1 else (batch, count)))
    error = targets[:, None, :] - quantiles[:, :, None]
    size = error.abs()
    huber = torch.where(size <= kappa, 0.5 * error.square(), kappa * (size - 0.5 * kappa))
    weight = (taus[..., None] - (error.detach() < 0).to(error.dtype)).abs()
    return (weight * huber / kappa).mean(-1).sum(-1).mean()


def truncated_targets(values: Tensor, dropped: int) -> Tensor:
    """Combine several critics' values of the same actions into low estimates.

    Scalar critics give their minimum; quantile critics are pooled and lose their highest quantiles
    (TQC, Kuznetsov et al. 2020).

    Args:
        values: [C, B, N] from C critics with N outputs.
        dropped: outputs per critic that are left out, if N > 1.

    Returns:
        [B, 1], or [B, C (N - dropped)] in any order.
    """
    critics, batch, outputs = values.shape
    if outputs == 1:
        return values.amin(0)
    pooled = values.transpose(0, 1).reshape(batch, critics * outputs)
    # Not by sorting, which takes longer: losses take means over targets.
    for last in range(critics * outputs - 1, critics * (outputs - dropped) - 1, -1):
        highest = pooled.argmax(-1, keepdim=True)
        index = torch.arange(last, device=values.device)
        pooled = torch.where(index == highest, pooled[:, last:], pooled[:, :last])
    return pooled


def critic_error(values: Tensor, targets: Tensor, kappa: float = 1.0) -> Tensor:
    """Error of a critic: quantile regression at even fractions, or squared if it is scalar.

    Args:
        values: [B, N] quantiles, or [B, 1].
        targets: [B, M] target samples, or [B, 1].
        kappa: threshold of the quantile loss, see quantile_huber.

    Returns:
        Scalar.
    """
    count = values.shape[1]
    if count == 1:
        return squared_error(values.squeeze(-1), targets.squeeze(-1))
    taus = (torch.arange(count, device=values.device, dtype=values.dtype) + 0.5) / count
    return quantile_huber(values, targets, taus, kappa)


def categorical_targets(reward: Tensor, discount: Tensor, probabilities: Tensor, support: Tensor) -> Tensor:
    """Project the distribution of reward + discount * return back onto its atoms.

    Bellemare, Dabney and Munos 2017, algorithm 1: mass that falls between two atoms is shared
    between them by distance, and what falls outside goes to the last atom.

    Args:
        reward: [B].
        discount: [B] gamma^n, 0 where the robot ended.
        probabilities: [B, N] of the next return.
        support: [N] evenly spaced atoms.

    Returns:
        [B, N] probabilities; all that come of a reward that is NaN are 0 or NaN.
    """
    batch, count = probabilities.shape
    _expect("reward", reward, batch)
    _expect("discount", discount, batch)
    _expect("support", support, count)
    moved = reward[:, None] + discount[:, None] * support
    step = (support[-1] - support[0]) / (count - 1)
    position = ((moved.clamp(support[0], support[-1]) - support[0]) / step).clamp(0, count - 1)
    lower = position.floor().clamp_max(count - 2)
    above = position - lower
    index = lower.to(torch.int64).clamp(0, count - 2)  # NaN would become one out of bounds
    projected = torch.zeros_like(probabilities)
    projected = projected.scatter_add(1, index, probabilities * (1.0 - above))
    return projected.scatter_add(1, index + 1, probabilities * above)


def categorical_error(log_probabilities: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy [B] of predicted log probabilities [B, N] to target probabilities [B, N]."""
    _expect("targets", targets, *log_probabilities.shape)
    return -(targets * log_probabilities).sum(-1)
