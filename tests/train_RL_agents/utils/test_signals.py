"""Requests to stop."""

import os
import signal

import pytest

from train_RL_agents.utils.signals import (
    USER_SIGNALS,
    call_on_first_signal,
    detach_from_terminal,
    interrupt_on_signal,
    stop_on_broken_pipe,
)


@pytest.fixture(autouse=True)
def every_signal_counts(monkeypatch):
    """Also one that comes at once."""
    monkeypatch.setattr("train_RL_agents.utils.signals.DEBOUNCE_TIME", 0.0)


def test_the_first_signal_asks_and_a_later_one_acts(monkeypatch):
    heard, requests, now = [], [], [7.0]
    monkeypatch.setattr("train_RL_agents.utils.signals.DEBOUNCE_TIME", 0.5)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("usual"))
    try:
        with call_on_first_signal(lambda: requests.append("asked")):
            for _ in range(3):  # together, as timeout sends them
                signal.raise_signal(signal.SIGTERM)
                now[0] += 0.1
                assert (requests, heard) == (["asked"], [])
            now[0] += 0.3
            signal.raise_signal(signal.SIGTERM)
            assert (requests, heard) == (["asked"], ["usual"])
        with call_on_first_signal(lambda: requests.append("never")):
            pass
        signal.raise_signal(signal.SIGTERM)
        assert (requests, heard) == (["asked"], ["usual", "usual"])
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("number", USER_SIGNALS)
def test_users_signals_ask_as_often_as_they_come_and_are_not_counted(number):
    heard, requests = [], []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("usual"))
    usual = signal.getsignal(number)
    try:
        with call_on_first_signal(lambda: requests.append("stop"), requests.append):
            for each in (number, number, signal.SIGTERM, number):
                signal.raise_signal(each)
            assert (requests, heard) == ([number, number, "stop", number], [])
            signal.raise_signal(signal.SIGTERM)
            assert heard == ["usual"]
        with call_on_first_signal(lambda: requests.append("alike")):
            signal.raise_signal(number)
        assert requests[4:] == ["alike"]
    finally:
        signal.signal(signal.SIGTERM, before)
    assert signal.getsignal(number) == usual


@pytest.mark.parametrize("number", [*USER_SIGNALS, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])])
def test_signals_that_a_parent_ignores_stay_ignored(number):
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with interrupt_on_signal(), call_on_first_signal(lambda: pytest.fail("was asked")):
            signal.raise_signal(number)
    finally:
        signal.signal(number, before)


needs_hang_ups = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no SIGHUP here")


@needs_hang_ups
def test_further_hang_ups_are_no_second_request():
    requests, before = [], signal.getsignal(signal.SIGHUP)
    with call_on_first_signal(lambda: requests.append("asked")):
        for _ in range(3):
            signal.raise_signal(signal.SIGHUP)
    assert requests == ["asked"] and signal.getsignal(signal.SIGHUP) is before


@needs_hang_ups
def test_a_terminal_that_is_gone_is_left(tmp_path):
    (gone, lost), (terminal, there) = os.openpty(), os.openpty()
    file = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    os.close(gone)
    with pytest.raises(OSError, match="Input/output error"):
        os.write(lost, b"said")
    detach_from_terminal((lost, there, file))
    for each in (lost, there, file):
        os.write(each, b"said")
    assert os.read(terminal, 4) == b"said" and (tmp_path / "log").read_text() == "said"
    for each in (lost, terminal, there, file):
        os.close(each)


@needs_hang_ups
@pytest.mark.parametrize("ignored", [False, True], ids=["SIGHUP", "nohup"])
def test_a_reader_that_is_gone_asks_to_stop(monkeypatch, ignored):
    monkeypatch.setattr("os.dup2", lambda *descriptors: None)
    before = signal.getsignal(signal.SIGHUP)
    requests = []
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
        with call_on_first_signal(lambda: requests.append(1)):
            stop_on_broken_pipe()
        assert requests == [1]
    finally:
        signal.signal(signal.SIGHUP, before)
