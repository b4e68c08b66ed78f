"""Replay on the device: TorchRL's buffer and storage around the ring."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import ReplayBuffer
from torchrl.data.replay_buffers.samplers import Sampler

from marinenav_env.validation import require
from train_RL_agents.memory.prioritized import PrioritizedDeviceSampler
from train_RL_agents.memory.ring import (
    STORED,
    MaskedRingWriter,
    RowStorage,
    UniformDeviceSampler,
    copied,
)

SLOT, WEIGHTS = "slot", "weights"
"""Keys of a drawn row: where it is stored, and its importance weight."""

__all__ = ["SLOT", "STORED", "WEIGHTS", "MaskedRingWriter", "Replay", "UniformDeviceSampler"]


class Replay:
    """A ring of single robots' transitions.

    Args:
        example: one row, a TensorDict without batch dimensions, for shapes and types.
        capacity: transitions held.
        batch_size: transitions drawn by ``sample``.
        generator: source of randomness; its device is the buffer's.
        alpha: exponent of priorities; None draws uniformly.
    """

    on_device: ClassVar[bool] = True
    """Whether rows are taken in by kernels of the device, as a CUDA graph needs."""

    def __init__(
        self,
        example: TensorDictBase,
        capacity: int,
        batch_size: int,
        generator: torch.Generator,
        alpha: float | None = None,
    ) -> None:
        device, self._batch_size = generator.device, batch_size
        self.writer = MaskedRingWriter(capacity, device)
        slots = (capacity + 1, *example.batch_size)
        self._storage = RowStorage(
            example.apply(
                lambda leaf: torch.zeros(
                    (capacity + 1, *leaf.shape), dtype=leaf.dtype, device=device
                ),
                batch_size=slots,
                device=device,
            )
        )
        self.sampler: Sampler = (
            UniformDeviceSampler(self.writer, generator)
            if alpha is None
            else PrioritizedDeviceSampler(self.writer, generator, alpha)
        )
        self._buffer = ReplayBuffer(
            storage=self._storage, writer=self.writer, sampler=self.sampler, batch_size=batch_size
        )

    @property
    def capacity(self) -> int:
        """Transitions that fit in."""
        return self.writer.capacity

    @property
    def filled(self) -> Tensor:
        """Transitions held, int64 scalar on the device."""
        return self.writer.filled

    def extend(self, rows: TensorDictBase) -> None:
        """Insert the rows [B] whose STORED is true."""
        self._buffer.extend(rows)

    def sample(self) -> TensorDictBase:
        """Draw transitions [batch_size], with SLOT and, if prioritised, WEIGHTS."""
        # Not by the buffer's own method: its locks and transforms, of no use here, cost a fifth.
        index, info = self.sampler.sample(self._storage, self._batch_size)
        drawn: TensorDictBase = self._storage.get(index)
        drawn.set(SLOT, index)
        return drawn.set(WEIGHTS, info[WEIGHTS]) if WEIGHTS in info else drawn

    def update_priority(self, drawn: TensorDictBase, priority: Tensor | None) -> None:
        """Set the priorities of drawn transitions from the sizes of their errors [B]."""
        if isinstance(self.sampler, PrioritizedDeviceSampler) and priority is not None:
            self.sampler.update_priority(drawn.get(SLOT), priority)

    def set_beta(self, beta: float) -> None:
        """Set the exponent of the importance weights; nothing to do if drawn uniformly."""
        if isinstance(self.sampler, PrioritizedDeviceSampler):
            self.sampler.beta.fill_(beta)

    def state_dict(self) -> dict[str, Any]:
        """Filled slots only."""
        filled = int(self.filled)  # host: saving a checkpoint
        rows = self._storage.get(slice(0, filled))
        # A GPU need not have room for a second replay.
        rows = copied(rows) if rows.device.type == "cpu" else rows.cpu()  # host: likewise
        return {
            "capacity": self.writer.capacity,
            "rows": rows.to_dict(),
            **self.writer.state_dict(),
            "sampler": self.sampler.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what state_dict gave.

        Raises:
            ConfigError: when it is of another capacity: rows would be written over at other times.
        """
        capacity = self.writer.capacity
        require(state["capacity"] == capacity, "replay capacity", state["capacity"], str(capacity))
        filled = int(state["filled"])  # host: loading a checkpoint
        if filled:
            rows = TensorDict(state["rows"], [filled], device=self.filled.device)
            self._storage.set(slice(0, filled), rows, set_cursor=False)
        self.writer.load_state_dict(state)
        self.sampler.load_state_dict(state["sampler"])
