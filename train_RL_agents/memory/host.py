"""Replay in the host's memory, for more transitions than the device holds.

One thread in the background owns the ring and does what it is asked in the order of asking: take
rows in, set priorities, draw a batch. The training loop never waits for a copy; it waits for a
batch only when none is ready. As the order does not depend on who is faster, neither do the rows.

TorchRL's ``ReplayBuffer(prefetch=..., pin_memory=True)`` inserts in the calling thread, which here
would have to wait for the rows to leave the device, and does not save what it has drawn ahead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marinenav_env.stepping.reset_pool import restore
from marinenav_env.support.validation import require
from train_RL_agents.config.schema import OffPolicyConfig
from train_RL_agents.memory.column_layout import STORED, Rows
from train_RL_agents.memory.replay import SLOT, WEIGHTS, Replay, copied

CPU = torch.device("cpu")
AHEAD = 2
"""Batches drawn ahead: so many are at most as old as the update before the previous one."""
_WAITING = 8
"""Insertions that may be queued; with more, the loop waits, which bounds the memory."""


class Prefetcher:
    """Copies between a device and the host without making the caller wait.

    On the CPU there is nothing to copy; what is sent is cloned, so that it may be written over.

    Args:
        device: the other end.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def send(self, data: TensorDictBase) -> Callable[[], TensorDictBase]:
        """Begin a copy to the host; what is returned waits for it and gives it."""
        if self._stream is None:
            sent = copied(data)
            return lambda: sent
        # On the loop's own stream: later writes to the same memory come after the copy.
        sent = data.apply(self._pinned, device=CPU)
        done = torch.cuda.Event()
        done.record(torch.cuda.current_stream(self.device))

        def arrived() -> TensorDictBase:
            done.synchronize()
            return sent

        return arrived

    @staticmethod
    def _pinned(tensor: Tensor) -> Tensor:
        """Return a copy in pinned memory, in flight."""
        held = torch.empty(tensor.shape, dtype=tensor.dtype, device=CPU, pin_memory=True)
        return held.copy_(tensor, non_blocking=True)

    def fetch(self, data: TensorDictBase) -> Callable[[], TensorDictBase]:
        """Begin a copy to the device; what is returned gives it to the stream of its caller."""
        if self._stream is None:
            return lambda: data
        with torch.cuda.device(self.device), torch.cuda.stream(self._stream):
            pinned = data.apply(lambda tensor: tensor.contiguous().pin_memory())
            there = pinned.apply(lambda tensor: tensor.to(self.device, non_blocking=True), device=self.device)
            done = torch.cuda.Event()
            done.record(self._stream)

        def arrived() -> TensorDictBase:
            stream = torch.cuda.current_stream(self.device)
            stream.wait_event(done)
            for tensor in there.values(True, True):
                tensor.record_stream(stream)
            return there

        return arrived


class HostReplay:
    """Replay with rows, cursor and priorities on the host; used as Replay is.

    A batch is drawn when the one AHEAD before it is taken, so it does not know of rows and
    priorities that came since. Drawn ahead are as many as that from the first ``sample`` on.

    Rows stay in ordinary memory: they are gathered one by one, which pinning would not speed up.
    Only copied batches are pinned.

    Args:
        example: one row, a TensorDict without batch dimensions, for shapes and types.
        capacity: transitions held.
        batch_size: transitions drawn by ``sample``.
        generator: source of randomness, on the CPU.
        device: where rows come from and batches go.
        alpha: exponent of priorities; None draws uniformly.
    """

    on_device: ClassVar[bool] = False
    """See Replay."""

    def __init__(
        self,
        example: TensorDictBase,
        capacity: int,
        batch_size: int,
        generator: torch.Generator,
        device: torch.device,
        alpha: float | None = None,
    ) -> None:
        self._ring = Replay(example.to(CPU), capacity, batch_size, generator, alpha)
        self._prefetcher, self.capacity = Prefetcher(device), capacity
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="replay")
        self._drawn: deque[Future[Callable[[], TensorDictBase]]] = deque()
        self._asked: deque[Future[None]] = deque()
        self.filled = torch.zeros((), dtype=torch.int64, device=device)
        """Transitions held once all insertions are done, int64 scalar on the device."""

    def extend(self, rows: TensorDictBase) -> None:
        """Insert the rows [B] whose STORED is true."""
        self.insert(self._ring.packing.rows(rows))

    def insert(self, rows: Rows) -> None:
        """Insert rows [B]."""
        packed, stored = rows
        size = len(next(iter(packed.values())))
        marked = packed if stored is None else packed | {STORED: stored}
        self.filled = (self.filled + (size if stored is None else stored.sum())).clamp_max(self.capacity)
        arrived = self._prefetcher.send(TensorDict(marked, [size]))

        def insert() -> None:
            given = dict(arrived().items())
            chosen = given.pop(STORED, None)
            if chosen is not None:
                given = {kind: each[chosen] for kind, each in given.items()}
            self._ring.insert(Rows(given, None))

        self._ask(insert)

    def sample(self) -> TensorDictBase:
        """Draw transitions [batch_size], with SLOT and, if prioritised, WEIGHTS."""
        while len(self._drawn) < AHEAD:
            self._drawn.append(self._worker.submit(self._draw))
        batch = self._drawn.popleft().result()()
        self._drawn.append(self._worker.submit(self._draw))
        return batch

    def update_priority(self, drawn: TensorDictBase, priority: Tensor | None) -> None:
        """Set the priorities of drawn transitions from the sizes of their errors [B]."""
        if priority is None or self._ring.priorities is None:
            return
        sent = TensorDict({SLOT: drawn.get(SLOT), "priority": priority}, priority.shape)
        arrived = self._prefetcher.send(sent)

        def update() -> None:
            given = arrived()
            self._ring.update_priority(given, given.get("priority"))

        self._ask(update)

    def set_beta(self, beta: float) -> None:
        """Set the exponent of the importance weights; nothing to do if drawn uniformly."""
        self._ask(lambda: self._ring.set_beta(beta))

    def _draw(self) -> Callable[[], TensorDictBase]:
        """Draw a batch and send it on its way; in the background."""
        return self._prefetcher.fetch(self._ring.sample())

    def _ask(self, task: Callable[[], None]) -> None:
        """Queue a task for the background thread; raises its earlier errors."""
        self._asked.append(self._worker.submit(task))
        while self._asked and (self._asked[0].done() or len(self._asked) > _WAITING):
            self._asked.popleft().result()

    def _finish(self) -> None:
        """Wait for all queued tasks, draws included: they advance the generator."""
        for drawn in self._drawn:
            drawn.result()
        while self._asked:
            self._asked.popleft().result()

    def state_dict(self) -> dict[str, Any]:
        """Return the filled slots, and what has been drawn ahead."""
        self._finish()
        drawn = [future.result()().to(CPU).to_dict() for future in self._drawn]
        return self._ring.state_dict() | {"drawn": drawn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what state_dict gave."""
        self._finish()
        self._ring.load_state_dict(state)
        self.filled.copy_(self._ring.filled)
        self._drawn.clear()
        count = len(state["drawn"])
        require(count in (0, AHEAD), "replay drawn", count, f"0 or {AHEAD} batches")
        for rows in state["drawn"]:
            slots = rows[SLOT]
            fine = bool(((slots >= 0) & (slots < self.capacity)).all())  # host: on the host
            require(fine, "replay drawn", "slots", f"below {self.capacity}")
            batch = self._ring.rows_at(slots)
            if self._ring.priorities is not None:
                batch.set(WEIGHTS, torch.zeros(slots.shape))
            restore(batch, rows)
            self._drawn.append(self._worker.submit(self._prefetcher.fetch, batch))


def make_replay(
    example: TensorDictBase,
    settings: OffPolicyConfig,
    generator: torch.Generator,
    device: torch.device,
) -> Replay | HostReplay:
    """Return the replay that the settings ask for.

    Args:
        example: one row, for shapes and types.
        settings: sizes, storage and priorities.
        generator: source of randomness, where the rows are held.
        device: of the training.
    """
    alpha = settings.priority_exponent if settings.prioritized else None
    sizes = settings.buffer_size, settings.batch_size
    if settings.replay_storage == "host":
        return HostReplay(example, *sizes, generator, device, alpha)
    return Replay(example, *sizes, generator, alpha)
