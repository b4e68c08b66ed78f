"""Several runs at once: places, failures, signals; and runs that are exactly as alone."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from train_RL_agents.experiments import runner as module
from train_RL_agents.experiments.run import Run
from train_RL_agents.experiments.runner import Runner, machine_shares
from train_RL_agents.utils.progress import BAR_UPDATE_KEYS


def python(code):
    """A command that runs code with what the fakes below need."""
    return [sys.executable, "-c", f"import json, os, signal, sys, time\n{code}"]


def says(**content):
    return f"print(json.dumps({content}), flush=True)\n"


def move(**content):
    return says(**dict.fromkeys(BAR_UPDATE_KEYS) | {"total": 10} | content)


@pytest.fixture
def runner_of(monkeypatch):
    """A runner of commands in place of runs."""

    def make(commands, at_once):
        monkeypatch.setattr(module, "training_command", lambda path, arguments: commands[path.name])
        return Runner([run_of(name) for name in commands], at_once)

    return make


def run_of(name):
    return Run(name, SimpleNamespace(path=Path(name)))


def test_all_run_and_their_lines_have_their_names(runner_of, capsys):
    steps = move(env_steps=5, rate=1.0)
    runner = runner_of({"a": python(says(line="hello") + steps), "b": python("print('no JSON')")}, 2)
    runner.run()
    assert runner.exit_status == {"a": 0, "b": 0}
    assert (runner.failures, runner.stopped) == ([], False)
    assert sorted(capsys.readouterr().out.splitlines()) == ["a: hello", "b: no JSON"]


@pytest.mark.parametrize("line", ["[]", "[" * 100_000, '{"line": 1, "b": 2}'])
def test_json_that_a_part_of_the_users_prints_is_shown_as_it_is(runner_of, capsys, line):
    runner = runner_of({"a": python(f"print({line!r})")}, 1)
    runner.run()
    assert runner.exit_status == {"a": 0}
    assert capsys.readouterr().out == f"a: {line}\n"


def test_no_more_than_so_many_run_at_once_and_each_has_a_place(runner_of, capsys):
    code = "print('from', time.time(), os.environ['OMP_NUM_THREADS'], flush=True); time.sleep(0.1)"
    code += "; print('to', time.time())"
    runner = runner_of({str(number): python(code) for number in range(4)}, 2)
    runner.run()
    events = sorted(
        (float(words[2]), words[1]) for words in (line.split() for line in capsys.readouterr().out.splitlines())
    )
    running = [1 if kind == "from" else -1 for _, kind in events]
    assert max(sum(running[: count + 1]) for count in range(8)) <= 2
    assert len(events) == 8


def test_a_failure_does_not_end_the_others(runner_of, capsys):
    commands = {
        "bad": python("sys.exit('it broke')"),
        "killed": python("os.kill(os.getpid(), 9)"),
        "good": python("time.sleep(0.2); print('done')"),
    }
    runner = runner_of(commands, 3)
    runner.run()
    assert runner.exit_status == {"bad": 1, "killed": -9, "good": 0}
    messages = ["bad: failed with status 1: it broke", "killed: failed with status -9: it said nothing"]
    assert sorted(runner.failures) == messages
    assert runner.print_failures("again") == 9
    output = capsys.readouterr()
    assert "good: done" in output.out
    assert sorted(output.err.splitlines()) == [f"marinenav: {sentence}" for sentence in messages]


def test_what_outlives_a_command_is_not_waited_for(runner_of):
    code = "import subprocess; subprocess.Popen(['sleep', '30']); sys.exit('gone')"
    runner, began = runner_of({"a": python(code), "b": python("pass")}, 1), time.monotonic()
    runner.run()
    assert runner.exit_status == {"a": 1, "b": 0}
    assert time.monotonic() - began < 20.0


@pytest.fixture
def said(monkeypatch):
    """The lines that commands have said."""
    lines, show = [], Console.print

    def noted(console, line):
        lines.append(line)
        show(console, line)

    monkeypatch.setattr(Console, "print", noted)
    return lines


WAITS_FOR_SIGTERM = """
def save(*signal):
    print('saved')
    sys.exit(130)
signal.signal(signal.SIGTERM, save)
"""
SAVES = f"{WAITS_FOR_SIGTERM}print('ready', flush=True)\ntime.sleep(60)\n"


@pytest.mark.usefixtures("surroundings")
def test_a_signal_asks_all_to_save_and_starts_no_more(runner_of, capsys, said):
    runner = runner_of({name: python(SAVES) for name in "abc"}, 2)
    threading.Thread(target=interrupt_when_ready, args=(said,), daemon=True).start()
    runner.run()
    assert runner.exit_status == {"a": 130, "b": 130}
    assert (runner.stopped, runner.failures, runner.print_failures("again")) == (True, [], 130)
    assert sorted(capsys.readouterr().out.splitlines()) == ["a: ready", "a: saved", "again", "b: ready", "b: saved"]


ON_USER_SIGNAL = """
def save(*signal):
    print('saved', flush=True)
    if END:
        sys.exit(130)
signal.signal(signal.SIGUSR1, save)
print('ready', flush=True)
for _ in range(600):
    time.sleep(0.1)
    if not END and os.path.exists(FILE):
        break
"""


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no SIGUSR1 here")
@pytest.mark.parametrize("ends", [True, False])
def test_users_signals_are_passed_on_and_the_commands_decide(runner_of, tmp_path, capsys, said, ends):
    file = tmp_path / "go"
    code = python(f"END, FILE = {ends}, {str(file)!r}\n{ON_USER_SIGNAL}")
    runner = runner_of(dict.fromkeys("abc", code), 2)

    def ask():
        interrupt_when_ready(said, signal.SIGUSR1)
        while [line.partition(": ")[2] for line in said].count("saved") < 2 and not ends:
            time.sleep(0.01)
        file.touch()

    threading.Thread(target=ask, daemon=True).start()
    runner.run()
    assert runner.exit_status == ({"a": 130, "b": 130} if ends else {"a": 0, "b": 0, "c": 0})
    assert (runner.stopped, runner.failures) == (ends, [])
    assert capsys.readouterr().out.count("saved") == 2


@pytest.mark.usefixtures("surroundings")
def test_what_a_signal_finds_starting_is_ended_too(runner_of, monkeypatch):
    started, real = [], subprocess.Popen

    def start(*words, **options):
        started.append(real(*words, **options))
        signal.raise_signal(signal.SIGTERM)
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    runner_of({name: python("time.sleep(60)") for name in "ab"}, 2).run()
    assert [each.wait(10) for each in started] == [-15]


def interrupt_when_ready(said, number=signal.SIGTERM):
    """Send this process a signal once two commands have said something."""
    while len({line.partition(": ")[0] for line in said}) < 2:
        time.sleep(0.01)
    os.kill(os.getpid(), number)


def test_cores_and_gpus_are_shared(monkeypatch):
    monkeypatch.setattr("train_RL_agents.experiments.runner.cpu_cores", lambda: [*range(5)])
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    assert machine_shares(3) == [{"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": each} for each in ("4", "6", "4")]
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert machine_shares(2) == [{"OMP_NUM_THREADS": "2"}] * 2
    assert machine_shares(1) == [{}]
