"""Batches that agents learn from, of transitions or of rollouts, and the type of their losses."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils._pytree import tree_map_only

from train_RL_agents.networks.observation import Observation

Losses = dict[str, Tensor]
"""Scalars by name, each a mean over the batch, so that a batch may be processed in micro-batches. Those whose names
start with ``loss`` are minimised; the others are logged. Agents with prioritised replay add ``priority`` [B], the error
of each transition."""

LossFunction = Callable[[Any, Any], Losses]
"""Function of a batch and the result of ``Agent.loss_noise`` that returns losses."""


class Batch(NamedTuple):
    """Transitions [B] sampled from replay."""

    observation: Observation
    action: Tensor
    """Continuous actions [B, D], or action indices [B] int64."""
    reward: Tensor
    """Scaled sums [B] of n discounted rewards."""
    discount: Tensor
    """Discount factors [B] of the value of the next observation: gamma^n, 0 where the robot terminated."""
    next_observation: Observation
    weights: Tensor | None = None
    """Importance weights [B] of prioritised replay."""

    @property
    def size(self) -> int:
        """Return the number B of transitions."""
        return int(self.reward.shape[0])

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of values [B] over the transitions, a scalar."""
        return values.mean()

    def part(self, rows: slice) -> "Batch":
        """Return a batch of the transitions in a slice, without copies."""
        part: Batch = tree_map_only(Tensor, lambda tensor: tensor[rows], self)
        return part


class RolloutBatch(NamedTuple):
    """Batch of B samples of a rollout: robot-steps, or environment-steps [B, R] if the value uses the whole fleet."""

    observation: Observation
    action: Tensor
    """Continuous actions [B, D], or action indices [B] int64."""
    extras: dict[str, Tensor]
    """Outputs [B, ...] of ``Agent.explore`` in addition to the action, by name."""
    advantage: Tensor
    """Advantage estimates [B], normalised if so configured."""
    target: Tensor
    """Targets [B] of the value: advantage before normalisation plus the value during the rollout."""
    weight: Tensor
    """Weights [B]: 1 for active robots, 0 for others."""
    progress: Tensor
    """Share of the run that is done, a scalar."""
    mean_weight: Tensor | None = None
    """Mean weight of the whole batch, a scalar, if this is a slice of one; None for a whole batch."""

    @property
    def size(self) -> int:
        """Return the number B of samples."""
        return int(self.advantage.shape[0])

    @property
    def active(self) -> Tensor:
        """Return the mask [B] of samples whose weight is not zero."""
        return self.weight > 0.0

    def part(self, rows: slice) -> "RolloutBatch":
        """Return a slice of the batch, without copies, that keeps the mean weight of the whole batch; see ``mean``."""
        whole = self._replace(mean_weight=self._mean_weight())
        return whole._map(lambda tensor: tensor[rows])

    def take(self, index: Tensor) -> "RolloutBatch":
        """Return a batch of the samples at indices [K] int64."""
        return self._map(lambda tensor: tensor.index_select(0, index))

    def _map(self, function: Callable[[Tensor], Tensor]) -> "RolloutBatch":
        """Return the batch with a function applied to all tensors except scalars."""
        mapped: RolloutBatch = tree_map_only(Tensor, lambda tensor: function(tensor) if tensor.ndim else tensor, self)
        return mapped

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of values [B] over active robots; 0 if none is active.

        For a slice of a batch, the sum is divided by the mean weight of the whole batch, so that the mean over slices,
        weighted by their numbers of samples, is the mean over the batch.
        """
        return (values * self.weight).mean() / self._mean_weight().clamp_min(1e-8)

    def _mean_weight(self) -> Tensor:
        """Return the mean weight of the whole batch that this is or was sliced from, a scalar."""
        return self.weight.mean() if self.mean_weight is None else self.mean_weight


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """Return the mean of values [B] with weights [B] that are 0 or 1; 0 if all weights are 0."""
    return (values * weight).sum() / weight.sum().clamp_min(1.0)
