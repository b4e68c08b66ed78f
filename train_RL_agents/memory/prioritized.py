"""Prioritised sampling on the device (Schaul et al. 2016), in plain torch.

Priorities are kept with the sums over blocks of them, so that neither a draw nor an update has to
add up all of them, and nothing is read on the host.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from marinenav_env.stepping.reset_pool import restore

_WIDTH = 32
"""Numbers in a block: a draw adds up one block of it, and the sums of all blocks once a batch."""
_SMALLEST = 1e-6
"""Added to priorities, so that nothing is never drawn."""
_LARGEST = 1e6
"""Priorities are clipped to it."""
SPARE = 1024
"""Slots past the end, for rows that are not stored: writes to a single one wait for each other."""


class BlockSums:
    """Numbers and the sums over blocks of them, to draw in proportion to them.

    A tree of sums of two levels. More levels would touch fewer numbers, but on a million of them
    the few more operations take longer than the running total over 31,250 blocks.

    Args:
        size: how many numbers, all 0 at first.
        device: where they live.
    """

    def __init__(self, size: int, device: torch.device) -> None:
        blocks = -(-size // _WIDTH)
        # float64: float32 sums of a million numbers would move the borders between them.
        self._blocks = torch.zeros(blocks, _WIDTH, dtype=torch.float64, device=device)
        self._sums = torch.zeros(blocks, dtype=torch.float64, device=device)
        self._running = torch.zeros(blocks + 1, dtype=torch.float64, device=device)

    @property
    def values(self) -> Tensor:
        """Return the numbers, and zeros up to a whole block: a view."""
        return self._blocks.view(-1)

    def nbytes(self) -> int:
        """Return the bytes held."""
        return self._blocks.nbytes + self._sums.nbytes + self._running.nbytes

    def clear(self) -> None:
        """Set all numbers to 0."""
        self._blocks.zero_()
        self._sums.zero_()

    def write(self, index: Tensor, values: Tensor) -> None:
        """Set the numbers at indices [B]. Of several for one index an arbitrary one is kept."""
        self.values.index_copy_(0, index, values.to(torch.float64))
        block = torch.div(index, _WIDTH, rounding_mode="floor")
        self._sums.index_copy_(0, block, self._blocks.index_select(0, block).sum(-1))

    def find(self, share: Tensor) -> Tensor:
        """Return the index of the number with which a running total reaches a share of the whole total.

        Args:
            share: [B] above 0, up to 1.

        Returns:
            [B] int64; never a number that is 0, unless all are: then the first. A GPU adds up in an
            order of its own: there the last bits may differ from run to run, and a share within
            rounding of 1 may lead past the last number above 0.
        """
        running = torch.cumsum(self._sums, 0, out=self._running[1:])
        mass = share * running[-1]
        block = torch.searchsorted(running, mass)
        # Above 0, as the blocks before do not reach the mass; and by rounding it may be more than
        # what the block adds up to.
        rest = mass - self._running.index_select(0, block)
        within = self._blocks.index_select(0, block).cumsum(-1)
        rest = torch.minimum(rest, within[:, -1])
        found = torch.searchsorted(within, rest[:, None]).squeeze(-1)
        return found.add_(block, alpha=_WIDTH)


class Priorities:
    """Draws slots in proportion to priority^alpha, one from each stratum of the total.

    New slots get the highest priority so far.

    Args:
        capacity: slots; spare ones past the end keep priority 0.
        generator: source of randomness on the device.
        alpha: 0 is uniform, 1 proportional.
    """

    def __init__(self, capacity: int, generator: torch.Generator, alpha: float) -> None:
        self._capacity, self._generator, self._alpha = capacity, generator, alpha
        device = generator.device
        self.sums = BlockSums(capacity + SPARE, device)
        self.highest = torch.ones((), dtype=torch.float64, device=device)
        self._strata = torch.empty(0, dtype=torch.float64, device=device)
        """Where the strata of a batch end; made when the first is drawn."""
        self.beta = torch.ones((), device=device)
        """Exponent of the importance weights; the trainer moves it."""

    def add(self, slots: Tensor) -> None:
        """New rows are at slots [B]."""
        kept = slots < self._capacity
        self.sums.write(slots, torch.where(kept, self.highest, 0.0))

    def update(self, slots: Tensor, errors: Tensor) -> None:
        """Set the priorities of slots [B] from errors [B], at least 0; not a number counts as 0."""
        # One such number would make every sum above it, and so every later draw, one as well.
        finite = errors.to(torch.float64).nan_to_num(0.0, posinf=_LARGEST, neginf=0.0)
        raised = (finite.clamp(0.0, _LARGEST) + _SMALLEST) ** self._alpha
        torch.maximum(self.highest, raised.amax(), out=self.highest)
        self.sums.write(slots, raised)

    def draw(self, batch_size: int, filled: Tensor) -> tuple[Tensor, Tensor]:
        """Return the slots [batch_size] and their importance weights, at most 1.

        Args:
            batch_size: how many.
            filled: scalar, how many slots hold something.
        """
        device = self._generator.device
        jitter = torch.rand(batch_size, generator=self._generator, device=device, dtype=torch.float64)
        if len(self._strata) != batch_size:
            ends = torch.arange(1, batch_size + 1, device=device, dtype=torch.float64)
            self._strata = ends / batch_size
        slots = self.sums.find(self._strata.sub(jitter, alpha=1.0 / batch_size))
        if slots.is_cuda:
            # Its rounding must not lead to a slot that holds nothing; see find.
            slots = torch.minimum(slots, (filled - 1).clamp_min(0))
        # 0 only while nothing is stored: then slot 0 is drawn, with weight 1.
        chance = self.sums.values.index_select(0, slots).clamp_min(1e-300)
        # (N P)^-beta over the largest of them: N and the sum of all priorities cancel.
        weights = (chance / chance.amin()) ** -self.beta
        return slots, weights.to(torch.float32)

    def state_dict(self, filled: int) -> dict[str, Any]:
        """Return the priorities of the filled slots."""
        priorities = self.sums.values[:filled].clone()
        numbers = {"highest": self.highest.clone(), "beta": self.beta.clone()}
        return {"priorities": priorities, **numbers}

    def load_state_dict(self, state: dict[str, Any], filled: int) -> None:
        """Restore those of as many filled slots.

        Raises:
            RuntimeError: when they are of another number or type, or not finite.
        """
        priorities = torch.zeros_like(self.sums.values[:filled])
        numbers = {"highest": self.highest, "beta": self.beta}
        restore({"priorities": priorities, **numbers}, state)
        if bool((priorities < 0.0).any()):  # host: loading a checkpoint
            raise RuntimeError("priorities below 0")
        self.sums.clear()
        self.sums.write(torch.arange(filled, device=priorities.device), priorities)
