"""Contexts that handle Ctrl-C, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 by exit, exception or callback."""

from __future__ import annotations

import os
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], None]
_SIGHUP = getattr(signal, "SIGHUP", None)
"""Signal of a closed terminal; None on Windows."""
STOP_SIGNALS = tuple(filter(None, (signal.SIGINT, signal.SIGTERM, _SIGHUP)))
USER_SIGNALS = tuple(getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name))
"""SIGUSR1 and SIGUSR2, which a scheduler sends before the end of a job's time; empty on Windows."""
DEBOUNCE_TIME = 0.5
"""Time (s) after a signal within which repetitions are ignored, as ``timeout`` signals a process and its group."""
INTERRUPTED_STATUS = 130


def detach_from_terminal(descriptors: tuple[int, ...] = (0, 1, 2)) -> None:
    """Redirect file descriptors of a closed terminal to the null device, so that printing raises no error."""
    with Path(os.devnull).open("r+b", buffering=0) as null:
        for descriptor in descriptors:
            with suppress(OSError):
                if stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor):
                    os.dup2(null.fileno(), descriptor)


def stop_on_broken_pipe() -> None:
    """Redirect output to the null device, and send this process SIGHUP, or SIGTERM if SIGHUP is ignored.

    Without a handler of that signal a BrokenPipeError is raised.
    """
    number = signal.SIGTERM
    if _SIGHUP is not None and signal.getsignal(_SIGHUP) != signal.SIG_IGN:  # ignored by nohup
        number = _SIGHUP
    if not callable(signal.getsignal(number)):
        raise BrokenPipeError
    with Path(os.devnull).open("r+b", buffering=0) as null:
        closed = os.fstat(1)
        for descriptor in (2, 1):
            if os.path.samestat(os.fstat(descriptor), closed):
                os.dup2(null.fileno(), descriptor)
    signal.raise_signal(number)


@contextmanager
def _handle_signals(
    handle: Handler, numbers: tuple[int, ...] = STOP_SIGNALS + USER_SIGNALS
) -> Iterator[Callable[..., None]]:
    """Handle signals in the context, except those that a parent process has set to be ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before: dict[int, Any] = {number: signal.getsignal(number) for number in numbers}
    for number in {*before} - {signal.SIGINT, signal.SIGTERM}:
        if before[number] == signal.SIG_IGN:
            del before[number]  # as set by nohup, or by another parent process

    def on_signal(number: int, frame: FrameType | None) -> None:
        if number == _SIGHUP:
            detach_from_terminal()
        handle(number, frame)

    def restore(chosen: Iterable[int] = ()) -> None:
        for number in chosen or before:
            signal.signal(number, before[number])

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield restore
    finally:
        restore()


@contextmanager
def call_on_first_signal(
    request_stop: Callable[[], None], on_user_signal: Callable[[int], None] | None = None
) -> Iterator[None]:
    """Call a function, which may raise, at the first signal in the context; a second Ctrl-C or SIGTERM ends as usual.

    A second signal within DEBOUNCE_TIME is ignored. USER_SIGNALS, which may have their own function, may repeat and are
    not counted, because the SIGTERM that a scheduler sends after them must not interrupt saving.
    """
    requested: float | None = None

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        if requested is None:
            requested = time.monotonic()  # first, since the request may raise
            request_stop()
        # A shell may repeat SIGHUP at any time.
        elif number != _SIGHUP and time.monotonic() - requested >= DEBOUNCE_TIME:
            restore((signal.SIGINT, signal.SIGTERM))
            signal.raise_signal(number)

    def handle_user_signal(number: int, frame: FrameType | None) -> None:
        if on_user_signal is None:
            request_stop()
        else:
            on_user_signal(number)

    with _handle_signals(handle_user_signal, USER_SIGNALS), _handle_signals(handle, STOP_SIGNALS) as restore:
        yield


@contextmanager
def exit_on_signal() -> Iterator[None]:
    """End the process with a message at a signal in the context, because there is nothing to save.

    No exception is raised, since packages that are being imported convert exceptions.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        os.write(2, f"marinenav: stopped by {name}; nothing had begun\n".encode())
        os._exit(128 + number)

    with _handle_signals(handle):
        yield


@contextmanager
def interrupt_on_signal() -> Iterator[None]:
    """Raise KeyboardInterrupt at all signals in the context, so that open files are closed."""

    def handle(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handle_signals(handle):
        yield
