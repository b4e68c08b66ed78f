"""Rates of several benchmarks, measured in turn over several repeats, so that changes of the machine affect all."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

_MAX_STEPS = 1_000_000
"""Largest number of steps of a run."""
_MAX_ESTIMATES = 8
"""Largest number of runs that estimate how many steps a run needs."""
_MAX_GROWTH_FACTOR = 20
"""Largest factor by which the number of steps grows from one run to the next, while the number is estimated."""
_AGREEMENT_RATIO = 1.3
"""Largest ratio of two estimates of the number of steps that agree."""

Row = dict[str, Any]
"""Result of a benchmark: its labels, and the keys that measure_rates describes."""
ExtraMetrics = Callable[[float], dict[str, float]]
"""Function that returns additional metrics of the time since its last call, given its duration (s)."""


def group_rows(rows: Sequence[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Return rows in groups with equal values of the labels ``names``; the keys are these values, None if missing."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in names), []).append(row)
    return groups


@dataclass
class Benchmark:
    """Operation whose rate is measured."""

    labels: Row
    """Labels that identify the result, such as ``mode``, ``environments`` and ``batch``."""
    unit: str
    """Unit of the rate, such as env-steps/s."""
    amount_per_step: float
    """Amount of one step in the unit of the rate without time, such as its number of env-steps."""
    device: torch.device
    """Device of the operation."""
    step: Callable[[], object]
    """Function that makes one step, whose time is measured."""
    extra_metrics: ExtraMetrics = lambda seconds: {}
    """Function that returns additional metrics of the latest run, given its duration (s)."""
    min_steps: int = 3
    """Smallest number of steps of a run; the first step compiles. At least 3 for a compiled function that is called
    once per step, because layouts may change after the first call."""

    def run(self, steps: int) -> float:
        """Make a number of steps, and return the seconds that they take, including the work of the device."""
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
    """Timer that sums spans of time by name, with the host's clock on a CPU and CUDA events on a GPU.

    Spans never make a GPU wait. An instance can be used as ``PhaseTimer.phase_context``.

    Args:
        device: device whose work is timed.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._spans: list[tuple[str, Any, Any]] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Add the time of the context to the sum of the name."""
        began = self._timestamp()
        yield
        self._spans.append((name, began, self._timestamp()))

    def on_module(self, module: nn.Module, name: str) -> None:
        """Time the calls of a module under a name from now on."""
        began: list[Any] = []
        module.register_forward_pre_hook(lambda *_: began.append(self._timestamp()))
        module.register_forward_hook(lambda *_: self._spans.append((name, began.pop(), self._timestamp())))

    def clear(self) -> None:
        """Delete all spans."""
        self._spans = []

    def seconds(self) -> dict[str, float]:
        """Return the sums of the spans (s) by name; the device must have finished its work."""
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


def measure_compile_seconds(benchmark: Benchmark) -> float:
    """Return by how many seconds the first run is longer than the second one, mainly for compilation."""
    first = benchmark.run(benchmark.min_steps)
    return max(0.0, first - benchmark.run(benchmark.min_steps))


def estimate_steps(benchmark: Benchmark, seconds: float) -> int:
    """Return the number of steps of a benchmark that take about a given time (s).

    Increasingly long runs estimate the number, until one of about that many steps confirms the previous estimate. Some
    steps are slow only once: on a GPU the fourth refresh of the reset pool, after hundreds of steps, records a graph.
    """
    steps, estimate = benchmark.min_steps, 0
    for _ in range(_MAX_ESTIMATES):
        took, before = benchmark.run(steps), estimate
        estimate = max(benchmark.min_steps, min(_MAX_STEPS, round(steps * seconds / max(took, 1e-9))))
        if max(estimate, before, steps) <= _AGREEMENT_RATIO * min(estimate, before, steps):
            break
        steps = min(estimate, _MAX_GROWTH_FACTOR * steps)
    return estimate


def measure_rates(benchmarks: Sequence[Benchmark], seconds: float, repeats: int) -> list[Row]:
    """Measure the rates of benchmarks, each of which runs once per repeat.

    Args:
        benchmarks: new benchmarks, whose compilation is timed separately.
        seconds: length of a run.
        repeats: number of runs of every benchmark.

    Returns:
        A row per benchmark: its labels, ``unit``, the rates of all runs (``runs``), their ``median``, ``lowest`` and
        ``highest``, ``steps`` of a run, ``ms_per_step``, ``compile_seconds``, and as ``notes`` the additional metrics
        of the median run.
    """
    compiling = [measure_compile_seconds(benchmark) for benchmark in benchmarks]
    steps = [estimate_steps(benchmark, seconds) for benchmark in benchmarks]
    for benchmark in benchmarks:
        benchmark.extra_metrics(1.0)  # resets the counts
    runs: list[list[tuple[float, dict[str, float]]]] = [[] for _ in benchmarks]
    for _ in range(repeats):
        for benchmark, count, results in zip(benchmarks, steps, runs, strict=True):
            took = benchmark.run(count)
            results.append((took, benchmark.extra_metrics(took)))
    return [_result_row(*measured) for measured in zip(benchmarks, compiling, steps, runs, strict=True)]


def _result_row(benchmark: Benchmark, compiling: float, steps: int, runs: list[tuple[float, dict[str, float]]]) -> Row:
    """Return the row of one benchmark, from its compilation time (s) and the time (s) and metrics of its runs."""
    rates = [benchmark.amount_per_step * steps / took for took, _ in runs]
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
