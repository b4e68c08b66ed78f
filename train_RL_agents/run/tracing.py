"""A trace of some vector steps of a training run, for TensorBoard's profiler or Perfetto."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from train_RL_agents.utils.progress import Clock

_UPDATES_BEFORE = 10
"""Updates before the trace: by then everything is compiled."""


class TracingClock(Clock):
    """A clock that also names its phases in a profiler's trace, and starts and stops the profiler.

    The trace begins with a ``collect`` after some updates, and ends with the ``collect`` after the
    wanted vector steps, or later, when there has been an update in it. It takes the place of a
    trainer's clock, so that a run without a trace pays nothing.

    Args:
        clock: the trainer's, which is gone on with.
        folder: where the trace is written.
        steps: batches of the collector in the trace.
        device: of the run.
    """

    def __init__(self, clock: Clock, folder: Path, steps: int, device: torch.device) -> None:
        super().__init__()
        self.load_state_dict(clock.state_dict())
        self.path: Path | None = None
        """The trace, once it is written."""
        self._folder, self._steps = folder, steps
        self._activities = [ProfilerActivity.CPU]
        if device.type == "cuda":
            self._activities.append(ProfilerActivity.CUDA)
        self._profiler: profile | None = None
        self._updates = self._traced = 0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time inside towards a phase, under its name in the trace."""
        if name == "collect":
            self._next_step()
        self._updates += name == "update"
        with super().phase(name), record_function(name):
            yield

    def _next_step(self) -> None:
        """Begin or end the trace when it is time to."""
        if self._profiler is None:
            if self.path is None and self._updates >= _UPDATES_BEFORE:
                self._updates = 0
                self._profiler = profile(activities=self._activities)
                self._profiler.start()
            return
        self._traced += 1
        if self._traced >= self._steps and self._updates:
            self.finish()

    def finish(self) -> None:
        """Write the trace, if one is under way: also when the run ends before it."""
        if self._profiler is None:
            return
        self._profiler.stop()
        # TensorBoard's plugin looks for this ending, and takes the rest for worker and time.
        path = self._folder / f"training.{time.time_ns() // 1_000_000}.pt.trace.json.gz"
        self._profiler.export_chrome_trace(str(path))
        self._profiler, self.path = None, path
