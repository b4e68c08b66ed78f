"""Train several runs, each in a process of its own, with one display.

A process is started with ``--json-lines`` and says what it does in lines of JSON (see Display);
other lines, as of an error, are shown as they are.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch

from marinenav_env.support import plugins
from train_RL_agents.experiments.run import Run
from train_RL_agents.utils.device import THREADS_VARIABLE, cpu_cores
from train_RL_agents.utils.progress import MOVE, Bars
from train_RL_agents.utils.signals import INTERRUPTED, USER_SIGNALS, first_signal

PROGRAM = (sys.executable, "-m", "train_RL_agents")
_PAUSE = 1.0
"""Seconds until a proposer that had no run is asked again, and without a line of any process until
those that have ended are looked for."""
_PATIENCE = 10.0
"""Seconds between a second request to end and the end by force."""
_STOPPED = (INTERRUPTED, 143, -15, *(status for number in USER_SIGNALS for status in (128 + number, -number)))
"""Exit status of what a signal ended: while it trained, while it started, or before that."""


@dataclass
class _Process:
    """A run in a process of its own."""

    run: Run
    popen: subprocess.Popen[str]
    place: dict[str, str]
    """Environment variables of its share of the machine."""
    last_line: str = "it said nothing"
    diverged: bool = False


class Runner:
    """Trains runs to their ends; a failure of one does not end the others.

    Processes do not see a Ctrl-C of the terminal. The first one, or a SIGTERM, asks all that run to
    save and end, and no others are begun; a second one ends them at once. SIGUSR1 and SIGUSR2 are
    passed on; when a run ends by one, no others are begun.

    Args:
        runs: runs in the order in which they begin. A proposer that waits for results yields None
            while it has no run.
        at_once: number of processes at a time.
        quiet: show nothing but failures.
        bar: show a progress bar for each process, if this is a terminal.
        trace: see run_to_the_end.
    """

    def __init__(
        self,
        runs: Iterable[Run | None],
        at_once: int,
        quiet: bool = False,
        bar: bool = True,
        trace: int = 0,
    ) -> None:
        self.runs, self._exhausted = iter(runs), False
        """Runs that have not begun."""
        self._places = shares(max(1, min(at_once, len(runs)) if isinstance(runs, Sized) else at_once))
        self._processes: dict[str, _Process] = {}
        self._lines: queue.SimpleQueue[tuple[str, str | None]] = queue.SimpleQueue()
        self._bars, self._quiet, self._trace = Bars(quiet, bar), quiet, trace
        self._passed_on = self.stopped = False
        """True once a signal asked to stop."""
        self.status: dict[str, int] = {}
        """Exit status of the runs without an ``on_end`` that have ended, by name."""
        self.failures: list[str] = []
        """A sentence for each of these that failed."""

    def run(self) -> None:
        """Train all to their ends, or until a signal asks to stop."""
        self._bars.start()
        try:
            with first_signal(self._stop, self._pass_on):
                self._start()
                while self._processes or not (self._exhausted or self.stopped):
                    self._handle_line()
                    self._start()
        finally:
            self._bars.stop()
            self._end_processes()

    def report(self, advice: str) -> int:
        """Print a sentence for each run that failed, and return the exit status of all.

        Args:
            advice: how to go on, printed if a signal asked to stop.
        """
        for sentence in self.failures:
            print(f"marinenav: {sentence}", file=sys.stderr)
        if self.stopped:
            if not self._quiet:
                print(advice)
            return INTERRUPTED
        return max(map(abs, self.status.values()), default=0)

    def _start(self) -> None:
        """Start runs while there are places."""
        while self._places and not (self.stopped or self._exhausted):
            run = next(self.runs, self)
            if not isinstance(run, Run):
                self._exhausted = run is self
                return
            place = self._places.pop(0)
            more = [f"--profile-trace={self._trace}"] if self._trace else []
            popen = subprocess.Popen(
                training_command(run.folder.path, [*run.overrides, *more]),
                env=os.environ | place,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._processes[run.name] = _Process(run, popen, place)
            if self.stopped:  # while it started
                popen.terminate()
            threading.Thread(target=self._read, args=(run.name, popen.stdout), daemon=True).start()

    def _read(self, name: str, stream: IO[str]) -> None:
        """Pass on the lines of a process, then None; in a thread of its own."""
        with stream:
            for line in stream:
                self._lines.put((name, line.rstrip("\n")))
        self._lines.put((name, None))

    def _handle_line(self) -> None:
        """Wait for one line, or the end, of any process, and handle it."""
        try:
            name, line = self._lines.get(timeout=_PAUSE)
        except queue.Empty:
            # Processes that a run started may outlive it, and hold its output open.
            for name, process in self._processes.items():
                if process.popen.poll() is not None:
                    self._lines.put((name, None))
            return
        if name not in self._processes:
            return
        if line is None:
            self._finish(self._processes.pop(name))
            return
        content: Any = None
        with suppress(ValueError, RecursionError):
            content = json.loads(line)
        if not isinstance(content, dict):  # users' parts may print anything
            content = {}
        process = self._processes[name]
        if content.keys() == MOVE:
            self._bars.show(name, **content)
            report = process.run.on_evaluation
            is_evaluation = content["rate"] is None
            if report is not None and is_evaluation and report(content["env_steps"], content["success"]):
                process.popen.terminate()
        elif content.keys() == {"diverged"}:
            process.diverged = True
        else:
            process.last_line = content["line"] if content.keys() == {"line"} else line
            self._bars.console.print(f"{name}: {process.last_line}")

    def _finish(self, process: _Process) -> None:
        """Record how a process ended, and give its place back."""
        name, status = process.run.name, process.popen.wait()
        self.stopped |= self._passed_on and status in _STOPPED
        self._places.append(process.place)
        self._bars.remove(name)
        error = process.last_line if status and not (self.stopped and status in _STOPPED) else ""
        if process.run.on_end is not None:
            process.run.on_end(status, error, process.diverged)
            return
        self.status[name] = status
        if error:
            self.failures.append(f"{name}: failed with status {status}: {error}")

    def _stop(self) -> None:
        """Ask all to save and end."""
        self.stopped = True
        for process in self._processes.values():
            process.popen.terminate()

    def _pass_on(self, number: int) -> None:
        """Send a user's signal to all: they save, and end if they are configured so."""
        self._passed_on = True
        for process in self._processes.values():
            process.popen.send_signal(number)

    def _end_processes(self) -> None:
        """End what still runs, which is nothing without an exception."""
        for process in self._processes.values():
            process.popen.terminate()
        for process in self._processes.values():
            try:
                process.popen.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.popen.kill()
            if process.run.on_end is not None:
                process.run.on_end(INTERRUPTED, "", False)


def training_command(run: Path, arguments: Sequence[str] = ()) -> list[str]:
    """Return the command line that starts or resumes a run, with the user's parts allowed."""
    allowed = (f"--plugin={part}" for part in plugins.allowed())
    return [*PROGRAM, "train", "--resume", str(run), "--json-lines", *arguments, *allowed]


def shares(count: int) -> list[dict[str, str]]:
    """Return the environment variables that give each of several processes its share of cores and GPUs."""
    if count == 1:
        return [{}]  # it takes what is idle
    threads = os.environ.get(THREADS_VARIABLE) or str(max(1, cpu_cores() // count))
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = named.split(",") if named else [*map(str, range(devices))]
    places = [{"CUDA_VISIBLE_DEVICES": gpus[number % len(gpus)]} if gpus else {} for number in range(count)]
    return [{THREADS_VARIABLE: threads} | place for place in places]
