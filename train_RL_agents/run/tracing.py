"""Trace of some iterations of the training loop for TensorBoard's profiler or Perfetto."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

_UPDATES_BEFORE = 10
"""Number of updates before the trace, after which everything is compiled."""


class Trace:
    """Callback of the trainer that profiles iterations of its loop, after a few updates and until one is among them."""

    def __init__(self, folder: Path, iterations: int, device: torch.device) -> None:
        self.path: Path | None = None
        """File of the trace; None until it is written."""
        self._folder, self._iterations = folder, iterations
        self._activities = [ProfilerActivity.CPU]
        if device.type == "cuda":
            self._activities.append(ProfilerActivity.CUDA)
        self._profiler: profile | None = None
        self._first: int | None = None
        self._traced = 0

    def __call__(self, trainer: Any) -> None:
        """Start or end the trace when it is due; called after every iteration."""
        updates = trainer.algorithm.learner.updates
        self._first = updates if self._first is None else self._first
        if self._profiler is not None:
            self._traced += 1
            if self._traced >= self._iterations and updates > self._first:
                trainer.clock.phase_context = nullcontext
                self.finish()
        elif self.path is None and updates - self._first >= _UPDATES_BEFORE:
            self._first = updates
            trainer.clock.phase_context = record_function
            self._profiler = profile(activities=self._activities)
            self._profiler.start()

    def finish(self) -> None:
        """Write the trace if one has started, also if the run ends early."""
        if self._profiler is None:
            return
        self._profiler.stop()
        # TensorBoard's plugin searches for this suffix; the rest of the name is worker and time.
        path = self._folder / f"training.{time.time_ns() // 1_000_000}.pt.trace.json.gz"
        self._profiler.export_chrome_trace(str(path))
        self._profiler, self.path = None, path
