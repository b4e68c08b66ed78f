"""Ctrl-C and SIGTERM as requests."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def first_signal(ask: Callable[[], None]) -> Iterator[None]:
    """Within it, the first Ctrl-C or SIGTERM only asks; a second one acts as it did before.

    Signals are the main thread's: in another one nothing changes.

    Args:
        ask: is called at the first one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before: dict[int, Any] = {number: signal.getsignal(number) for number in signals}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def handle(number: int, frame: FrameType | None) -> None:
        ask()
        restore()

    for number in signals:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()
