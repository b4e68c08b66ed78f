"""Compare training with one thread, two threads and the number that follows the load, beside busy programs.

    python tools/compare_threads.py --agents PPO AC-IQN --busy 0 1 2 4

A run of each kind stays alive; only one of them goes on at a time, the others are stopped. Each has time to notice the
load before its rate is measured. Printed are env-steps/s, and the rate of the run that follows the load divided by the
better one of the others. A run that writes no log entry for a minute has at most the rate of one entry in that time.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
THREADS = {"one": 1, "two": 2, "follows": 0}
"""Setting ``execution.threads`` of each run; 0: the number follows the load."""
SETTINGS = ("total_timesteps=1000000000", "eval_freq=1000000000", "monitor=false", "log_freq=4096")
LONGEST = 60.0
"""Time without a log entry after which a measurement ends (s)."""


class Training:
    """Process that trains an agent and is stopped except while it is measured."""

    def __init__(self, agent: str, threads: int, folder: str) -> None:
        words = ["--json-lines", "--agent", agent, f"--threads={threads}", *SETTINGS, f"save_dir={folder}"]
        environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
        command = [sys.executable, "-m", "train_RL_agents", "train", *words]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, text=True, start_new_session=True, stdout=subprocess.PIPE
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self._steps = self._entry = 0
        while not self._steps:
            self._steps = self._entry = self._next(3600.0).get("env_steps", 0)
        self._signal(signal.SIGSTOP)

    def rate(self, settle: float, seconds: float) -> float:
        """Go on for a while, then return the env-steps/s of the following seconds, and stop again."""
        self._signal(signal.SIGCONT)
        begin, first = time.monotonic(), None
        while True:
            try:
                steps, now = self._next(LONGEST).get("env_steps"), time.monotonic()
            except queue.Empty:
                self._signal(signal.SIGSTOP)
                return self._entry / LONGEST
            if steps is None:
                continue
            self._steps, self._entry = steps, steps - self._steps
            if now - begin < settle:
                continue
            first = first or (steps, now)
            if now - first[1] >= seconds:
                self._signal(signal.SIGSTOP)
                return float((steps - first[0]) / (now - first[1]))

    def end(self) -> None:
        """End the process."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _read(self) -> None:
        """Pass on what the process writes, and an empty line when it ends."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def _next(self, seconds: float) -> dict[str, Any]:
        """Return what the process writes next; raises queue.Empty when it writes nothing for so long."""
        line = self._lines.get(timeout=seconds)
        if not line:
            raise SystemExit(f"a training ended with status {self._process.wait()}")
        return dict(json.loads(line))

    def _signal(self, number: int) -> None:
        os.killpg(self._process.pid, number)


@contextmanager
def busy_programs(number: int) -> Iterator[None]:
    """Run programs that never wait in this context."""
    programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def compare(agent: str, loads: Sequence[int], before: int, rounds: int, settle: float, seconds: float) -> None:
    """Measure the runs of an agent in turn beside each number of busy programs, and print a line for each."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        with busy_programs(before):
            runs = {name: Training(agent, threads, folder) for name, threads in THREADS.items()}
        for load in loads:
            rates: dict[str, list[float]] = {name: [] for name in runs}
            with busy_programs(load):
                for _ in range(rounds):
                    for name, run in runs.items():
                        rates[name].append(run.rate(settle, seconds))
            middle = {name: statistics.median(each) for name, each in rates.items()}
            ratio = middle["follows"] / max(middle["one"], middle["two"])
            spread = "; ".join(f"{name} {' '.join(f'{rate:,.0f}' for rate in each)}" for name, each in rates.items())
            print(f"{agent:8} busy {load}: {ratio:.2f}  ({spread})", flush=True)
        for run in runs.values():
            run.end()


def main() -> None:
    """Parse the command line and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--agents", nargs="+", default=["PPO", "AC-IQN"], metavar="NAME")
    add("--busy", nargs="+", type=int, default=[0, 1, 2, 4], metavar="N", help="numbers of busy programs")
    add("--before", type=int, default=0, metavar="N", help="busy programs while the runs start and compile")
    add("--rounds", type=int, default=3, metavar="N", help="measurements of each run")
    add("--settle", type=float, default=12.0, metavar="S", help="seconds before each measurement")
    add("--seconds", type=float, default=8.0, metavar="S", help="seconds of a measurement")
    given = parser.parse_args()
    for agent in given.agents:
        compare(agent, given.busy, given.before, given.rounds, given.settle, given.seconds)


if __name__ == "__main__":
    main()
