"""Prioritised sampling on the device (Schaul et al. 2016), in plain torch.

Priorities are stored with their sums over blocks, so that neither a draw nor an update sums over all of them, and
nothing is read on the host.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from marinenav_env.stepping.reset_pool import restore

_WIDTH = 32
"""Number of priorities per block: sampling sums over one block per slot, and over the sums of all blocks once per
batch."""
_SMALLEST = 1e-6
"""Constant added to errors, so that every slot can be sampled."""
_LARGEST = 1e6
"""Upper bound of errors."""
SPARE = 1024
"""Number of slots past the end for transitions that are not stored; with a single slot, writes would wait for each
other."""


class BlockSums:
    """Numbers with their sums over blocks, to sample indices in proportion to them.

    This is a sum tree of two levels. More levels would touch fewer numbers, but with a million numbers the additional
    operations take longer than the cumulative sum over 31,250 blocks.

    Args:
        size: count of the numbers, which are initially 0.
        device: device of the numbers.
    """

    def __init__(self, size: int, device: torch.device) -> None:
        blocks = -(-size // _WIDTH)
        # float64, because float32 sums of a million numbers would shift the boundaries between them.
        self._blocks = torch.zeros(blocks, _WIDTH, dtype=torch.float64, device=device)
        self._sums = torch.zeros(blocks, dtype=torch.float64, device=device)
        self._running = torch.zeros(blocks + 1, dtype=torch.float64, device=device)

    @property
    def values(self) -> Tensor:
        """Return a view of the numbers, padded with zeros to a whole block."""
        return self._blocks.view(-1)

    def nbytes(self) -> int:
        """Return the number of bytes of all tensors."""
        return self._blocks.nbytes + self._sums.nbytes + self._running.nbytes

    def clear(self) -> None:
        """Set all numbers to 0."""
        self._blocks.zero_()
        self._sums.zero_()

    def write(self, index: Tensor, values: Tensor) -> None:
        """Set the numbers at indices [B]; of several values for one index, an arbitrary one is kept."""
        self.values.index_copy_(0, index, values.to(torch.float64))
        block = torch.div(index, _WIDTH, rounding_mode="floor")
        self._sums.index_copy_(0, block, self._blocks.index_select(0, block).sum(-1))

    def find(self, share: Tensor) -> Tensor:
        """Return the indices at which the cumulative sum reaches shares of the total.

        Args:
            share: shares [B] in (0, 1].

        Returns:
            Indices [B] int64 of numbers above 0, or 0 if all numbers are 0. On a GPU the order of summation varies, so
            the result may differ from run to run by rounding, and a share within rounding of 1 may give an index past
            the last number above 0.
        """
        running = torch.cumsum(self._sums, 0, out=self._running[1:])
        mass = share * running[-1]
        block = torch.searchsorted(running, mass)
        # The rest is above 0, because the blocks before do not reach the mass; by rounding it may exceed the sum of the
        # block.
        rest = mass - self._running.index_select(0, block)
        block_sums = self._blocks.index_select(0, block).cumsum(-1)
        rest = torch.minimum(rest, block_sums[:, -1])
        index = torch.searchsorted(block_sums, rest[:, None]).squeeze(-1)
        return index.add_(block, alpha=_WIDTH)


class Priorities:
    """Sampler of slots in proportion to priority^alpha, with one sample from each stratum of the total.

    New slots get the highest priority so far.

    Args:
        capacity: number of slots; spare slots past the end keep priority 0.
        generator: random generator on the device.
        alpha: exponent of priorities; 0 is uniform, 1 proportional.
    """

    def __init__(self, capacity: int, generator: torch.Generator, alpha: float) -> None:
        self._capacity, self._generator, self._alpha = capacity, generator, alpha
        device = generator.device
        self.sums = BlockSums(capacity + SPARE, device)
        self.highest = torch.ones((), dtype=torch.float64, device=device)
        self._strata = torch.empty(0, dtype=torch.float64, device=device)
        """Upper ends of the strata of a batch, created when first sampled."""
        self.beta = torch.ones((), device=device)
        """Exponent of the importance weights; the trainer changes it."""

    def add(self, slots: Tensor) -> None:
        """Set the priorities of new transitions at slots [B] to the highest so far; those of spare slots stay 0."""
        kept = slots < self._capacity
        self.sums.write(slots, torch.where(kept, self.highest, 0.0))

    def update(self, slots: Tensor, errors: Tensor) -> None:
        """Set the priorities of slots [B] from errors [B], at least 0; NaN counts as 0."""
        # A single NaN would make the sums, and so all later samples, NaN.
        finite = errors.to(torch.float64).nan_to_num(0.0, posinf=_LARGEST, neginf=0.0)
        priorities = (finite.clamp(0.0, _LARGEST) + _SMALLEST) ** self._alpha
        torch.maximum(self.highest, priorities.amax(), out=self.highest)
        self.sums.write(slots, priorities)

    def draw(self, batch_size: int, filled: Tensor) -> tuple[Tensor, Tensor]:
        """Sample slots [batch_size]; return them and their importance weights, at most 1.

        Args:
            batch_size: number of slots.
            filled: number of filled slots, a scalar.
        """
        device = self._generator.device
        jitter = torch.rand(batch_size, generator=self._generator, device=device, dtype=torch.float64)
        if len(self._strata) != batch_size:
            ends = torch.arange(1, batch_size + 1, device=device, dtype=torch.float64)
            self._strata = ends / batch_size
        slots = self.sums.find(self._strata.sub(jitter, alpha=1.0 / batch_size))
        if slots.is_cuda:
            # Rounding on a GPU must not lead to an empty slot; see ``BlockSums.find``.
            slots = torch.minimum(slots, (filled - 1).clamp_min(0))
        # The priority is 0 only while nothing is stored; then slot 0 is sampled, with weight 1.
        chance = self.sums.values.index_select(0, slots).clamp_min(1e-300)
        # (N P)^-beta over its largest value, in which N and the sum of all priorities cancel.
        weights = (chance / chance.amin()) ** -self.beta
        return slots, weights.to(torch.float32)

    def state_dict(self, filled: int) -> dict[str, Any]:
        """Return the priorities of the filled slots, the highest priority so far and beta."""
        priorities = self.sums.values[:filled].clone()
        numbers = {"highest": self.highest.clone(), "beta": self.beta.clone()}
        return {"priorities": priorities, **numbers}

    def load_state_dict(self, state: dict[str, Any], filled: int) -> None:
        """Restore the priorities of the filled slots, the highest priority and beta.

        Raises:
            RuntimeError: when their number or dtype differs, or one is negative or not finite.
        """
        priorities = torch.zeros_like(self.sums.values[:filled])
        numbers = {"highest": self.highest, "beta": self.beta}
        restore({"priorities": priorities, **numbers}, state)
        if bool((priorities < 0.0).any()):  # host: loading a checkpoint
            raise RuntimeError("priorities below 0")
        self.sums.clear()
        self.sums.write(torch.arange(filled, device=priorities.device), priorities)
