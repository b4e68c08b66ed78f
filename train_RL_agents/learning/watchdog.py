"""Waiting for worker processes, which may end or hang at any time."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from train_RL_agents.utils.signals import STOP_SIGNALS, USER_SIGNALS

Result = TypeVar("Result")

_CHECK_INTERVAL = 1.0
"""Time between checks of the workers while waiting for them (s)."""
_STOP_SECONDS = 3.0
"""Time to wait for workers after the run was asked to stop (s)."""


class WorkersError(Exception):
    """Raised when worker processes ended, so that no answer can come."""


class WorkersTimeoutError(WorkersError):
    """Raised when worker processes did not answer within the time limit."""


class StoppedWaitingError(Exception):
    """Raised when the run was asked to stop while waiting for workers."""


class Watchdog:
    """Monitor of the worker processes that are started in its calls.

    TorchRL waits without a time limit for some messages of its workers, so calls that wait run in a thread, which is
    abandoned when no answer can come any more.
    """

    def __init__(self, stopping: Callable[[], bool] = lambda: False) -> None:
        self._stopping = stopping
        self._others = multiprocessing.active_children()
        self._workers: list[BaseProcess] = []

    def call(self, function: Callable[[], Result], limit: float = math.inf) -> Result:
        """Return the result of a function that waits for workers, at most ``limit`` seconds, in another thread.

        Processes that it starts block signals to the process group. A WorkersError says that a worker ended or the
        limit is reached, a StoppedWaitingError that the run was asked to stop.
        """
        answer: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        Thread(target=_put_result, args=(function, answer), daemon=True).start()
        waited = asked = 0.0
        while True:
            try:
                result, error = answer.get(timeout=min(_CHECK_INTERVAL, limit))
            except Empty:
                waited += _CHECK_INTERVAL
                asked += _CHECK_INTERVAL * self._stopping()
                self._check_running()
                if asked >= _STOP_SECONDS:
                    raise StoppedWaitingError from None
                if waited >= limit:
                    raise WorkersTimeoutError(f"workers do not answer within {limit:g} s") from None
                continue
            if error is not None:
                self._check_running()
                raise error
            return result

    def _update_workers(self) -> None:
        """Add the workers that were started since the last call."""
        known = (*self._others, *self._workers)
        self._workers += [process for process in multiprocessing.active_children() if process not in known]

    def _check_running(self) -> None:
        """Raise a WorkersError if a worker has ended."""
        self._update_workers()
        for number, process in enumerate(self._workers):
            with contextlib.suppress(ValueError):  # TorchRL has closed it
                if (code := process.exitcode) is not None:
                    how = f"ended with status {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"
                    raise WorkersError(f"worker {number} {how}")

    def kill(self) -> None:
        """End all workers at once."""
        self._update_workers()
        for worker in self._workers:
            with contextlib.suppress(ValueError):  # TorchRL has closed it
                worker.kill()


def _put_result(function: Callable[[], Any], answer: SimpleQueue[Any]) -> None:
    """Call a function, and put a pair of its result and None, or of None and its exception, into a queue."""
    # Processes inherit blocked signals. The tracker of multiprocessing unblocks them when it starts, so it is started
    # first.
    resource_tracker.ensure_running()
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS + USER_SIGNALS)
    try:
        answer.put((function(), None))
    except BaseException as error:
        answer.put((None, error))
