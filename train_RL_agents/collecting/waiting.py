"""Waiting for worker processes, which may end, or do nothing, at any moment."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

import psutil

from train_RL_agents.utils.signals import SIGNALS, USER_SIGNALS

Made = TypeVar("Made")

_LOOK = 1.0
"""Seconds between looks at the workers while one waits for them."""
_IDLE, _WORK = 5, 0.02
"""Looks after which a worker counts as idle, and its least processor time (s) until then."""
_PATIENCE = 3.0
"""Seconds that one waits for workers when the run was asked to stop."""


class WorkersError(Exception):
    """Workers ended, or do nothing any more."""


class StoppedWaitingError(Exception):
    """The run was asked to stop while one waited for workers."""


class Watchdog:
    """Looks after the processes that are started in its calls.

    TorchRL waits without a limit for some messages of its workers, so what waits runs in a thread,
    which is left alone when no answer can come any more.

    Args:
        stopping: whether the run was asked to stop.
    """

    def __init__(self, stopping: Callable[[], bool] = lambda: False) -> None:
        self._stopping = stopping
        self._others = multiprocessing.active_children()
        self._workers: dict[BaseProcess, psutil.Process] = {}

    def call(self, function: Callable[[], Made], limit: float = math.inf) -> Made:
        """Call a function that waits for workers.

        Args:
            function: called in another thread; processes that it starts get no signals of a group.
            limit: seconds to wait at most.

        Raises:
            WorkersError: when one ended, all are idle, or the limit is reached.
            StoppedWaitingError: when the run was asked to stop.
        """
        answer: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        Thread(target=_answer, args=(function, answer), daemon=True).start()
        times: deque[dict[psutil.Process, float]] = deque(maxlen=_IDLE + 1)
        waited = asked = 0.0
        while True:
            try:
                result, error = answer.get(timeout=min(_LOOK, limit))
            except Empty:
                waited += _LOOK
                asked += _LOOK * self._stopping()
                self._check_there()
                self._check_at_work(times)
                if asked >= _PATIENCE:
                    raise StoppedWaitingError from None
                if waited >= limit:
                    raise WorkersError(f"workers do not answer within {limit:g} s") from None
                continue
            if error is not None:
                self._check_there()
                raise error
            return result

    def _find(self) -> None:
        """Know the workers that were started meanwhile."""
        for process in multiprocessing.active_children():
            if process not in self._others and process not in self._workers:
                with contextlib.suppress(psutil.NoSuchProcess):
                    self._workers[process] = psutil.Process(process.pid)

    def _check_there(self) -> None:
        """Check that no worker has ended."""
        self._find()
        for number, process in enumerate(self._workers):
            with contextlib.suppress(ValueError):  # TorchRL has closed it
                if process.exitcode is not None:
                    raise WorkersError(f"worker {number} {_ended(process.exitcode)}")

    def _check_at_work(self, times: deque[dict[psutil.Process, float]]) -> None:
        """Check that one worker or more is at work; the others may have answered already."""
        times.append({each: _processor_time(each) for each in self._workers.values()})
        first, last = times[0], times[-1]
        idle = (
            len(times) == times.maxlen and first and all(last[each] - before < _WORK for each, before in first.items())
        )
        if idle:
            raise WorkersError(f"workers did nothing for {_IDLE * _LOOK:g} s")

    def kill(self) -> None:
        """End all workers at once."""
        self._find()
        for each in self._workers.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()


def _answer(function: Callable[[], Any], answer: SimpleQueue[Any]) -> None:
    """Call a function and pass on what comes of it."""
    # Processes inherit which signals are blocked. The tracker of multiprocessing unblocks them
    # when it starts, so it is started before.
    resource_tracker.ensure_running()
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS + USER_SIGNALS)
    try:
        answer.put((function(), None))
    except BaseException as error:
        answer.put((None, error))


def _ended(code: int) -> str:
    """Describe an exit code."""
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"


def _processor_time(process: psutil.Process) -> float:
    """Return the seconds of processor time of a process and all that it started."""
    total = 0.0
    with contextlib.suppress(psutil.Error):
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += sum(each.cpu_times()[:4])
    return total
