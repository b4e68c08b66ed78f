"""Rates of several benchmarks in turn, over several repeats, so that drift affects all."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

_LONGEST = 1_000_000
"""Steps of a repeat at most."""

Row = dict[str, Any]
Notes = Callable[[float], dict[str, float]]
"""Further figures of what was done since the last call, from its seconds."""


def grouped(rows: Sequence[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Return the rows by the values of some labels."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in names), []).append(row)
    return groups


@dataclass
class Benchmark:
    """Something whose rate is measured."""

    labels: Row
    """What it is: mode, environments, batch, ..."""
    unit: str
    """What is counted, per second."""
    amount: float
    """How many of these a step makes."""
    device: torch.device
    """Where it works."""
    step: Callable[[], object]
    """What is measured."""
    notes: Notes = lambda seconds: {}
    """Further figures of the latest run."""
    least: int = 3
    """Steps of the shortest run, in which everything happens; the first one compiles. Not fewer
    than 3 of what calls a compiled function once, as layouts may change after the first call."""

    def run(self, steps: int) -> float:
        """Return the seconds that so many steps take, the device's work included."""
        synchronize(self.device)
        began = time.perf_counter()
        for _ in range(steps):
            self.step()
        synchronize(self.device)
        return time.perf_counter() - began


def synchronize(device: torch.device) -> None:
    """Wait until the device has done its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Stopwatch:
    """Sums the time of spans by name: host clock on a CPU, events on the stream on a GPU.

    No span makes a GPU wait. An instance fits ``Clock.watch``.

    Args:
        device: where the spans work.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._spans: list[tuple[str, Any, Any]] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Count what happens within towards a name."""
        began = self._mark()
        yield
        self._spans.append((name, began, self._mark()))

    def on_module(self, module: nn.Module, name: str) -> None:
        """Count the calls of a module towards a name from now on."""
        began: list[Any] = []
        module.register_forward_pre_hook(lambda *_: began.append(self._mark()))
        module.register_forward_hook(lambda *_: self._spans.append((name, began.pop(), self._mark())))

    def clear(self) -> None:
        """Forget what was counted."""
        self._spans = []

    def seconds(self) -> dict[str, float]:
        """Return the seconds by name; the device's work must be done."""
        total: dict[str, float] = {}
        for name, began, ended in self._spans:
            spent = began.elapsed_time(ended) / 1e3 if self._cuda else ended - began
            total[name] = total.get(name, 0.0) + spent
        return total

    def _mark(self) -> Any:
        """Return a moment: of the device's stream, or of the host."""
        if not self._cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event


def compile_seconds(benchmark: Benchmark) -> float:
    """Return the seconds that the first pass takes longer than another one: compilation, for the most."""
    first = benchmark.run(benchmark.least)
    return max(0.0, first - benchmark.run(benchmark.least))


def steps_for(benchmark: Benchmark, seconds: float) -> int:
    """Return the steps that take about so many seconds."""
    steps = benchmark.least
    took = benchmark.run(steps)
    while took < 0.1 * seconds and steps < _LONGEST:
        steps *= 4
        took = benchmark.run(steps)
    return max(benchmark.least, min(_LONGEST, round(steps * seconds / max(took, 1e-9))))


def measure(benchmarks: Sequence[Benchmark], seconds: float, repeats: int) -> list[Row]:
    """Measure benchmarks, each once per repeat.

    Args:
        benchmarks: fresh ones; what their first pass compiles is timed apart.
        seconds: length of a run.
        repeats: runs of each.

    Returns:
        A row per benchmark: labels, unit, median, lowest and highest rate, notes of the median run.
    """
    compiling = [compile_seconds(benchmark) for benchmark in benchmarks]
    steps = [steps_for(benchmark, seconds) for benchmark in benchmarks]
    for benchmark in benchmarks:
        benchmark.notes(1.0)  # forget what was counted so far
    runs: list[list[tuple[float, dict[str, float]]]] = [[] for _ in benchmarks]
    for _ in range(repeats):
        for benchmark, count, results in zip(benchmarks, steps, runs, strict=True):
            took = benchmark.run(count)
            results.append((took, benchmark.notes(took)))
    return [_row(*each) for each in zip(benchmarks, compiling, steps, runs, strict=True)]


def _row(benchmark: Benchmark, compiling: float, steps: int, runs: list[tuple[float, dict[str, float]]]) -> Row:
    """Return the figures of one benchmark."""
    rates = [benchmark.amount * steps / took for took, _ in runs]
    # Of one run, so that shares of its time add up.
    middle = rates.index(statistics.median_low(rates))
    return {
        **benchmark.labels,
        "unit": benchmark.unit,
        "median": statistics.median(rates),
        "lowest": min(rates),
        "highest": max(rates),
        "runs": rates,
        "steps": steps,
        "ms_per_step": 1e3 * statistics.median(took for took, _ in runs) / steps,
        "compile_seconds": compiling,
        "notes": runs[middle][1],
    }
