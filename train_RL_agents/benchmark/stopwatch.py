"""Time spent inside functions, without making a GPU wait."""

from __future__ import annotations

import time
from typing import Any

import torch


class Stopwatch:
    """Sums the time of calls by label: host clock on a CPU, events on the stream on a GPU.

    Args:
        device: where the functions work.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._spans: list[tuple[str, Any, Any]] = []

    def watch(self, owner: Any, name: str, label: str) -> None:
        """Count the calls of a method of an object towards a label from now on."""
        function = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            began = self._mark()
            result = function(*args, **kwargs)
            self._spans.append((label, began, self._mark()))
            return result

        setattr(owner, name, timed)

    def clear(self) -> None:
        """Forget what was counted."""
        self._spans = []

    def seconds(self) -> dict[str, float]:
        """Seconds by label; the device's work must be done."""
        total: dict[str, float] = {}
        for label, began, ended in self._spans:
            spent = began.elapsed_time(ended) / 1e3 if self._cuda else ended - began
            total[label] = total.get(label, 0.0) + spent
        return total

    def _mark(self) -> Any:
        """A moment: of the device's stream, or of the host."""
        if not self._cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event
