"""A ring of slots on the device, written and read without the host.

TorchRL's own writers and samplers count in Python integers and store every row they are given.
Here robots that have ended must not be stored, and how many are active is only known on the
device; so the cursor and the number of filled slots are tensors, and rows that are not stored go
to one spare slot past the end that is never sampled. Where host reads are free, they are left out.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data.replay_buffers.samplers import Sampler
from torchrl.data.replay_buffers.storages import Storage, TensorStorage
from torchrl.data.replay_buffers.writers import Writer

from marinenav_env.host_reads import host_reads_are_free

STORED = "stored"
"""Key of the [B] bool that says which rows ``extend`` keeps."""


def select(rows: TensorDictBase, index: Tensor) -> TensorDictBase:
    """Rows at indices [B]: what indexing gives, in a third of the time on a CPU."""
    return rows.apply(
        lambda leaf: leaf.index_select(0, index), batch_size=[*index.shape, *rows.batch_size[1:]]
    )


def copied(rows: TensorDictBase) -> TensorDictBase:
    """The same bits in other memory; TensorDict's ``clone`` adds 0, which makes 0.0 of -0.0."""
    return rows.apply(Tensor.clone)


class RowStorage(TensorStorage):
    """TorchRL's storage with faster ways to read and write the rows at a tensor of slots [B]."""

    def get(self, index: Any) -> Any:
        """The rows at slots."""
        return select(self._storage, index) if isinstance(index, Tensor) else super().get(index)

    def set(self, cursor: Any, data: TensorDictBase, *, set_cursor: bool = True) -> None:
        """Write rows to slots. Of several rows for one slot an arbitrary one is kept."""
        if isinstance(cursor, Tensor) and not set_cursor:
            for name in data.keys(include_nested=True, leaves_only=True):
                self._storage.get(name).index_copy_(0, cursor, data.get(name))
        else:
            super().set(cursor, data, set_cursor=set_cursor)


class MaskedRingWriter(Writer):
    """Writes the rows marked by STORED one after another, over the oldest when full.

    Args:
        capacity: slots; the storage must have one more.
        device: of the storage.
    """

    def __init__(self, capacity: int, device: torch.device) -> None:
        super().__init__()
        self.capacity = capacity
        self.cursor = torch.zeros((), dtype=torch.int64, device=device)
        self.filled = torch.zeros((), dtype=torch.int64, device=device)

    def extend(self, data: TensorDictBase) -> Tensor:
        """Write rows [B]; returns their slots, ``capacity`` for any that are not stored."""
        stored = data.get(STORED)
        rank = stored.cumsum(0)
        slots = (self.cursor + rank - 1) % self.capacity
        rows = data.exclude(STORED)
        if host_reads_are_free(stored.device):
            kept = stored.nonzero().squeeze(-1)  # host: see host_reads_are_free
            rows, slots = select(rows, kept), slots[kept]
        else:
            slots = torch.where(stored, slots, self.capacity)
        self._storage.set(slots, rows, set_cursor=False)
        self.cursor.copy_((self.cursor + rank[-1]) % self.capacity)
        self.filled.copy_((self.filled + rank[-1]).clamp_max(self.capacity))
        return slots

    def add(self, data: TensorDictBase) -> int:
        """Not offered: rows come in bulk."""
        raise NotImplementedError("use extend with a batch of one")

    def _empty(self, empty_write_count: bool = True) -> None:
        self.cursor.zero_()
        self.filled.zero_()

    def state_dict(self) -> dict[str, Any]:
        """Cursor and number of filled slots."""
        return {"cursor": self.cursor.clone(), "filled": self.filled.clone()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore them."""
        self.cursor.copy_(state_dict["cursor"])
        self.filled.copy_(state_dict["filled"])

    def dumps(self, path: Any) -> None:
        """Not offered: the checkpoint saves the whole replay."""
        raise NotImplementedError

    def loads(self, path: Any) -> None:
        """Not offered, as dumps."""
        raise NotImplementedError


class UniformDeviceSampler(Sampler):
    """Draws filled slots with equal probability, with replacement.

    Args:
        writer: knows how many slots are filled.
        generator: source of randomness on the device.
    """

    def __init__(self, writer: MaskedRingWriter, generator: torch.Generator) -> None:
        super().__init__()
        self._writer, self._generator = writer, generator

    def sample(self, storage: Storage, batch_size: int) -> tuple[Tensor, dict[str, Any]]:
        """Slots [batch_size]; before anything is stored, slot 0."""
        device = self._generator.device
        # float64: a float32 uniform cannot reach every slot of a large buffer.
        chance = torch.rand(
            batch_size, generator=self._generator, device=device, dtype=torch.float64
        )
        return (chance * self._writer.filled).to(torch.int64), {}

    def _empty(self) -> None:
        pass

    def dumps(self, path: Any) -> None:
        """Nothing to save: it has no state of its own."""

    def loads(self, path: Any) -> None:
        """Nothing to load."""

    def state_dict(self) -> dict[str, Any]:
        """It has no state of its own."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """It has no state of its own."""
