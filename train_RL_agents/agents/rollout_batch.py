"""Batches of on-policy agents."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor
from torch.utils._pytree import tree_map_only

from train_RL_agents.networks.observation import Observation


class RolloutBatch(NamedTuple):
    """Robot-steps of a rollout, [B]; environment-steps [B, R] if the value is the fleet's."""

    observation: Observation
    action: Tensor
    """[B, 2], or [B] int64."""
    extras: dict[str, Tensor]
    """What ``explore`` gave beside the action."""
    advantage: Tensor
    """[B], estimated, perhaps normalised."""
    target: Tensor
    """[B], the advantage before normalisation plus the value at the time."""
    weight: Tensor
    """[B], 1 for active robots, 0 for others."""
    progress: Tensor
    """Scalar, the share of the run done."""
    mean_weight: Tensor | None = None
    """Scalar, of a part of a batch: the mean weight of the whole batch."""

    @property
    def size(self) -> int:
        """B."""
        return int(self.advantage.shape[0])

    @property
    def active(self) -> Tensor:
        """[B] whether the weight is not zero."""
        return self.weight > 0.0

    def part(self, rows: slice) -> RolloutBatch:
        """Some of the rows, without copies."""
        whole = self._replace(mean_weight=self._mean_weight())
        return whole._each(lambda each: each[rows])

    def take(self, index: Tensor) -> RolloutBatch:
        """A batch of the rows at indices [B]."""
        return self._each(lambda each: each.index_select(0, index))

    def _each(self, choose: Callable[[Tensor], Tensor]) -> RolloutBatch:
        """Select rows of all tensors that have rows."""
        chosen: RolloutBatch = tree_map_only(Tensor, lambda each: choose(each) if each.ndim else each, self)
        return chosen

    def mean(self, values: Tensor) -> Tensor:
        """Mean of values [B] over active robots; 0 without any.

        Of a part of a batch it is relative to the active robots of the whole batch, so that the
        mean over parts, weighted by their numbers of rows, is the mean over the batch.
        """
        return (values * self.weight).mean() / self._mean_weight().clamp_min(1e-8)

    def _mean_weight(self) -> Tensor:
        return self.weight.mean() if self.mean_weight is None else self.mean_weight


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """Mean of values [B] with weights [B]; 0 if all weights are."""
    return (values * weight).sum() / weight.sum().clamp_min(1.0)
