"""Replay on the device: a ring buffer of single robots' transitions, written and read without the host.

TorchRL's ``ReplayBuffer`` is not used: its writers and samplers count in Python integers and store every transition.
Here steps of robots that have ended must not be stored, and the number of active robots is only known on the device. So
the cursor and the number of filled slots are tensors, and transitions that are not stored go to spare slots past the
end, which are never sampled.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from tensordict import TensorDict, TensorDictBase, is_tensor_collection
from torch import Tensor

from marinenav_env.support.tensors import restore_tensors
from marinenav_env.support.validation import require
from train_RL_agents.learning.prioritized import SPARE_SLOTS, BlockSums, PrioritizedSampler
from train_RL_agents.utils.memory import tree_bytes

SLOT_KEY = "slot"
"""Key of the slots [B] int64 of sampled transitions."""
WEIGHTS_KEY = "weights"
"""Key of the importance weights [B] float32 of transitions sampled by priority."""
STORED_MASK = "stored"
"""Key of the mask of the transitions to store, all of them without it, and of open windows in a saved state."""


def blank_rows(example: TensorDictBase, shape: Sequence[int]) -> TensorDictBase:
    """Return rows [*shape] of zeros like an example without batch dimensions."""
    return example.apply(lambda leaf: leaf.new_zeros(*shape, *leaf.shape), batch_size=shape)


def map_tensors(function: Callable[..., Tensor], batch: Sequence[int], *trees: TensorDictBase) -> TensorDict:
    """Return a function of the tensors of tensordicts with the same keys; ``TensorDict.apply`` takes a third longer."""

    def mapped(first: TensorDictBase, *others: TensorDictBase) -> dict[str, Any]:
        columns = ((name, part, [other.get(name) for other in others]) for name, part in first.items())
        return {
            name: (mapped if is_tensor_collection(part) else function)(part, *others) for name, part, others in columns
        }

    return TensorDict(mapped(*trees), batch)


def rows_at(rows: TensorDictBase, index: Tensor) -> TensorDict:
    """Return copies of the rows at indices [B] int64."""
    return map_tensors(lambda leaf: leaf.index_select(0, index), index.shape, rows)


def bitwise_clone(rows: TensorDictBase) -> TensorDictBase:
    """Return a bitwise copy of a tensordict; TensorDict's ``clone`` adds 0, which turns -0.0 into 0.0."""
    return rows.apply(Tensor.clone)


def replay_bytes(example: TensorDictBase, capacity: int, prioritized: bool) -> tuple[int, int]:
    """Return the memory of a replay as two numbers of bytes, of the transitions and of their priorities."""
    slots = capacity + SPARE_SLOTS
    priorities = BlockSums(slots, torch.device("meta")).nbytes() if prioritized else 0
    return slots * tree_bytes(example), priorities


class Replay:
    """Ring buffer of transitions, in which new ones replace the oldest.

    Transitions, such as ``example`` without batch dimensions, are sampled with replacement: uniformly if ``alpha`` is
    None, else in proportion to their priorities with this exponent. The device is that of the generator.
    """

    inserts_on_device: ClassVar[bool] = True
    """True, because only kernels of the device insert and sample transitions, which a CUDA graph can capture."""

    def __init__(
        self,
        example: TensorDictBase,
        capacity: int,
        batch_size: int,
        generator: torch.Generator,
        alpha: float | None = None,
    ) -> None:
        device, slots = generator.device, capacity + SPARE_SLOTS
        self.capacity, self._batch_size, self._generator = capacity, batch_size, generator
        self._rows = blank_rows(example.to(device), [slots])
        self._cursor = torch.zeros((), dtype=torch.int64, device=device)
        self.num_stored = torch.zeros((), dtype=torch.int64, device=device)
        """Number of stored transitions, int64 scalar on the device."""
        self.sampler = None if alpha is None else PrioritizedSampler(capacity, generator, alpha)
        """Sampler by priority; None: uniform sampling."""

    def insert(self, rows: TensorDictBase) -> Tensor:
        """Insert the transitions [B] in their STORED_MASK, and return their slots [B]; B is at most the capacity.

        Slots of transitions outside the mask have no meaning.
        """
        stored = rows.get(STORED_MASK, None)
        device, size = self.num_stored.device, len(rows)
        number: Tensor = torch.arange(size, device=device)
        if not size:
            return number
        added: Tensor | int = size
        if stored is None:
            slots = (self._cursor + number) % self.capacity
        else:
            rank = stored.cumsum(0)
            slots = (self._cursor + rank - 1) % self.capacity
            slots = torch.where(stored, slots, self.capacity + number % SPARE_SLOTS)
            added = rank[-1]
        for key, leaf in self._rows.items(True, True):
            leaf.index_copy_(0, slots, rows.get(key))
        self._cursor.add_(added).remainder_(self.capacity)
        self.num_stored.add_(added).clamp_max_(self.capacity)
        if self.sampler is not None:
            self.sampler.add(slots)
        return slots

    def sample(self) -> TensorDictBase:
        """Return sampled transitions [batch_size], with the entry SLOT_KEY and, if prioritised, WEIGHTS_KEY.

        While nothing is stored, all of them are that of the first slot, which is zeros.
        """
        if self.sampler is not None:
            slots, weights = self.sampler.sample(self._batch_size, self.num_stored)
            return self.transitions_at(slots).set(WEIGHTS_KEY, weights)
        # float64: a float32 uniform cannot reach every slot of a large buffer.
        generator = self._generator
        chance = torch.rand(self._batch_size, generator=generator, device=generator.device, dtype=torch.float64)
        return self.transitions_at((chance * self.num_stored).to(torch.int64))

    def transitions_at(self, slots: Tensor) -> TensorDictBase:
        """Return copies of the transitions at slots [B] int64, with the slots as the entry SLOT_KEY."""
        return rows_at(self._rows, slots).set(SLOT_KEY, slots)

    def update_priority(self, drawn: TensorDictBase, priority: Tensor | None) -> None:
        """Set the priorities of a sampled batch [B] from errors [B]; do nothing if sampling is uniform."""
        if self.sampler is not None and priority is not None:
            self.sampler.update(drawn.get(SLOT_KEY), priority)

    def set_beta(self, beta: float) -> None:
        """Set the exponent beta of the importance weights; do nothing if sampling is uniform."""
        if self.sampler is not None:
            self.sampler.beta.fill_(beta)

    def state_dict(self) -> dict[str, Any]:
        """Return ``capacity``, ``rows``, their number ``filled``, ``cursor`` and the state of the ``sampler``."""
        filled = int(self.num_stored)  # host: saving a checkpoint
        rows = self._rows[:filled].apply(lambda leaf: leaf.to("cpu", copy=True))  # host: saving a checkpoint
        return {
            "capacity": self.capacity,
            "rows": rows.to_dict(),
            "cursor": self._cursor.clone(),
            "filled": self.num_stored.clone(),
            "sampler": {} if self.sampler is None else self.sampler.state_dict(filled),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``; with another capacity, rows would be replaced at other times."""
        capacity = self.capacity
        require(state["capacity"] == capacity, "replay capacity", state["capacity"], str(capacity))
        counters = {name: torch.zeros_like(self.num_stored) for name in ("cursor", "filled")}
        restore_tensors(counters, {name: state[name] for name in counters})
        for name, most in (("filled", capacity), ("cursor", capacity - 1)):
            value = int(counters[name])  # host: loading a checkpoint
            require(0 <= value <= most, f"replay {name}", value, f"from 0 to {most}")
        filled = int(counters["filled"])  # host: loading a checkpoint
        restore_tensors(self._rows[:filled], state["rows"])
        self._cursor.copy_(counters["cursor"])
        self.num_stored.copy_(counters["filled"])
        if self.sampler is not None:
            self.sampler.load_state_dict(state["sampler"], filled)
