"""Replay on the device: a ring of single robots' transitions, written and read without the host.

TorchRL's ``ReplayBuffer`` is not used: its writers and samplers count in Python integers and store
every row they are given. Here robots that have ended must not be stored, and how many are active is
only known on the device; so the cursor and the number of filled slots are tensors, and rows that
are not stored go to spare slots past the end that are never sampled. Nor is TorchRL's storage,
which reads and writes every tensor of the rows by itself, see ``packing``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env.stepping.reset_pool import restore
from marinenav_env.support.validation import require
from train_RL_agents.memory.column_layout import ColumnLayout, Rows
from train_RL_agents.memory.prioritized import SPARE, BlockSums, Priorities

SLOT, WEIGHTS = "slot", "weights"
"""Keys of a drawn row: where it is stored, and its importance weight."""


def copied(rows: TensorDictBase) -> TensorDictBase:
    """Return the same bits in other memory; TensorDict's ``clone`` adds 0, which makes 0.0 of -0.0."""
    return rows.apply(Tensor.clone)


def tree_bytes(tree: Any) -> int:
    """Return the bytes of the tensors in a tensordict or tensorclass."""
    return sum(int(leaf.nbytes) for leaf in tree.values(True, True))


def replay_bytes(row: TensorDictBase, capacity: int, prioritized: bool) -> tuple[int, int]:
    """Return the bytes of replay's rows and of their priorities.

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
        device, slots = generator.device, capacity + SPARE
        self.capacity, self._batch_size, self._generator = capacity, batch_size, generator
        self.packing = ColumnLayout(example)
        """Which columns of the rows are which of their leaves."""
        self._packed = self.packing.zeros([slots], device)
        self._cursor = torch.zeros((), dtype=torch.int64, device=device)
        self.filled = torch.zeros((), dtype=torch.int64, device=device)
        """Transitions held, int64 scalar on the device."""
        self.priorities = None if alpha is None else Priorities(capacity, generator, alpha)

    def extend(self, rows: TensorDictBase) -> None:
        """Insert the rows [B] whose STORED is true; see ``insert``."""
        self.insert(self.packing.rows(rows))

    def insert(self, rows: Rows) -> None:
        """Insert rows [B], at most as many as the capacity."""
        packed, stored = rows
        device, size = self.filled.device, len(next(iter(packed.values())))
        if not size:
            return
        number: Tensor = torch.arange(size, device=device)
        added: Tensor | int = size
        if stored is None:
            slots = (self._cursor + number) % self.capacity
        else:
            rank = stored.cumsum(0)
            slots = (self._cursor + rank - 1) % self.capacity
            slots = torch.where(stored, slots, self.capacity + number % SPARE)
            added = rank[-1]
        for kind, matrix in packed.items():
            self._packed[kind].index_copy_(0, slots, matrix)
        self._cursor.add_(added).remainder_(self.capacity)
        self.filled.add_(added).clamp_max_(self.capacity)
        if self.priorities is not None:
            self.priorities.add(slots)

    def sample(self) -> TensorDictBase:
        """Draw transitions [batch_size], with SLOT and, if prioritised, WEIGHTS.

        Before anything is stored, the first slot is drawn, whose row is blank.
        """
        if self.priorities is not None:
            slots, weights = self.priorities.draw(self._batch_size, self.filled)
            return self.rows_at(slots).set(WEIGHTS, weights)
        # float64: a float32 uniform cannot reach every slot of a large buffer.
        chance = torch.rand(
            self._batch_size,
            generator=self._generator,
            device=self._generator.device,
            dtype=torch.float64,
        )
        return self.rows_at((chance * self.filled).to(torch.int64))

    def rows_at(self, slots: Tensor) -> TensorDictBase:
        """Return the copies of the rows at slots [B], with SLOT."""
        drawn = {kind: matrix.index_select(0, slots) for kind, matrix in self._packed.items()}
        return self.packing.unpack(drawn).set(SLOT, slots)

    def update_priority(self, drawn: TensorDictBase, priority: Tensor | None) -> None:
        """Set the priorities of drawn transitions from the sizes of their errors [B]."""
        if self.priorities is not None and priority is not None:
            self.priorities.update(drawn.get(SLOT), priority)

    def set_beta(self, beta: float) -> None:
        """Set the exponent of the importance weights; nothing to do if drawn uniformly."""
        if self.priorities is not None:
            self.priorities.beta.fill_(beta)

    def state_dict(self) -> dict[str, Any]:
        """Return the filled slots only."""
        filled = int(self.filled)  # host: saving a checkpoint
        # Matrices are copied whole: a GPU need not have room for parts of a second replay.
        packed = {
            kind: each[:filled].to("cpu", copy=True)  # host: likewise
            for kind, each in self._packed.items()
        }
        return {
            "capacity": self.capacity,
            "rows": self.packing.unpack(packed).to_dict(),
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
        held = {kind: each[:filled] for kind, each in self._packed.items()}
        # As when saving.
        given = {
            kind: each if each.device.type == "cpu" else torch.empty_like(each, device="cpu")
            for kind, each in held.items()
        }
        restore(self.packing.unpack(given), state["rows"])
        for kind, each in held.items():
            if each is not given[kind]:
                each.copy_(given[kind])
        self._cursor.copy_(counters["cursor"])
        self.filled.copy_(counters["filled"])
        if self.priorities is not None:
            self.priorities.load_state_dict(state["sampler"], filled)
