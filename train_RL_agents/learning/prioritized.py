"""Prioritised sampling on the device (Schaul et al. 2016), in plain torch.

Priorities are stored with their sums over blocks, so that neither a draw nor an update sums over all of them, and
nothing is read on the host.
"""

from typing import Any

import torch
from torch import Tensor

from marinenav_env.support.tensors import restore_tensors

_BLOCK_SIZE = 32
"""Number of priorities per block: sampling sums over one block per slot, and over the sums of all blocks once per
batch."""
_PRIORITY_EPSILON = 1e-6
"""Constant added to errors, so that every stored transition can be sampled."""
_MAX_ERROR = 1e6
"""Bound of errors, so that a diverged one does not take all samples or make the sums infinite."""
SPARE_SLOTS = 1024
"""Number of slots past the end of a replay that take the transitions that are not stored; with a single slot, writes
would wait for each other."""


class BlockSums:
    """Array of numbers, 0 or more, with their sums over blocks, to sample indices in proportion to the numbers.

    This is a sum tree of two levels. More levels would touch fewer numbers, but with a million numbers the additional
    operations take longer than the cumulative sum over 31,250 blocks.
    """

    def __init__(self, size: int, device: torch.device) -> None:
        blocks = -(-size // _BLOCK_SIZE)
        # float64, because float32 sums of a million numbers would shift the boundaries between them.
        self._blocks = torch.zeros(blocks, _BLOCK_SIZE, dtype=torch.float64, device=device)
        self._block_sums = torch.zeros(blocks, dtype=torch.float64, device=device)
        self._running_sums = torch.zeros(blocks + 1, dtype=torch.float64, device=device)

    @property
    def values(self) -> Tensor:
        """Return a view [M] float64 of the numbers, padded with zeros to whole blocks."""
        return self._blocks.view(-1)

    def nbytes(self) -> int:
        """Return the number of bytes of all tensors."""
        return self._blocks.nbytes + self._block_sums.nbytes + self._running_sums.nbytes

    def clear(self) -> None:
        """Set all numbers to 0."""
        self._blocks.zero_()
        self._block_sums.zero_()

    def write(self, index: Tensor, values: Tensor) -> None:
        """Set the numbers at indices [B] int64 to values [B]; of several for one index, an arbitrary one is kept."""
        self.values.index_copy_(0, index, values.to(torch.float64))
        block = torch.div(index, _BLOCK_SIZE, rounding_mode="floor")
        self._block_sums.index_copy_(0, block, self._blocks.index_select(0, block).sum(-1))

    def find(self, share: Tensor) -> Tensor:
        """Return the indices [B] at which the cumulative sum reaches shares [B] in (0, 1] of the total.

        They are of numbers above 0, or 0 if there are none. On a GPU the order of summation varies: a share within
        rounding of 1 may give an index past the last number above 0.
        """
        running = torch.cumsum(self._block_sums, 0, out=self._running_sums[1:])
        mass = share * running[-1]
        block = torch.searchsorted(running, mass)
        # The rest is above 0, because the blocks before do not reach the mass; by rounding it may exceed the sum of the
        # block.
        rest = mass - self._running_sums.index_select(0, block)
        block_sums = self._blocks.index_select(0, block).cumsum(-1)
        rest = torch.minimum(rest, block_sums[:, -1])
        index = torch.searchsorted(block_sums, rest[:, None]).squeeze(-1)
        return index.add_(block, alpha=_BLOCK_SIZE)


class PrioritizedSampler:
    """Sampler of slots in proportion to their priorities, (error + epsilon) ** alpha.

    Sampling is stratified: the sum of all priorities is divided into equal parts, and each gives one sample of a batch.
    New transitions get the highest priority so far.
    """

    def __init__(self, capacity: int, generator: torch.Generator, alpha: float) -> None:
        self._capacity, self._generator, self._alpha = capacity, generator, alpha
        device = generator.device
        self.priorities = BlockSums(capacity + SPARE_SLOTS, device)
        """Priority of every slot, already raised to the power alpha."""
        self.max_priority = torch.ones((), dtype=torch.float64, device=device)
        """Highest priority so far, float64 scalar."""
        self._strata_ends = torch.empty(0, dtype=torch.float64, device=device)
        """Upper ends of the strata of a batch as shares of the total, created when first sampled."""
        self.beta = torch.ones((), device=device)
        """Exponent of the importance weights, float32 scalar; the trainer changes it."""

    def add(self, slots: Tensor) -> None:
        """Set the priorities of new transitions at slots [B] to the highest so far; those of spare slots stay 0."""
        kept = slots < self._capacity
        self.priorities.write(slots, torch.where(kept, self.max_priority, 0.0))

    def update(self, slots: Tensor, errors: Tensor) -> None:
        """Set the priorities of slots [B] from errors [B]; NaN and negative numbers count as 0."""
        # A single NaN would make the sums, and so all later samples, NaN.
        finite = errors.to(torch.float64).nan_to_num(0.0, posinf=_MAX_ERROR, neginf=0.0)
        priorities = (finite.clamp(0.0, _MAX_ERROR) + _PRIORITY_EPSILON) ** self._alpha
        torch.maximum(self.max_priority, priorities.amax(), out=self.max_priority)
        self.priorities.write(slots, priorities)

    def sample(self, batch_size: int, filled: Tensor) -> tuple[Tensor, Tensor]:
        """Sample slots [batch_size] int64 of ``filled`` ones; return them, and their importance weights, at most 1."""
        device = self._generator.device
        jitter = torch.rand(batch_size, generator=self._generator, device=device, dtype=torch.float64)
        if len(self._strata_ends) != batch_size:
            ends = torch.arange(1, batch_size + 1, device=device, dtype=torch.float64)
            self._strata_ends = ends / batch_size
        slots = self.priorities.find(self._strata_ends.sub(jitter, alpha=1.0 / batch_size))
        if slots.is_cuda:
            # Rounding on a GPU must not lead to an empty slot; see ``BlockSums.find``.
            slots = torch.minimum(slots, (filled - 1).clamp_min(0))
        # The priority is 0 only while nothing is stored; then slot 0 is sampled, with weight 1.
        chance = self.priorities.values.index_select(0, slots).clamp_min(1e-300)
        # (N P)^-beta over its largest value, in which N and the sum of all priorities cancel.
        weights = (chance / chance.amin()) ** -self.beta
        return slots, weights.to(torch.float32)

    def state_dict(self, filled: int) -> dict[str, Any]:
        """Return copies of ``priorities`` [filled], and of the scalars ``highest`` and ``beta``, by these names."""
        priorities = self.priorities.values[:filled].clone()
        numbers = {"highest": self.max_priority.clone(), "beta": self.beta.clone()}
        return {"priorities": priorities, **numbers}

    def load_state_dict(self, state: dict[str, Any], filled: int) -> None:
        """Restore the result of ``state_dict`` for the first ``filled`` slots; other priorities become 0."""
        priorities = torch.zeros_like(self.priorities.values[:filled])
        numbers = {"highest": self.max_priority, "beta": self.beta}
        restore_tensors({"priorities": priorities, **numbers}, state)
        if bool((priorities < 0.0).any()):  # host: loading a checkpoint
            raise RuntimeError("priorities below 0")
        self.priorities.clear()
        self.priorities.write(torch.arange(filled, device=priorities.device), priorities)
