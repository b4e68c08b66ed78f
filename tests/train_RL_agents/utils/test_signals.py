"""Requests to stop."""

import signal
import threading

import pytest

from train_RL_agents.utils.signals import first_signal, interruptible


def test_the_first_signal_asks_and_the_second_acts():
    heard, asked = [], []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("usual"))
    try:
        with first_signal(lambda: asked.append("asked")):
            signal.raise_signal(signal.SIGTERM)
            assert (asked, heard) == (["asked"], [])
            signal.raise_signal(signal.SIGTERM)
            assert (asked, heard) == (["asked"], ["usual"])
        with first_signal(lambda: asked.append("never")):
            pass
        signal.raise_signal(signal.SIGTERM)
        assert (asked, heard) == (["asked"], ["usual", "usual"])
    finally:
        signal.signal(signal.SIGTERM, before)


class Fragile:
    """Is interrupted while it is destroyed."""

    def __del__(self):
        signal.raise_signal(signal.SIGTERM)


def test_an_interrupt_that_is_lost_asks_as_soon_as_it_can(capsys):
    asked = []
    with interruptible():
        Fragile()
        with first_signal(lambda: asked.append("asked")):
            assert asked == ["asked"]
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
    assert capsys.readouterr().err == ""
    with interruptible(), first_signal(lambda: asked.append("again")):
        assert asked == ["asked"]


def test_in_another_thread_signals_stay_as_they_are():
    entered = []

    def enter():
        with first_signal(lambda: None):
            entered.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert entered == [signal.getsignal(signal.SIGTERM)]
