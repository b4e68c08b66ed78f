"""Prioritised sampling on the device (Schaul et al. 2016), in plain torch.

Priorities are the leaves of a tree of sums with many children per node: a draw or an update
touches one row per level, whatever the size of the buffer, and nothing visits the host.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchrl.data.replay_buffers.samplers import Sampler
from torchrl.data.replay_buffers.storages import Storage

from train_RL_agents.memory.ring import MaskedRingWriter

_CHILDREN = 32
_SMALLEST = 1e-6
"""Added to priorities, so that nothing is never drawn."""
_LARGEST = 1e6
"""Priorities are clipped to it."""


class SumTree:
    """Sums over blocks of numbers, blocks of blocks and so on.

    Args:
        size: how many numbers.
        device: where they live.
    """

    def __init__(self, size: int, device: torch.device) -> None:
        self.levels: list[Tensor] = []
        while True:
            rows = -(-size // _CHILDREN)
            # float64: float32 sums of a million numbers would move the borders between them.
            level = torch.zeros(rows, _CHILDREN, dtype=torch.float64, device=device)
            self.levels.append(level)
            if rows == 1:
                break
            size = rows

    @property
    def total(self) -> Tensor:
        """Sum of all numbers, scalar."""
        return self.levels[-1].sum()

    def read(self, index: Tensor) -> Tensor:
        """The numbers at indices of any shape."""
        return self.levels[0].view(-1)[index]

    def write(self, index: Tensor, values: Tensor) -> None:
        """Set the numbers at indices [B], and the sums above them."""
        values = values.to(torch.float64)
        for level in self.levels:
            level.view(-1).index_copy_(0, index, values)
            index = torch.div(index, _CHILDREN, rounding_mode="floor")
            values = level.index_select(0, index).sum(-1)

    def find(self, mass: Tensor) -> Tensor:
        """Index of the number in which a running total reaches a mass.

        Args:
            mass: [B] in [0, total).

        Returns:
            [B] int64; never a number that is 0, unless all are.
        """
        node = torch.zeros(mass.shape, dtype=torch.int64, device=mass.device)
        below = torch.full((), -1.0, dtype=torch.float64, device=mass.device)
        for level in reversed(self.levels):
            running = level.index_select(0, node).cumsum(-1)
            # Rounding must not go past the last child above 0, where the total is reached; and
            # where there is none, a mass below 0 leads to the first child.
            mass = torch.minimum(mass, torch.nextafter(running[:, -1], below))
            child = torch.searchsorted(running, mass[:, None], right=True).squeeze(-1)
            sums = torch.nn.functional.pad(running, (1, 0))
            mass = mass - sums.gather(-1, child[:, None]).squeeze(-1)
            node = node * _CHILDREN + child
        return node


class PrioritizedDeviceSampler(Sampler):
    """Draws filled slots in proportion to priority^alpha, one from each stratum of the total.

    New slots get the highest priority so far.

    Args:
        writer: knows how many slots are filled.
        generator: source of randomness on the device.
        alpha: 0 is uniform, 1 proportional.
    """

    def __init__(self, writer: MaskedRingWriter, generator: torch.Generator, alpha: float) -> None:
        super().__init__()
        self._writer, self._generator, self._alpha = writer, generator, alpha
        device = generator.device
        self.tree = SumTree(writer.capacity + 1, device)
        self.highest = torch.ones((), dtype=torch.float64, device=device)
        self.beta = torch.ones((), device=device)
        """Exponent of the importance weights; the trainer moves it."""

    def extend(self, index: Tensor) -> None:
        """New rows at slots [B]; the spare slot past the end keeps priority 0."""
        kept = index < self._writer.capacity
        self.tree.write(index, torch.where(kept, self.highest, 0.0))

    def update_priority(self, index: Tensor, priority: Tensor, **kwargs: Any) -> None:
        """Set the priorities of slots [B] from errors [B], at least 0; not a number counts as 0."""
        # One such number would make every sum above it, and so every later draw, one as well.
        finite = priority.to(torch.float64).nan_to_num(0.0, posinf=_LARGEST, neginf=0.0)
        raised = (finite.clamp(0.0, _LARGEST) + _SMALLEST) ** self._alpha
        self.highest.copy_(torch.maximum(self.highest, raised.amax()))
        self.tree.write(index, raised)

    def sample(self, storage: Storage, batch_size: int) -> tuple[Tensor, dict[str, Any]]:
        """Slots [batch_size], and under ``weights`` their importance weights, at most 1."""
        device = self._generator.device
        jitter = torch.rand(
            batch_size, generator=self._generator, device=device, dtype=torch.float64
        )
        # Above 0 even while nothing is stored: then slot 0 is drawn, with weight 1.
        total = self.tree.total.clamp_min(1e-300)
        strata = (torch.arange(batch_size, device=device) + jitter) / batch_size
        index = self.tree.find(strata * total)
        chance = self.tree.read(index) / total
        weights = (chance * self._writer.filled).clamp_min(1e-12) ** -self.beta
        return index, {"weights": (weights / weights.amax()).to(torch.float32)}

    def state_dict(self) -> dict[str, Any]:
        """Priorities of the filled slots."""
        filled = int(self._writer.filled)  # host: saving a checkpoint
        priorities = self.tree.levels[0].view(-1)[:filled].clone()
        numbers = {"highest": self.highest.clone(), "beta": self.beta.clone()}
        return {"priorities": priorities, **numbers}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore them."""
        self._empty()
        priorities = state_dict["priorities"]
        self.tree.write(torch.arange(len(priorities), device=priorities.device), priorities)
        self.highest.copy_(state_dict["highest"])
        self.beta.copy_(state_dict["beta"])

    def _empty(self) -> None:
        for level in self.tree.levels:
            level.zero_()

    def dumps(self, path: Any) -> None:
        """Not offered: the checkpoint saves the whole replay."""
        raise NotImplementedError

    def loads(self, path: Any) -> None:
        """Not offered, as dumps."""
        raise NotImplementedError
