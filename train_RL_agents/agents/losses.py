"""Losses and targets as pure functions of tensors that check the shapes of their arguments."""

import torch
from torch import Tensor


def _check_shape(name: str, tensor: Tensor, *shape: int) -> None:
    """Raise a ValueError unless the tensor called ``name`` has the given shape."""
    if tensor.shape != shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {shape}")


def td_target(reward: Tensor, discount: Tensor, next_value: Tensor) -> Tensor:
    """Return the targets reward [B] + discount [B] * next value, [B] or quantiles [B, N], without gradient."""
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
    """Return the quantile regression loss with the Huber loss of threshold ``kappa`` (Dabney et al. 2018, eq. 3).

    It is summed over the predicted quantiles [B, N], at fractions ``taus`` [N] or [B, N], and averaged over the target
    samples [B, M] and the batch.
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
    """Return low estimates from the outputs [C, B, N] of C critics for the same actions.

    They are the minimum [B, 1] of scalar critics, or the pooled quantiles [B, C (N - dropped)], in any order, without
    the ``dropped`` highest per critic (TQC, Kuznetsov et al. 2020).
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
    """Return the loss of a critic: quantile regression of quantiles [B, N], or squared error of values [B, 1]."""
    count = values.shape[1]
    if count == 1:
        return half_mse_loss(values.squeeze(-1), targets.squeeze(-1))
    taus = (torch.arange(count, device=values.device, dtype=values.dtype) + 0.5) / count
    return quantile_huber_loss(values, targets, taus, kappa)


def project_categorical_targets(reward: Tensor, discount: Tensor, probabilities: Tensor, support: Tensor) -> Tensor:
    """Return the distribution of reward + discount * return on the atoms of the evenly spaced support [N], [B, N].

    ``probabilities`` [B, N] are those of the next return (Bellemare, Dabney and Munos 2017, algorithm 1): mass between
    two atoms is shared by distance. A reward that is NaN gives 0 or NaN.
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
