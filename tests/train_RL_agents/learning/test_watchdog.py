"""Waiting for processes that end, hang, or take no notice."""

import multiprocessing
import os
import signal
import time
from functools import partial

import pytest

from train_RL_agents.learning import watchdog
from train_RL_agents.learning.watchdog import StoppedWaitingError, Watchdog, WorkersError

FORK = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(watchdog, "_CHECK_INTERVAL", 0.05)
    monkeypatch.setattr(watchdog, "_STOP_SECONDS", 0.1)


@pytest.fixture
def watched():
    watches = []

    def make(*arguments):
        watches.append(Watchdog(*arguments))
        return watches[-1]

    yield make
    for each in watches:
        each.kill()
    assert not any(each.exitcode is None for each in multiprocessing.active_children() if not each.join(5.0))


def start(target, *arguments):
    """Start a process and wait for it without a limit, as TorchRL does."""
    process = FORK.Process(target=target, args=arguments)
    process.start()
    time.sleep(3600)


def work():
    while True:
        sum(range(10_000))


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "was ended by SIGKILL"),
        (lambda: os._exit(3), "ended with status 3"),
    ],
)
def test_workers_that_end_are_noticed(watched, end, said):
    def end_later():
        time.sleep(0.05)
        end()

    with pytest.raises(WorkersError, match=f"^worker 0 {said}$"):
        watched().call(partial(start, end_later))


def test_workers_at_work_are_waited_for_until_a_limit_or_a_request_to_stop(watched):
    with pytest.raises(WorkersError, match=r"^workers do not answer within 0\.5 s$"):
        watched().call(partial(start, work), 0.5)
    with pytest.raises(StoppedWaitingError):
        watched(lambda: True).call(partial(start, work))


def test_workers_get_no_signals_of_the_group(watched):
    pipe, other = FORK.Pipe()

    def tell():
        other.send(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        time.sleep(3600)

    with pytest.raises(WorkersError):
        watched().call(partial(start, tell), 1.0)
    assert pipe.recv() >= {signal.SIGINT, signal.SIGTERM}
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {signal.SIGINT, signal.SIGTERM}
