"""python -m train_RL_agents."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import train_RL_agents
from train_RL_agents.__main__ import main


def test_the_exit_status_is_that_of_the_command(monkeypatch):
    monkeypatch.setattr("train_RL_agents.commands.cli.main", lambda: 3)
    assert main() == 3


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("> >(exec true)", (141, "")),
        (">&-", (0, "")),
        (">/dev/full", (2, "marinenav: error: a file: No space left on device\n")),
    ],
    ids=["a reader that has gone", "closed", "full"],
)
def test_an_output_that_cannot_be_written(output, expected):
    # What was printed last is still in Python's buffer when the command has ended.
    code = (
        "import sys, time\n"
        "from train_RL_agents.commands import cli\n"
        "cli._run_command_line = lambda argv: print('done') or time.sleep(0.3) or 0\n"
        "sys.exit(cli.main([]))\n"
    )
    environment = {name: each for name, each in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        ["bash", "-c", f'"$0" -c "$1" {output}', sys.executable, code],
        text=True,
        env=environment,
        stderr=subprocess.PIPE,
        cwd=Path(train_RL_agents.__file__).parents[1],
    )
    assert (done.returncode, done.stderr) == expected


@pytest.mark.parametrize(("number", "delay"), [(signal.SIGINT, 1.0), (signal.SIGTERM, 0.3)])
def test_a_signal_during_the_imports_ends_with_a_sentence(tmp_path, number, delay):
    code = (
        "import os, signal, sys, threading\n"
        "from train_RL_agents.__main__ import main\n"
        f"signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"timer = threading.Timer({delay}, os.kill, (os.getpid(), {number:d}))\n"
        "timer.daemon = True\n"
        "timer.start()\n"
        "sys.exit(main())\n"
    )
    words = ["train", f"save_dir={tmp_path}", "--no-bar", "-D", "cpu", "execution.compile=false"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        cwd=Path(train_RL_agents.__file__).parents[1],
    )
    lines = done.stderr.splitlines()
    if "stopped and saved" in done.stdout:  # it had begun already
        return
    assert len(lines) == 1
    early = f"marinenav: stopped by {signal.Signals(number).name}; nothing had begun"
    assert (done.returncode, lines[0]) in ((128 + number, early), (130, "marinenav: interrupted"))
