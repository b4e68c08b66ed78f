"""Replay in the host's memory, for more transitions than the device holds.

A background thread owns the ring buffer and executes tasks in their order: insert rows, set priorities, draw a batch.
The training loop never waits for a copy; it waits for a batch only when none is ready. The order of tasks, and so the
batches, do not depend on timing.

TorchRL's ``ReplayBuffer(prefetch=..., pin_memory=True)`` inserts in the calling thread, which would have to wait for
the copy from the device, and does not save its prefetched batches.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marinenav_env.support.tensors import restore_tensors
from marinenav_env.support.validation import require
from train_RL_agents.agents.trainer_configs import OffPolicyConfig
from train_RL_agents.learning.replay import SLOT_KEY, STORED_MASK, WEIGHTS_KEY, Replay, bitwise_clone

CPU = torch.device("cpu")
NUM_PREFETCHED = 2
"""Number of batches sampled ahead; a batch is sampled this many calls of ``HostReplay.sample`` before its return."""
_MAX_QUEUED_TASKS = 8
"""Largest number of queued insertions and updates of priorities, which bounds memory; the caller waits at more."""


class AsyncCopier:
    """Asynchronous copies of tensordicts between a device and the host, for which the caller does not wait.

    If the device is the CPU, ``send`` clones data, so that it may be overwritten, and ``fetch`` does nothing.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def send(self, data: TensorDictBase) -> Callable[[], TensorDictBase]:
        """Start a copy from the device to the host; return a function that waits for the copy and returns it."""
        if self._stream is None:
            sent = bitwise_clone(data)
            return lambda: sent
        # On the training loop's own stream, so that later writes to the same memory come after the copy.
        sent = data.apply(self._pinned_copy, device=CPU)
        done = torch.cuda.Event()
        done.record(torch.cuda.current_stream(self.device))

        def arrived() -> TensorDictBase:
            done.synchronize()
            return sent

        return arrived

    @staticmethod
    def _pinned_copy(tensor: Tensor) -> Tensor:
        """Return a copy in pinned host memory, which is complete only when the current stream has run."""
        copy = torch.empty(tensor.shape, dtype=tensor.dtype, device=CPU, pin_memory=True)
        return copy.copy_(tensor, non_blocking=True)

    def fetch(self, data: TensorDictBase) -> Callable[[], TensorDictBase]:
        """Start a copy to the device; return a function that makes the current stream wait for it and returns it."""
        if self._stream is None:
            return lambda: data
        with torch.cuda.device(self.device), torch.cuda.stream(self._stream):
            pinned = data.apply(lambda tensor: tensor.contiguous().pin_memory())
            fetched = pinned.apply(lambda tensor: tensor.to(self.device, non_blocking=True), device=self.device)
            done = torch.cuda.Event()
            done.record(self._stream)

        def arrived() -> TensorDictBase:
            stream = torch.cuda.current_stream(self.device)
            stream.wait_event(done)
            for tensor in fetched.values(True, True):
                tensor.record_stream(stream)
            return fetched

        return arrived


class HostReplay:
    """Replay in the host's memory for a device, with the interface of ``Replay``.

    A batch is sampled NUM_PREFETCHED calls of ``sample`` before it is returned, so it lacks transitions and
    priorities that are inserted or set in between. Prefetching starts with the first ``sample``.

    Transitions stay in pageable memory, because they are gathered separately, which pinning would not speed up. Only
    copied batches are pinned.
    """

    inserts_on_device: ClassVar[bool] = False
    """False, because a thread on the host inserts the transitions, which a CUDA graph cannot capture."""

    def __init__(self, ring: Replay, device: torch.device) -> None:
        self._ring, self._copier, self.capacity = ring, AsyncCopier(device), ring.capacity
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="replay")
        self._prefetched: deque[Future[Callable[[], TensorDictBase]]] = deque()
        self._tasks: deque[Future[object]] = deque()
        self.num_stored = torch.zeros((), dtype=torch.int64, device=device)
        """Number of stored transitions once all queued insertions are done, int64 scalar on the device."""

    def insert(self, rows: TensorDictBase) -> None:
        """Queue the insertion of transitions [B]; the tensors may be overwritten afterwards."""
        stored = rows.get(STORED_MASK, None)
        added = len(rows) if stored is None else stored.sum()
        self.num_stored = (self.num_stored + added).clamp_max(self.capacity)
        arrived = self._copier.send(rows)
        self._queue(lambda: self._ring.insert(arrived()))

    def sample(self) -> TensorDictBase:
        """Return the next prefetched batch of transitions [batch_size], on the device; see Replay.sample."""
        while len(self._prefetched) < NUM_PREFETCHED:
            self._prefetched.append(self._worker.submit(self._sample_batch))
        batch = self._prefetched.popleft().result()()
        self._prefetched.append(self._worker.submit(self._sample_batch))
        return batch

    def update_priority(self, drawn: TensorDictBase, priority: Tensor | None) -> None:
        """Queue new priorities of a sampled batch from errors [B]; do nothing if sampling is uniform."""
        if priority is None or self._ring.sampler is None:
            return
        sent = TensorDict({SLOT_KEY: drawn.get(SLOT_KEY), "priority": priority}, priority.shape)
        arrived = self._copier.send(sent)

        def update() -> None:
            rows = arrived()
            self._ring.update_priority(rows, rows.get("priority"))

        self._queue(update)

    def set_beta(self, beta: float) -> None:
        """Set the exponent beta of the importance weights; do nothing if sampling is uniform."""
        self._queue(lambda: self._ring.set_beta(beta))

    def _sample_batch(self) -> Callable[[], TensorDictBase]:
        """Sample a batch and start its copy to the device (see AsyncCopier.fetch); called in the background thread."""
        return self._copier.fetch(self._ring.sample())

    def _queue(self, task: Callable[[], object]) -> None:
        """Queue a task for the background thread, and raise errors of earlier tasks."""
        self._tasks.append(self._worker.submit(task))
        while self._tasks and (self._tasks[0].done() or len(self._tasks) > _MAX_QUEUED_TASKS):
            self._tasks.popleft().result()

    def _wait_for_tasks(self) -> None:
        """Wait for all queued tasks, including prefetched batches, whose sampling advances the generator."""
        for drawn in self._prefetched:
            drawn.result()
        while self._tasks:
            self._tasks.popleft().result()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the buffer like Replay.state_dict, and the prefetched batches as the list ``drawn``."""
        self._wait_for_tasks()
        drawn = [future.result()().to(CPU).to_dict() for future in self._prefetched]
        return self._ring.state_dict() | {"drawn": drawn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``."""
        self._wait_for_tasks()
        self._ring.load_state_dict(state)
        self.num_stored.copy_(self._ring.num_stored)
        self._prefetched.clear()
        count = len(state["drawn"])
        require(count in (0, NUM_PREFETCHED), "replay drawn", count, f"0 or {NUM_PREFETCHED} batches")
        for rows in state["drawn"]:
            slots = rows[SLOT_KEY]
            are_valid = bool(((slots >= 0) & (slots < self.capacity)).all())  # host: the slots are on the host
            require(are_valid, "replay drawn", "slots", f"below {self.capacity}")
            batch = self._ring.transitions_at(slots)
            if self._ring.sampler is not None:
                batch.set(WEIGHTS_KEY, torch.zeros(slots.shape))
            restore_tensors(batch, rows)
            self._prefetched.append(self._worker.submit(self._copier.fetch, batch))


def make_replay(
    example: TensorDictBase, settings: OffPolicyConfig, generator: torch.Generator, device: torch.device
) -> Replay | HostReplay:
    """Return an empty replay with the size, storage (device or host) and sampling that the settings state."""
    alpha = settings.priority_exponent if settings.prioritized else None
    ring = Replay(example, settings.buffer_size, settings.batch_size, generator, alpha)
    return HostReplay(ring, device) if settings.replay_storage == "host" else ring
