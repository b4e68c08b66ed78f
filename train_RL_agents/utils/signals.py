"""Ctrl-C, SIGTERM, SIGHUP and the user's signals: at once, as an exception, or as a request."""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], None]
_HANG_UP = getattr(signal, "SIGHUP", None)
"""The terminal is gone; Windows has no such signal."""
SIGNALS = tuple(filter(None, (signal.SIGINT, signal.SIGTERM, _HANG_UP)))
USER_SIGNALS = tuple(getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name))
"""What a scheduler sends ahead of the end of a job's time; Windows has none."""
INTERRUPTED = 130
"""Exit status of a command that was asked to stop."""
_interrupted = threading.Event()
"""Whether KeyboardInterrupt was raised in the present command."""


def leave_terminal(descriptors: tuple[int, ...] = (0, 1, 2)) -> None:
    """Lead what led to a terminal that is gone to nowhere: to say something is then no error."""
    with Path(os.devnull).open("r+b", buffering=0) as nowhere:
        for each in descriptors:
            with suppress(OSError):
                if stat.S_ISCHR(os.fstat(each).st_mode) and not os.isatty(each):
                    os.dup2(nowhere.fileno(), each)


def reader_gone() -> None:
    """Act as when the terminal is gone: what is printed from now on is lost, and all is to stop.

    Raises:
        BrokenPipeError: where no handler waits for that.
    """
    number = signal.SIGTERM
    if _HANG_UP is not None and signal.getsignal(_HANG_UP) != signal.SIG_IGN:  # else nohup
        number = _HANG_UP
    if not callable(signal.getsignal(number)):
        raise BrokenPipeError
    with Path(os.devnull).open("r+b", buffering=0) as nowhere:
        gone = os.fstat(1)
        for each in (2, 1):
            if os.path.samestat(os.fstat(each), gone):
                os.dup2(nowhere.fileno(), each)
    signal.raise_signal(number)


@contextmanager
def _handled(handle: Handler, numbers: tuple[int, ...] = SIGNALS + USER_SIGNALS) -> Iterator[Callable[[], None]]:
    """Within it, signals are handled so; gives what puts back the handlers of before.

    Signals are the main thread's: in another one nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before: dict[int, Any] = {number: signal.getsignal(number) for number in numbers}
    for number in {*before} - {signal.SIGINT, signal.SIGTERM}:
        if before[number] == signal.SIG_IGN:
            del before[number]  # as nohup, or another parent, wants it

    def heard(number: int, frame: FrameType | None) -> None:
        if number == _HANG_UP:
            leave_terminal()
        handle(number, frame)

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, heard)
    try:
        yield restore
    finally:
        restore()


@contextmanager
def first_signal(ask: Callable[[], None], on_user_signal: Callable[[int], None] | None = None) -> Iterator[None]:
    """Within it, the first signal only asks; a second Ctrl-C or SIGTERM acts as it did before.

    A user's signal asks as often as it comes, and is not counted: a scheduler sends SIGTERM after
    it, which must not end what is being saved.

    Args:
        ask: is called at the first one; it may raise.
        on_user_signal: is called with the number of a user's signal in place of ``ask``.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        restore()
        # A shell says it again, and at any time; nohup does not want it to be heard.
        if _HANG_UP is not None and signal.getsignal(_HANG_UP) != signal.SIG_IGN:
            signal.signal(_HANG_UP, lambda *again: leave_terminal())
        ask()

    def user(number: int, frame: FrameType | None) -> None:
        if on_user_signal is None:
            ask()
        else:
            on_user_signal(number)

    with _handled(user, USER_SIGNALS), _handled(handle, SIGNALS) as restore:
        if _interrupted.is_set():  # before the handler was there
            _interrupted.clear()
            handle(0, None)
        yield


@contextmanager
def ended_at_once() -> Iterator[None]:
    """Within it, a signal ends the process with a sentence, as there is nothing to save.

    Nothing is raised: packages that are being imported turn exceptions into others.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        os.write(2, f"marinenav: stopped by {name}; nothing had begun\n".encode())
        os._exit(128 + number)

    with _handled(handle):
        yield


@contextmanager
def interruptible() -> Iterator[None]:
    """Within it, all raise KeyboardInterrupt like Ctrl-C, so that what is open is closed.

    Python only prints exceptions in destructors and callbacks. One that is lost so is not printed,
    and counts as a request to stop as soon as there is something to stop, see first_signal.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        _interrupted.set()
        raise KeyboardInterrupt

    def leave_out(lost: Any) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            shown(lost)

    _interrupted.clear()
    shown, sys.unraisablehook = sys.unraisablehook, leave_out
    try:
        with _handled(handle):
            yield
    finally:
        sys.unraisablehook = shown
