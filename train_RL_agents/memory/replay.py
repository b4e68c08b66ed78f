"""Replay on the device: a ring buffer of single robots' transitions, written and read without the host.

TorchRL's ``ReplayBuffer`` is not used: its writers and samplers count in Python integers and store every transition.
Here steps of robots that have ended must not be stored, and the number of active robots is only known on the device. So
the cursor and the number of filled slots are tensors, and transitions that are not stored go to spare slots past the
end, which are never sampled. TorchRL's storage is not used either, because it accesses every tensor of a transition
separately; see ``ColumnLayout``.
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
"""Keys of sampled transitions: their slots and importance weights."""


def copied(rows: TensorDictBase) -> TensorDictBase:
    """Return a bitwise copy; TensorDict's ``clone`` adds 0, which turns -0.0 into 0.0."""
    return rows.apply(Tensor.clone)


def tree_bytes(tree: Any) -> int:
    """Return the number of bytes of the tensors in a tensordict or tensorclass."""
    return sum(int(leaf.nbytes) for leaf in tree.values(True, True))


def replay_bytes(row: TensorDictBase, capacity: int, prioritized: bool) -> tuple[int, int]:
    """Return the memory (bytes) of the transitions of a replay and of their priorities.

    Args:
        row: one transition, without batch dimensions.
        capacity: number of transitions.
        prioritized: whether there are priorities.
    """
    slots = capacity + SPARE
    priorities = BlockSums(slots, torch.device("meta")).nbytes() if prioritized else 0
    return slots * tree_bytes(row), priorities


class Replay:
    """Ring buffer of transitions, in which new ones replace the oldest.

    Transitions are sampled with replacement: uniformly, or in proportion to their priorities.

    Args:
        example: one transition, a TensorDict without batch dimensions, for shapes and dtypes.
        capacity: number of transitions.
        batch_size: number of transitions that ``sample`` returns.
        generator: random generator; its device is the buffer's.
        alpha: exponent of priorities; None: uniform sampling.
    """

    on_device: ClassVar[bool] = True
    """True if kernels of the device insert the transitions, as a CUDA graph needs."""

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
        self.layout = ColumnLayout(example)
        """Layout of a transition in the columns of the matrices."""
        self._packed = self.layout.zeros([slots], device)
        self._cursor = torch.zeros((), dtype=torch.int64, device=device)
        self.filled = torch.zeros((), dtype=torch.int64, device=device)
        """Number of stored transitions, int64 scalar on the device."""
        self.priorities = None if alpha is None else Priorities(capacity, generator, alpha)

    def extend(self, rows: TensorDictBase) -> None:
        """Add the transitions [B] whose STORED is true to the buffer."""
        self.insert(self.layout.rows(rows))

    def insert(self, rows: Rows) -> None:
        """Insert packed transitions [B], at most as many as the capacity."""
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
        """Sample transitions [batch_size], with SLOT and, if prioritised, WEIGHTS.

        While nothing is stored, the blank transition of the first slot is returned.
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
        """Return copies of the transitions at slots [B], with SLOT."""
        drawn = {kind: matrix.index_select(0, slots) for kind, matrix in self._packed.items()}
        return self.layout.unpack(drawn).set(SLOT, slots)

    def update_priority(self, drawn: TensorDictBase, priority: Tensor | None) -> None:
        """Set the priorities of sampled transitions from the absolute errors [B]; do nothing if sampling is uniform."""
        if self.priorities is not None and priority is not None:
            self.priorities.update(drawn.get(SLOT), priority)

    def set_beta(self, beta: float) -> None:
        """Set the exponent of the importance weights, if transitions are prioritised."""
        if self.priorities is not None:
            self.priorities.beta.fill_(beta)

    def state_dict(self) -> dict[str, Any]:
        """Return the filled slots, the counters and the priorities."""
        filled = int(self.filled)  # host: saving a checkpoint
        # Matrices are copied as they are, because a GPU may lack the memory for unpacked copies.
        packed = {
            kind: matrix[:filled].to("cpu", copy=True)  # host: saving a checkpoint
            for kind, matrix in self._packed.items()
        }
        return {
            "capacity": self.capacity,
            "rows": self.layout.unpack(packed).to_dict(),
            "cursor": self._cursor.clone(),
            "filled": self.filled.clone(),
            "sampler": {} if self.priorities is None else self.priorities.state_dict(filled),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of state_dict.

        Raises:
            ConfigError: when the capacity differs, because transitions would then be replaced at other times, or a
                counter is out of range.
        """
        capacity = self.capacity
        require(state["capacity"] == capacity, "replay capacity", state["capacity"], str(capacity))
        counters = {name: torch.zeros_like(self.filled) for name in ("cursor", "filled")}
        restore(counters, {name: state[name] for name in counters})
        for name, most in (("filled", capacity), ("cursor", capacity - 1)):
            value = int(counters[name])  # host: loading a checkpoint
            require(0 <= value <= most, f"replay {name}", value, f"from 0 to {most}")
        filled = int(counters["filled"])  # host: loading a checkpoint
        filled_rows = {kind: matrix[:filled] for kind, matrix in self._packed.items()}
        # Restored on the host, as when saving.
        host_rows = {
            kind: matrix if matrix.device.type == "cpu" else torch.empty_like(matrix, device="cpu")
            for kind, matrix in filled_rows.items()
        }
        restore(self.layout.unpack(host_rows), state["rows"])
        for kind, matrix in filled_rows.items():
            if matrix is not host_rows[kind]:
                matrix.copy_(host_rows[kind])
        self._cursor.copy_(counters["cursor"])
        self.filled.copy_(counters["filled"])
        if self.priorities is not None:
            self.priorities.load_state_dict(state["sampler"], filled)
