"""Losses and targets as pure functions of tensors that check the shapes of their arguments."""

from __future__ import annotations

import torch
from torch import Tensor


def _check_shape(name: str, tensor: Tensor, *shape: int) -> None:
    """Raise a ValueError unless the tensor called ``name`` has the given shape."""
    if tensor.shape != shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {shape}")


def td_target(reward: Tensor, discount: Tensor, next_value: Tensor) -> Tensor:
    """Return the targets reward + discount * next value, without gradient.

    Args:
        reward: (multi-step) reward [B].
        discount: gamma^n [B], 0 where the robot terminated.
        next_value: value [B] or quantiles [B, N] of the next observation.

    Returns:
        Targets of the shape of next_value.
    """
    batch = reward.shape[0]
    _check_shape("reward", reward, batch)
    _check_shape("discount", discount, batch)
    _check_shape("next_value", next_value, batch, *next_value.shape[1:])
    columns = [1] * (next_value.ndim - 1)
    return (reward.view(batch, *columns) + discount.view(batch, *columns) * next_value).detach()


def half_mse_loss(values: Tensor, targets: Tensor) -> Tensor:
    """Return half the mean squared error between values [B] and targets [B], a scalar."""
    _check_shape("targets", targets, *values.shape)
    return (0.5 * (values - targets).square()).mean()


def quantile_huber_loss(quantiles: Tensor, targets: Tensor, taus: Tensor, kappa: float = 1.0) -> Tensor:
    """Return the quantile regression loss with the Huber loss (Dabney et al. 2018, eq. 3).

    It is summed over the N fractions, averaged over the M target samples and over the batch.

    Args:
        quantiles: predicted quantiles [B, N].
        targets: target samples [B, M].
        taus: fractions [N] or [B, N] of the predicted quantiles.
        kappa: threshold between the quadratic and the linear part of the Huber loss.

    Returns:
        Loss, a scalar.
    """
    batch, count = quantiles.shape
    _check_shape("targets", targets, batch, targets.shape[-1])
    _check_shape("taus", taus, *((count,) if taus.ndim == 1 else (batch, count)))
    error = targets[:, None, :] - quantiles[:, :, None]
    size = error.abs()
    huber = torch.where(size <= kappa, 0.5 * error.square(), kappa * (size - 0.5 * kappa))
    weight = (taus[..., None] - (error.detach() < 0).to(error.dtype)).abs()
    return (weight * huber / kappa).mean(-1).sum(-1).mean()


def truncated_targets(values: Tensor, dropped: int) -> Tensor:
    """Return low estimates that combine several critics' values of the same actions.

    The result is the minimum of scalar critics, or the pooled quantiles of quantile critics without the highest
    (TQC, Kuznetsov et al. 2020).

    Args:
        values: outputs [C, B, N] of C critics.
        dropped: number of outputs per critic that are left out, if N > 1.

    Returns:
        Targets [B, 1], or [B, C (N - dropped)] in any order.
    """
    critics, batch, outputs = values.shape
    if outputs == 1:
        return values.amin(0)
    pooled = values.transpose(0, 1).reshape(batch, critics * outputs)
    # The order does not matter, since losses take means over targets; sorting would take longer.
    for last in range(critics * outputs - 1, critics * (outputs - dropped) - 1, -1):
        highest = pooled.argmax(-1, keepdim=True)
        index = torch.arange(last, device=values.device)
        pooled = torch.where(index == highest, pooled[:, last:], pooled[:, :last])
    return pooled


def critic_loss(values: Tensor, targets: Tensor, kappa: float = 1.0) -> Tensor:
    """Return the loss of a critic: quantile regression at even fractions, or squared error if it is scalar.

    Args:
        values: quantiles [B, N], or values [B, 1].
        targets: target samples [B, M], or [B, 1].
        kappa: threshold between the quadratic and the linear part of the Huber loss of quantiles.

    Returns:
        Loss, a scalar.
    """
    count = values.shape[1]
    if count == 1:
        return half_mse_loss(values.squeeze(-1), targets.squeeze(-1))
    taus = (torch.arange(count, device=values.device, dtype=values.dtype) + 0.5) / count
    return quantile_huber_loss(values, targets, taus, kappa)


def project_categorical_targets(reward: Tensor, discount: Tensor, probabilities: Tensor, support: Tensor) -> Tensor:
    """Project the distribution of reward + discount * return onto the atoms of the support.

    Bellemare, Dabney and Munos 2017, algorithm 1: mass that falls between two atoms is shared between them by distance,
    and mass that falls outside goes to the first or last atom.

    Args:
        reward: (multi-step) reward [B].
        discount: gamma^n [B], 0 where the robot terminated.
        probabilities: probabilities [B, N] of the atoms as the return of the next observation.
        support: evenly spaced atoms [N].

    Returns:
        Probabilities [B, N]; for a reward that is NaN they are 0 or NaN.
    """
    batch, count = probabilities.shape
    _check_shape("reward", reward, batch)
    _check_shape("discount", discount, batch)
    _check_shape("support", support, count)
    moved = reward[:, None] + discount[:, None] * support
    step = (support[-1] - support[0]) / (count - 1)
    position = ((moved.clamp(support[0], support[-1]) - support[0]) / step).clamp(0, count - 1)
    lower = position.floor().clamp_max(count - 2)
    above = position - lower
    index = lower.to(torch.int64).clamp(0, count - 2)  # Without the clamp, NaN would become an index out of bounds.
    projected = torch.zeros_like(probabilities)
    projected = projected.scatter_add(1, index, probabilities * (1.0 - above))
    return projected.scatter_add(1, index + 1, probabilities * above)


def cross_entropy(log_probabilities: Tensor, targets: Tensor) -> Tensor:
    """Return the cross entropy [B] of predicted log probabilities [B, N] to target probabilities [B, N]."""
    _check_shape("targets", targets, *log_probabilities.shape)
    return -(targets * log_probabilities).sum(-1)
