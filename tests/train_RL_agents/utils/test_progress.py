"""The clock, on a clock of its own, and what is printed."""

import json
import re
from pathlib import Path

import pytest

from tests.own_parts import allow_only
from train_RL_agents.utils import progress
from train_RL_agents.utils.progress import PhaseTimer, ProgressDisplay

pytestmark = pytest.mark.usefixtures("no_plugins")

METRICS = {"success_rate": 0.25, "collision_rate": 0.5, "timeout_rate": 0.25, "avg_time": 31.25, "avg_return": -3.456}


class Time:
    now = 1000.0

    def perf_counter(self):
        return self.now

    def passes(self, seconds):
        self.now += seconds


@pytest.fixture
def time(monkeypatch):
    time = Time()
    monkeypatch.setattr(progress, "time", time)
    return time


def spend(clock, time, **phases):
    for name, seconds in phases.items():
        with clock.phase(name):
            time.passes(seconds)


def test_a_phase_inside_another_counts_once(time):
    clock = PhaseTimer()
    with clock.phase("collect"):
        spend(clock, time, compile=8.0)
        time.passes(2.0)
    assert clock.seconds == {"compile": 10.0}
    assert clock.training_seconds == 0.0


def test_a_resumed_clock_leaves_the_interruption_out(time):
    clock = PhaseTimer()
    spend(clock, time, collect=1.0, evaluate=2.0)
    spend(clock, time, collect=4.0)
    state = clock.state_dict()
    assert (clock.total_seconds, clock.training_seconds) == (7.0, 4.0)
    time.passes(3600.0)
    again = PhaseTimer()
    time.passes(1.0)  # setting up does not count twice
    again.load_state_dict(state)
    assert (again.total_seconds, again.training_seconds) == (7.0, 4.0)
    assert again.lap()[1] == 0.0
    spend(again, time, collect=2.0)  # compiles again
    spend(again, time, collect=3.0)
    assert again.seconds == {"compile": 3.0, "evaluate": 2.0, "collect": 7.0}
    assert (again.total_seconds, again.training_seconds) == (12.0, 7.0)
    assert again.lap() == ({"compile": 0.4, "evaluate": 0.0, "collect": 0.6}, 3.0)
    # What was saved is a copy.
    assert state == {"seconds": {"compile": 1.0, "evaluate": 2.0, "collect": 4.0}, "total": 7.0}


def shown(capsys):
    output = capsys.readouterr()
    assert output.err == ""
    return output.out.splitlines()


def test_a_run_in_lines(capsys):
    display = ProgressDisplay(total=2_000_000, quiet=False, bar=True)
    display.start(1_000_000, compiles=True)
    display.show_log_entry(1_500_000, 1250.0, None)
    display.show_evaluation(1_500_000, 90.0, METRICS, is_best=True)
    display.show_evaluation(2_000_000, 6000.0, METRICS | {"avg_time": None}, is_best=False)
    display.stop()
    display.finish(Path("runs/a/seed_0"), Path("runs/a/seed_0/checkpoints/p.pt"), True, True)
    assert shown(capsys) == [
        "resuming at 1,000,000 env-steps",
        "compiling: a minute or two, or seconds if the cache has the code of these settings ...",
        "  1,500,000 env-steps  train: 1,250/s",
        "  1,500,000 env-steps    1.5 min  success 0.250  collision 0.500   31.2 s  best",
        "  2,000,000 env-steps  100.0 min  success 0.250  collision 0.500      - s",
        "finished: runs/a/seed_0",
        "policy: runs/a/seed_0/checkpoints/p.pt",
        "next: marinenav evaluate runs/a/seed_0",
        "      marinenav play runs/a/seed_0",
        "      tensorboard --logdir runs",
    ]


def terminal_of(monkeypatch, width):
    """Let standard output be a terminal of so many columns."""
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": f"{width}"}.items():
        monkeypatch.setenv(name, value)


def last_bar(capsys):
    """The bar as it was shown last."""
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().out).splitlines()
    return [each.rstrip() for each in lines if each.startswith("training")][-1]


def test_the_bar_shows_the_latest_metrics(monkeypatch, capsys, time):
    terminal_of(monkeypatch, 120)
    moves = (
        (lambda display: display.show_log_entry(4, 1.0, 0.125), "eval 0.12  1/s 0:00:00 --:--"),
        (
            lambda display: display.show_log_entry(5, 2.0, None, 1.5, 0.75),
            "return 1.5  success 0.75  eval 0.12  2/s 0:00:00 00:02",
        ),
        (lambda display: display.show_evaluation_progress(3, 60), "evaluating 3 of 60 0:00:01 00:02"),
        (
            lambda display: display.show_evaluation(5, 1.0, METRICS, is_best=True),
            "return 1.5  success 0.75  eval 0.25  2/s 0:00:01 00:02",
        ),
    )
    for count, (_, expected) in enumerate(moves, 1):
        display = ProgressDisplay(total=10, quiet=False, bar=True)
        display.start(0, compiles=False)
        for move, _ in moves[:count]:
            move(display)
            time.passes(0.4)
        display.stop()
        assert last_bar(capsys).partition("%  ")[2] == expected


def test_commands_that_follow_allow_the_same_plugins(capsys, monkeypatch):
    allow_only(monkeypatch, "my_parts.rewards:early")
    display, option = ProgressDisplay(total=10, quiet=False, bar=False), "--plugin=my_parts.rewards:early"
    display.finish(Path("runs/a"), Path("best.pt"), False, True)
    assert shown(capsys) == [
        "policy: best.pt",
        f"next: marinenav evaluate runs/a {option}",
        f"      marinenav play runs/a {option}",
        "      tensorboard --logdir .",
        f"stopped and saved; go on with: marinenav train --resume runs/a {option}",
    ]


def test_quiet_is_quiet(capsys):
    display = ProgressDisplay(total=10, quiet=True, bar=True)
    display.start(5, compiles=True)
    display.show_log_entry(7, 1.0, 0.5)
    display.show_evaluation(7, 1.0, METRICS, is_best=True)
    display.stop()
    display.finish(Path("runs"), None, True, True)
    assert shown(capsys) == []


def test_lines_of_json_hold_all_that_is_shown(capsys):
    recorded = []
    display = ProgressDisplay(100, False, True, recorded.append, json_lines=True)
    display.start(0, compiles=False)
    display.log("a [line]")
    display.show_log_entry(40, 12.5, None)
    display.show_log_entry(80, 12.5, 0.75)
    display.stop()
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    none = dict.fromkeys(progress.BAR_UPDATE_KEYS)
    assert shown == [
        {"line": "a [line]"},
        none | {"total": 100, "env_steps": 40, "rate": 12.5},
        none | {"total": 100, "env_steps": 80, "rate": 12.5, "success": 0.75},
    ]
    assert recorded == ["a [line]"]
