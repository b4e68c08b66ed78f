"""How many threads a process takes, at its start and while other programs come and go."""

import os

import pytest
import torch

from train_RL_agents.utils import threads
from train_RL_agents.utils.threads import ThreadFollower, follow_load, num_idle_cores, processor_times, set_threads


@pytest.fixture
def four_cores(monkeypatch):
    """A process that may use four of six cores, three of them idle, and is not told a number of threads."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1, 2, 4, 5})
    busy = [90.0, 90.0, 0.0, 90.0, 10.0, 0.0]  # those of cores 0 and 3 do not count
    monkeypatch.setattr("psutil.cpu_percent", lambda interval, percpu: busy)
    monkeypatch.delenv("OMP_NUM_THREADS")
    yield busy
    set_threads(1)


@pytest.mark.parametrize(
    ("busy", "idle"),
    [((0, 0, 0), 3), ((3, 8, 1), 3), ((90, 0, 0), 2), ((45, 50, 0), 2), ((90, 90, 90), 1), ((60, 70, 80), 1)],
)
def test_idle_are_the_cores_of_the_process_that_nobody_uses(monkeypatch, busy, idle):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1, 2, 4})
    monkeypatch.setattr("psutil.cpu_percent", lambda interval, percpu: [90.0, *busy[:2], 90.0, busy[2]])
    assert num_idle_cores() == idle


@pytest.mark.parametrize(
    ("wanted", "variable", "start", "number"),
    [
        (0, "", 0, 3),
        (0, "", 2, 2),
        (0, "", 9, 4),
        (2, "", 3, 2),
        (9, "", 0, 4),
        (0, "2", 0, 2),
        (3, "2", 0, 3),
        (0, "2", 3, 3),
    ],
)
def test_threads_are_as_many_as_stated_or_begun_with_or_idle(four_cores, monkeypatch, wanted, variable, start, number):
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    set_threads(wanted, start)
    assert torch.get_num_threads() == number


def follower(others, cores, number, own=1.0, seconds=5.0):
    """The numbers of threads after each few seconds in which other programs use so many cores."""
    loads, total, used = [(0.0, 0.0)], 0.0, 0.0
    for each in others:
        total, used = total + seconds * (each + own), used + seconds * own
        loads.append((total, used))
    follows = ThreadFollower(number, cores, 100.0, iter(loads).__next__)
    return [(follows.update(100.0 + seconds * step) and follows.threads) or 0 for step in range(1, len(loads))]


@pytest.mark.parametrize(
    ("others", "cores", "number", "changes"),
    [
        ([0.1] * 4, 2, 2, [0, 0, 0, 0]),
        ([1.0] * 4, 2, 2, [0, 1, 0, 0]),  # once it lasts
        ([1.0, 0.0, 1.0, 0.0], 2, 2, [0, 0, 0, 0]),  # for a moment
        ([1.4] * 2 + [0.2] * 3, 2, 2, [0, 1, 0, 2, 0]),  # and back
        ([5.0] * 3, 2, 2, [0, 1, 0]),
        ([1.7] * 4, 16, 16, [0, 14, 0, 0]),
        ([0.7] * 4, 16, 14, [0, 0, 0, 0]),  # one of many is not worth it
        ([8.0] * 2 + [0.0] * 2, 16, 16, [0, 8, 0, 16]),
    ],
)
def test_threads_follow_what_others_leave(others, cores, number, changes):
    assert follower(others, cores, number) == changes


def test_one_iteration_that_takes_as_long_is_enough():
    assert follower([0.0, 1.0], 2, 2, seconds=11.0) == [0, 1]


def test_a_change_is_made_and_said(four_cores, monkeypatch):
    said, load = [], iter([(0.0, 0.0), (18.0, 6.0), (36.0, 12.0)])
    monkeypatch.setattr(threads, "processor_times", lambda: next(load))
    clock = iter([100.0, 101.0, 106.0, 112.0])
    monkeypatch.setattr(threads.time, "monotonic", lambda: next(clock))
    set_threads()
    for _ in range(3):
        follow_load(said.append)
    assert (torch.get_num_threads(), said) == (2, ["2 threads instead of 3, as other programs use cores"])


def test_the_load_of_this_process_is_part_of_the_whole():
    before = processor_times()
    sum(range(2_000_000))
    total, own = (new - old for new, old in zip(processor_times(), before, strict=True))
    assert own > 0.0 and total > 0.0
