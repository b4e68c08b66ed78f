"""The clock, on a clock of its own, and what is printed."""

import gc
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


def test_phases_add_up_and_first_passes_are_compilation(time):
    clock = PhaseTimer()
    spend(clock, time, collect=30.0, insert=1.0, sample=2.0, update=20.0)
    assert clock.seconds == {"compile": 50.0, "insert": 1.0, "sample": 2.0}
    spend(clock, time, collect=4.0, insert=1.0, sample=2.0, update=8.0)
    spend(clock, time, evaluate=16.0, save=3.0)
    assert clock.seconds == {
        "compile": 50.0,
        "insert": 2.0,
        "sample": 4.0,
        "collect": 4.0,
        "update": 8.0,
        "evaluate": 16.0,
        "save": 3.0,
    }
    time.passes(5.0)
    assert clock.total_seconds == 92.0
    assert clock.training_seconds == 92.0 - 50.0 - 16.0 - 3.0


def test_a_phase_inside_another_counts_once(time):
    clock = PhaseTimer()
    with clock.phase("collect"):
        spend(clock, time, compile=8.0)
        time.passes(2.0)
    assert clock.seconds == {"compile": 10.0}
    assert clock.training_seconds == 0.0


def test_first_passes_are_told_of(time):
    told = []
    clock = PhaseTimer(lambda phase, seconds: told.append((phase, seconds)))
    spend(clock, time, collect=30.0, insert=1.0, update=20.0)
    spend(clock, time, collect=4.0, update=8.0)
    assert told == [("collect", 30.0), ("update", 20.0)]


def test_first_passes_collect_no_garbage(time):
    clock, collects = PhaseTimer(), []
    for name in ("collect", "collect", "insert"):
        with clock.phase(name):
            collects.append(gc.isenabled())
    assert collects == [False, True, True]
    with pytest.raises(KeyError), clock.phase("update"):
        raise KeyError
    assert gc.isenabled()


def test_laps_have_shares_and_seconds_of_training(time):
    clock = PhaseTimer()
    spend(clock, time, collect=1.0)
    clock.lap()
    spend(clock, time, collect=4.0, insert=1.0, evaluate=2.0)
    time.passes(1.0)
    shares, seconds = clock.lap()
    assert shares == {"compile": 0.0, "collect": 0.5, "insert": 0.125, "evaluate": 0.25}
    assert seconds == 6.0
    assert clock.lap() == ({"compile": 0.0, "collect": 0.0, "insert": 0.0, "evaluate": 0.0}, 0.0)


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


def test_an_error_inside_a_phase_passes(time):
    with pytest.raises(ZeroDivisionError), PhaseTimer().phase("collect"):
        raise ZeroDivisionError


# Display ----------------------------------------------------------------------------------------


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
        "compiling (up to two minutes; some seconds once it is in the cache) ...",
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


@pytest.mark.parametrize("width", [80, 120])
def test_the_bar_is_one_line_with_all_metrics(monkeypatch, capsys, width):
    terminal_of(monkeypatch, width)
    display = ProgressDisplay(total=6_000_000, quiet=False, bar=True)
    display.start(0, compiles=False)
    display.show_log_entry(1_500_000, 10_600.0, 0.5, -123.4, 0.25)
    display.stop()
    line = last_bar(capsys)
    assert len(line) <= width
    assert line.endswith("25%  return -123.4  success 0.25  eval 0.50  10,600/s --:--")
    assert re.findall(r"\d{4}\S*", line) == (["1500000/6000000"] if width == 120 else [])


def test_the_bar_shows_the_latest_metrics(monkeypatch, capsys, time):
    terminal_of(monkeypatch, 120)
    moves = (
        (lambda display: display.show_log_entry(4, 1.0, 0.125), "eval 0.12  1/s --:--"),
        (
            lambda display: display.show_log_entry(5, 2.0, None, 1.5, 0.75),
            "return 1.5  success 0.75  eval 0.12  2/s 00:02",
        ),
        (lambda display: display.show_evaluation_progress(3, 60), "evaluating 3 of 60 00:02"),
        (
            lambda display: display.show_evaluation(5, 1.0, METRICS, is_best=True),
            "return 1.5  success 0.75  eval 0.25  2/s 00:02",
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


def test_without_a_terminal_there_is_a_line_of_the_log_every_ten_seconds(capsys, time):
    display = ProgressDisplay(total=2_000_000, quiet=False, bar=True)
    for number in range(6):
        display.show_log_entry(100_000 * (number + 1), 10_000.0, None, -3.25, 0.5)
        time.passes(4.0)
    assert shown(capsys) == [
        "    100,000 env-steps  train: return -3.2  success 0.50  10,000/s",
        "    400,000 env-steps  train: return -3.2  success 0.50  10,000/s  0:01:04 left",
    ]


def test_metrics_of_episodes_stay_when_none_has_ended_since(capsys, time):
    display = ProgressDisplay(total=1_000, quiet=False, bar=True)
    display.show_log_entry(100, 100.0, None)
    for episode_return in (2.0, None):
        time.passes(10.0)
        display.show_log_entry(200, 100.0, None, episode_return, episode_return and 0.5)
    assert [line[:50].rstrip() for line in shown(capsys)] == [
        "        100 env-steps  train: 100/s",
        "        200 env-steps  train: return 2.0  success",
        "        200 env-steps  train: return 2.0  success",
    ]


def test_lines_of_long_runs_fit_a_terminal(capsys):
    display = ProgressDisplay(total=10, quiet=False, bar=False)
    display.show_evaluation(999_999_999, 9999.9 * 60, METRICS | {"avg_time": 500.0}, is_best=True)
    display.show_log_entry(99_999_999, 9_999.0, 0.5, -123.4, 0.5)
    assert all(len(line) <= 80 for line in shown(capsys))


def test_how_to_go_on(capsys):
    display = ProgressDisplay(total=10, quiet=False, bar=False)
    display.start(0, compiles=False)
    display.finish(Path("runs/a b"), None, False, True)
    display.finish(Path("runs/a"), None, False, False)
    assert shown(capsys) == [
        "stopped and saved; go on with: marinenav train --resume 'runs/a b'",
        "stopped: runs/a; with save_replay=false it cannot be resumed",
    ]


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


@pytest.mark.parametrize("bar", [True, False])
def test_the_bar_shows_in_a_terminal_and_gives_the_cursor_back(monkeypatch, capsys, bar):
    terminal_of(monkeypatch, 120)
    display = ProgressDisplay(total=1000, quiet=False, bar=bar)
    display.start(250, compiles=False)
    display.show_log_entry(500, 4321.0, 0.75)
    display.stop()
    text = capsys.readouterr().out
    assert ("500/1000" in text and "50%  eval 0.75  4,321/s" in text) == bar
    hidden, back = "\x1b[?25l", "\x1b[?25h"
    assert text.rfind(back) > text.rfind(hidden) if bar else hidden not in text


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
