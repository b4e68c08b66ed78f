"""Replay on the device: a ring of single robots' transitions, written and read without the host.

Rows lie in a TensorDict. TorchRL's ``ReplayBuffer`` is not used: its writers and samplers count in
Python integers and store every row they are given. Here robots that have ended must not be stored,
and how many are active is only known on the device; so the cursor and the number of filled slots
are tensors, and rows that are not stored go to spare slots past the end that are never sampled.
Where host reads are free, they are left out. Nor is TorchRL's storage, which reads and writes the
rows at a tensor of slots 1.2 to 1.7 times as slowly on a CPU and would replace three lines.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env.compiling import compiled
from marinenav_env.host_reads import host_reads_are_free
from marinenav_env.reset_pool import restore
from marinenav_env.validation import require
from train_RL_agents.memory.prioritized import SPARE, BlockSums, Priorities

STORED = "stored"
"""Key of the [B] bool that says which rows ``extend`` keeps."""
SLOT, WEIGHTS = "slot", "weights"
"""Keys of a drawn row: where it is stored, and its importance weight."""


def select(rows: TensorDictBase, index: Tensor) -> TensorDictBase:
    """Rows at indices [B]; on a CPU faster than indexing, which gives the same."""
    return rows.apply(
        lambda leaf: leaf.index_select(0, index), batch_size=[*index.shape, *rows.batch_size[1:]]
    )


def copied(rows: TensorDictBase) -> TensorDictBase:
    """The same bits in other memory; TensorDict's ``clone`` adds 0, which makes 0.0 of -0.0."""
    return rows.apply(Tensor.clone)


def tree_bytes(tree: Any) -> int:
    """Bytes of the tensors in a tensordict or tensorclass."""
    return sum(int(leaf.nbytes) for leaf in tree.values(True, True))


def replay_bytes(row: TensorDictBase, capacity: int, prioritized: bool) -> tuple[int, int]:
    """Bytes of replay's rows and of their priorities.

    Args:
        row: one row, without batch dimensions.
        capacity: transitions held.
        prioritized: whether there are priorities.
    """
    slots = capacity + SPARE
    priorities = BlockSums(slots, torch.device("meta")).nbytes() if prioritized else 0
    return slots * tree_bytes(row), priorities


class Replay:
    """The rows marked by STORED one after another, over the oldest when full.

    They are drawn with replacement: with equal probability, or in proportion to their priorities.

    Args:
        example: one row, a TensorDict without batch dimensions, for shapes and types.
        capacity: transitions held.
        batch_size: transitions drawn by ``sample``.
        generator: source of randomness; its device is the buffer's.
        alpha: exponent of priorities; None draws uniformly.
        compile: whether rows are read by generated code.
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
        compile: bool = False,
    ) -> None:
        device, slots = generator.device, capacity + SPARE
        self._select: Any = compiled(select, device) if compile else select
        self.capacity, self._batch_size, self._generator = capacity, batch_size, generator
        self._rows = example.apply(
            lambda leaf: torch.zeros((slots, *leaf.shape), dtype=leaf.dtype, device=device),
            batch_size=[slots, *example.batch_size],
            device=device,
        )
        self._cursor = torch.zeros((), dtype=torch.int64, device=device)
        self.filled = torch.zeros((), dtype=torch.int64, device=device)
        """Transitions held, int64 scalar on the device."""
        self.priorities = None if alpha is None else Priorities(capacity, generator, alpha)

    def extend(self, rows: TensorDictBase) -> None:
        """Insert the rows [B] whose STORED is true. Of several for a slot any one is kept."""
        stored, rows = rows.get(STORED), rows.exclude(STORED)
        rank = stored.cumsum(0)
        slots = (self._cursor + rank - 1) % self.capacity
        if host_reads_are_free(stored.device):
            kept = stored.nonzero().squeeze(-1)  # host: see host_reads_are_free
            rows, slots = select(rows, kept), slots[kept]
        else:
            spare = torch.arange(len(stored), device=stored.device) % SPARE
            slots = torch.where(stored, slots, self.capacity + spare)
        for name, leaf in rows.items(include_nested=True, leaves_only=True):
            self._rows.get(name).index_copy_(0, slots, leaf)
        self._cursor.copy_((self._cursor + rank[-1]) % self.capacity)
        self.filled.copy_((self.filled + rank[-1]).clamp_max(self.capacity))
        if self.priorities is not None:
            self.priorities.add(slots)

    def sample(self) -> TensorDictBase:
        """Draw transitions [batch_size], with SLOT and, if prioritised, WEIGHTS.

        Before anything is stored, the first slot is drawn, whose row is blank.
        """
        if self.priorities is not None:
            slots, weights = self.priorities.draw(self._batch_size, self.filled)
            return self._select(self._rows, slots).set(SLOT, slots).set(WEIGHTS, weights)
        # float64: a float32 uniform cannot reach every slot of a large buffer.
        chance = torch.rand(
            self._batch_size, generator=self._generator, device=self._generator.device,
            dtype=torch.float64,
        )  # fmt: skip
        slots = (chance * self.filled).to(torch.int64)
        return self._select(self._rows, slots).set(SLOT, slots)

    def update_priority(self, drawn: TensorDictBase, priority: Tensor | None) -> None:
        """Set the priorities of drawn transitions from the sizes of their errors [B]."""
        if self.priorities is not None and priority is not None:
            self.priorities.update(drawn.get(SLOT), priority)

    def set_beta(self, beta: float) -> None:
        """Set the exponent of the importance weights; nothing to do if drawn uniformly."""
        if self.priorities is not None:
            self.priorities.beta.fill_(beta)

    def state_dict(self) -> dict[str, Any]:
        """Filled slots only."""
        filled = int(self.filled)  # host: saving a checkpoint
        rows = self._rows[:filled]
        # A GPU need not have room for a second replay.
        rows = copied(rows) if rows.device.type == "cpu" else rows.cpu()  # host: likewise
        return {
            "capacity": self.capacity,
            "rows": rows.to_dict(),
            "cursor": self._cursor.clone(),
            "filled": self.filled.clone(),
            "sampler": {} if self.priorities is None else self.priorities.state_dict(filled),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what state_dict gave.

        Raises:
            ConfigError: when it is of another capacity: rows would be written over at other times.
        """
        own = self.capacity
        require(state["capacity"] == own, "replay capacity", state["capacity"], str(own))
        counters = {name: torch.zeros_like(self.filled) for name in ("cursor", "filled")}
        restore(counters, {name: state[name] for name in counters})
        for name, most in (("filled", own), ("cursor", own - 1)):
            value = int(counters[name])  # host: loading a checkpoint
            require(0 <= value <= most, f"replay {name}", value, f"from 0 to {most}")
        filled = int(counters["filled"])  # host: likewise
        restore(self._rows[:filled], state["rows"])
        self._cursor.copy_(counters["cursor"])
        self.filled.copy_(counters["filled"])
        if self.priorities is not None:
            self.priorities.load_state_dict(state["sampler"], filled)
