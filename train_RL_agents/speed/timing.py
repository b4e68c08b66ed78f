"""Rates of several benchmarks, measured alternately over several repeats, so that drift affects all."""

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
"""Largest number of steps of a run."""
_TRIES = 8
"""Largest number of runs that estimate the number of steps."""
_GROWTH = 20
"""Largest factor by which the number of steps grows from one run to the next, while the number is estimated."""
_AGREEMENT = 1.3
"""Largest ratio of two estimates of the number of steps that agree."""

Row = dict[str, Any]
ExtraMetrics = Callable[[float], dict[str, float]]
"""Function that returns additional metrics of the time since its last call, given its duration (s)."""


def grouped(rows: Sequence[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Return rows by the tuple of their values of the labels ``names``, where a missing label is None."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in names), []).append(row)
    return groups


@dataclass
class Benchmark:
    """Operation whose rate is measured."""

    labels: Row
    """Labels: mode, environments, batch, ..."""
    unit: str
    """Unit of the rate, such as env-steps/s."""
    amount: float
    """Amount that one step adds to the count of the unit, such as its env-steps."""
    device: torch.device
    """Device of the operation."""
    step: Callable[[], object]
    """Function that makes one step, whose time is measured."""
    extra_metrics: ExtraMetrics = lambda seconds: {}
    """Function that returns additional metrics of the latest run, given its duration (s)."""
    least: int = 3
    """Smallest number of steps of a run; the first step compiles. At least 3 for a compiled function that is called
    once per step, because layouts may change after the first call."""

    def run(self, steps: int) -> float:
        """Return the seconds that a number of steps take, including the work of the device."""
        synchronize(self.device)
        began = time.perf_counter()
        for _ in range(steps):
            self.step()
        synchronize(self.device)
        return time.perf_counter() - began


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Stopwatch:
    """Timer that sums spans by name, with the host's clock on a CPU and events of the stream on a GPU.

    Spans never make a GPU wait. An instance can be used as ``PhaseTimer.phase_context``.

    Args:
        device: device of the spans.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._spans: list[tuple[str, Any, Any]] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Add the time of the context to the sum of a name."""
        began = self._timestamp()
        yield
        self._spans.append((name, began, self._timestamp()))

    def on_module(self, module: nn.Module, name: str) -> None:
        """Time the calls of a module under a name from now on."""
        began: list[Any] = []
        module.register_forward_pre_hook(lambda *_: began.append(self._timestamp()))
        module.register_forward_hook(lambda *_: self._spans.append((name, began.pop(), self._timestamp())))

    def clear(self) -> None:
        """Delete the counted spans."""
        self._spans = []

    def seconds(self) -> dict[str, float]:
        """Return the seconds by name; the device must have finished its work."""
        total: dict[str, float] = {}
        for name, began, ended in self._spans:
            spent = began.elapsed_time(ended) / 1e3 if self._cuda else ended - began
            total[name] = total.get(name, 0.0) + spent
        return total

    def _timestamp(self) -> Any:
        """Record a CUDA event on the current stream and return it; on a CPU return the host's clock (s)."""
        if not self._cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event


def compile_seconds(benchmark: Benchmark) -> float:
    """Return how many seconds the first run takes longer than the second one, mainly for compilation."""
    first = benchmark.run(benchmark.least)
    return max(0.0, first - benchmark.run(benchmark.least))


def steps_for(benchmark: Benchmark, seconds: float) -> int:
    """Return the number of steps that take about a given time.

    Increasingly long runs estimate the number, until one of about that many steps confirms the previous estimate. Some
    steps are slow only once: on a GPU the fourth refresh of the reset pool, after hundreds of steps, records a graph.
    """
    steps, estimate = benchmark.least, 0
    for _ in range(_TRIES):
        took, before = benchmark.run(steps), estimate
        estimate = max(benchmark.least, min(_LONGEST, round(steps * seconds / max(took, 1e-9))))
        if max(estimate, before, steps) <= _AGREEMENT * min(estimate, before, steps):
            break
        steps = min(estimate, _GROWTH * steps)
    return estimate


def measure(benchmarks: Sequence[Benchmark], seconds: float, repeats: int) -> list[Row]:
    """Return the rates of benchmarks, each run once per repeat.

    Args:
        benchmarks: new benchmarks, whose compilation is timed separately.
        seconds: length of a run.
        repeats: number of runs of every benchmark.

    Returns:
        A row per benchmark: labels, unit, the rates of all runs with their median, lowest and highest, steps of a run,
        ms per step, seconds of compilation, and as ``notes`` the additional metrics of the median run.
    """
    compiling = [compile_seconds(benchmark) for benchmark in benchmarks]
    steps = [steps_for(benchmark, seconds) for benchmark in benchmarks]
    for benchmark in benchmarks:
        benchmark.extra_metrics(1.0)  # resets the counts
    runs: list[list[tuple[float, dict[str, float]]]] = [[] for _ in benchmarks]
    for _ in range(repeats):
        for benchmark, count, results in zip(benchmarks, steps, runs, strict=True):
            took = benchmark.run(count)
            results.append((took, benchmark.extra_metrics(took)))
    return [_row(*measured) for measured in zip(benchmarks, compiling, steps, runs, strict=True)]


def _row(benchmark: Benchmark, compiling: float, steps: int, runs: list[tuple[float, dict[str, float]]]) -> Row:
    """Return the row of one benchmark, from its compilation time (s) and the time (s) and metrics of its runs."""
    rates = [benchmark.amount * steps / took for took, _ in runs]
    # The metrics of a single run, so that shares of its time add up.
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
