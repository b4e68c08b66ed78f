"""Requests to stop."""

import signal
import threading

from train_RL_agents.utils.signals import first_signal


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


def test_in_another_thread_signals_stay_as_they_are():
    entered = []

    def enter():
        with first_signal(lambda: None):
            entered.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert entered == [signal.getsignal(signal.SIGTERM)]
