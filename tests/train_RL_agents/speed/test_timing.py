"""Rates of benchmarks on a clock of their own."""

import pytest
import torch

from train_RL_agents.speed import timing
from train_RL_agents.speed.timing import Benchmark, Stopwatch, estimate_steps, measure_rates

CPU = torch.device("cpu")


class Time:
    now = 0.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Time()
    monkeypatch.setattr(timing, "time", clock)
    return clock


class Work:
    """A step that takes so many seconds, and the first one 60 s more."""

    def __init__(self, clock, seconds, diary=None):
        self.clock, self.seconds, self.diary, self.first = clock, seconds, diary, True

    def __call__(self):
        self.clock.now += self.seconds + 60.0 * self.first
        self.first = False
        if self.diary is not None:
            self.diary.append(self)


def benchmark(step, **other):
    return Benchmark({"mode": "eager"}, "env-steps/s", 8, CPU, step, **other)


def test_compilation_is_kept_apart(clock):
    (row,) = measure_rates([benchmark(Work(clock, 0.5))], seconds=2.0, repeats=3)
    assert row["compile_seconds"] == pytest.approx(60.0)
    assert (row["median"], row["lowest"], row["highest"]) == pytest.approx((16.0, 16.0, 16.0))
    assert row["ms_per_step"] == pytest.approx(500.0)
    assert (row["unit"], row["steps"], row["mode"]) == ("env-steps/s", 4, "eager")


@pytest.mark.parametrize(("pace", "steps"), [(0.001, 2000), (0.5, 4), (10.0, 3)])
def test_runs_fill_the_wanted_time_with_the_least_steps_at_least(clock, pace, steps):
    work = Work(clock, pace)
    work.first = False
    assert estimate_steps(benchmark(work), 2.0) == pytest.approx(steps, rel=0.2)


@pytest.mark.parametrize("extra", [0.9, 20.0])
@pytest.mark.parametrize("slow", [2, 5, 7, 50, 250, 1990, 3200])
def test_a_slow_step_that_comes_once_shortens_no_run(clock, slow, extra):
    """Such as the recording of a graph on a GPU."""
    work = Work(clock, 0.001)
    work.first, count = False, 0

    def step():
        nonlocal count
        count += 1
        work()
        if count == slow:
            clock.now += extra

    assert estimate_steps(benchmark(step), 2.0) == pytest.approx(2000, rel=0.01)
    assert count >= slow


def test_subjects_take_turns(clock):
    diary = []
    one, other = Work(clock, 1.0, diary), Work(clock, 1.0, diary)
    measure_rates([benchmark(one), benchmark(other)], seconds=3.0, repeats=2)
    assert diary[-12:] == [*[one] * 3, *[other] * 3] * 2


def test_metrics_are_of_the_repeats(clock):
    work = Work(clock, 1.0)
    # Runs of three steps: two to see what compiles, two to see how many fit, and the repeats.
    paces = iter([1.0] * 12 + [1.0] * 3 + [4.0] * 3 + [2.0] * 3)

    def step():
        work.seconds = next(paces)
        work()

    timed = benchmark(step, extra_metrics=lambda seconds: {"seconds": seconds})
    (row,) = measure_rates([timed], seconds=3.0, repeats=3)
    assert (row["lowest"], row["median"], row["highest"]) == (2.0, 4.0, 8.0)
    assert row["runs"] == [8.0, 2.0, 4.0]
    assert row["notes"] == {"seconds": 6.0}


class Thing(torch.nn.Module):
    def forward(self, act):
        return act()


def test_stopwatch_sums_spans_and_calls_by_name(clock):
    thing, watch = Thing(), Stopwatch(CPU)
    watch.on_module(thing, "call")

    def wait(seconds):
        clock.now += seconds
        return seconds

    assert thing(lambda: wait(2.0)) == 2.0
    watch.clear()
    with watch("work"):
        thing(lambda: wait(1.0))
        wait(0.5)
    wait(5.0)
    with watch("work"):
        wait(0.25)
    assert watch.seconds() == {"work": 1.75, "call": 1.0}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_stopwatch_counts_the_work_of_a_gpu():
    device = torch.device("cuda")
    watch, tensor = Stopwatch(device), torch.ones(4096, 4096, device=device)
    with watch("work"):
        for _ in range(20):
            tensor @ tensor
    torch.cuda.synchronize()
    assert watch.seconds()["work"] > 1e-4
