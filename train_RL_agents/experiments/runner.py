"""Training of several runs, each in a separate process, with one display.

A process is started with ``--json-lines`` and reports its progress in lines of JSON, as documented in
utils.progress.ProgressDisplay; other lines, such as errors, are shown as they are.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch

from marinenav_env.support import plugins
from train_RL_agents.experiments.run import Run
from train_RL_agents.utils.progress import BAR_UPDATE_KEYS, ProgressBars
from train_RL_agents.utils.signals import INTERRUPTED_STATUS, USER_SIGNALS, call_on_first_signal
from train_RL_agents.utils.threads import THREADS_VARIABLE, cpu_cores

TRAINING_PROGRAM = (sys.executable, "-m", "train_RL_agents")
_POLL_INTERVAL = 1.0
"""Longest time to wait for a line of any process (s); after it, processes are checked for their end."""
_TERMINATION_TIMEOUT = 10.0
"""Time from the request that a process end until it is killed (s)."""
_STOPPED_STATUSES = (
    INTERRUPTED_STATUS,
    143,
    -15,
    *(status for number in USER_SIGNALS for status in (128 + number, -number)),
)
"""Exit statuses of a process that a signal ended while it trained, while it started, or before its handlers were
set."""


@dataclass
class _Process:
    """A run that is trained in a separate process."""

    run: Run
    popen: subprocess.Popen[str]
    machine_share: dict[str, str]
    """Environment variables that give the process its share of the machine."""
    last_line: str = "it said nothing"
    """Last line that the process printed, which describes an error if it failed."""


class Runner:
    """Runner that trains runs to their ends; a failure of one does not end the others.

    Processes do not receive Ctrl-C from the terminal. The first Ctrl-C or SIGTERM asks all processes to
    save and end, and no more runs are started; a second one ends them at once. SIGUSR1 and SIGUSR2 are
    passed on; if a run ends because of one, no more runs are started.

    ``runs`` begin in their order.
    """

    def __init__(self, runs: Sequence[Run], at_once: int, quiet: bool = False, bar: bool = True) -> None:
        self.runs = deque(runs)
        self._free_shares = machine_shares(max(1, min(at_once, len(runs))))
        self._processes: dict[str, _Process] = {}
        self._lines: queue.SimpleQueue[tuple[str, str | None]] = queue.SimpleQueue()
        self._bars, self._quiet = ProgressBars(quiet, bar), quiet
        self._forwarded = self.stopped = False
        """True once a signal has asked to stop."""
        self.exit_status: dict[str, int] = {}
        """Exit status of each run that has ended, by name."""
        self.failures: list[str] = []
        """A sentence for each run that failed."""

    def run(self) -> None:
        """Train all runs to their ends, or until a signal asks to stop."""
        self._bars.start()
        try:
            with call_on_first_signal(self._stop, self._forward_signal):
                self._start()
                while self._processes or (self.runs and not self.stopped):
                    self._handle_line()
                    self._start()
        finally:
            self._bars.stop()
            self._end_processes()

    def print_failures(self, advice: str) -> int:
        """Print a sentence for each run that failed, and return the exit status of all."""
        for sentence in self.failures:
            print(f"marinenav: {sentence}", file=sys.stderr)
        if self.stopped:
            if not self._quiet:
                print(advice)
            return INTERRUPTED_STATUS
        return max(map(abs, self.exit_status.values()), default=0)

    def _start(self) -> None:
        """Start runs while shares of the machine are free."""
        while self._free_shares and self.runs and not self.stopped:
            run = self.runs.popleft()
            machine_share = self._free_shares.pop(0)
            popen = subprocess.Popen(
                training_command(run.folder.path, run.overrides),
                env=os.environ | machine_share,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._processes[run.name] = _Process(run, popen, machine_share)
            if self.stopped:  # while it started
                popen.terminate()
            threading.Thread(target=self._read_lines, args=(run.name, popen.stdout), daemon=True).start()

    def _read_lines(self, name: str, stream: IO[str]) -> None:
        """Put the lines that a named run prints, then None, into the queue; runs in a separate thread."""
        with stream:
            for line in stream:
                self._lines.put((name, line.rstrip("\n")))
        self._lines.put((name, None))

    def _handle_line(self) -> None:
        """Wait for a line or the end of any process, and handle it."""
        try:
            name, line = self._lines.get(timeout=_POLL_INTERVAL)
        except queue.Empty:
            # Processes that a run started may outlive it, and hold its output open.
            for name, process in self._processes.items():
                if process.popen.poll() is not None:
                    self._lines.put((name, None))
            return
        if name not in self._processes:
            return
        if line is None:
            self._finish_process(self._processes.pop(name))
            return
        content: Any = None
        with suppress(ValueError, RecursionError):
            content = json.loads(line)
        if not isinstance(content, dict):  # users' parts may print anything
            content = {}
        process = self._processes[name]
        if content.keys() == BAR_UPDATE_KEYS:
            self._bars.show(name, **content)
        else:
            process.last_line = content["line"] if content.keys() == {"line"} else line
            self._bars.console.print(f"{name}: {process.last_line}")

    def _finish_process(self, process: _Process) -> None:
        """Record how a process ended, and free its share of the machine."""
        name, status = process.run.name, process.popen.wait()
        self.stopped |= self._forwarded and status in _STOPPED_STATUSES
        self._free_shares.append(process.machine_share)
        self._bars.remove(name)
        error = process.last_line if status and not (self.stopped and status in _STOPPED_STATUSES) else ""
        self.exit_status[name] = status
        if error:
            self.failures.append(f"{name}: failed with status {status}: {error}")

    def _stop(self) -> None:
        """Ask all processes to save and end."""
        self.stopped = True
        for process in self._processes.values():
            process.popen.terminate()

    def _forward_signal(self, number: int) -> None:
        """Send SIGUSR1 or SIGUSR2 to all processes, which save and, depending on ``on_user_signal``, end."""
        self._forwarded = True
        for process in self._processes.values():
            process.popen.send_signal(number)

    def _end_processes(self) -> None:
        """End the processes that still run, which is only the case after an exception."""
        for process in self._processes.values():
            process.popen.terminate()
        for process in self._processes.values():
            try:
                process.popen.wait(_TERMINATION_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.popen.kill()


def training_command(run: Path, arguments: Sequence[str] = ()) -> list[str]:
    """Return the command line that trains the run in a folder, with further arguments and the plugins allowed here."""
    words = ["train", "--resume", str(run), "--json-lines", *arguments, *plugins.option_words()]
    return [*TRAINING_PROGRAM, *words]


def machine_shares(count: int) -> list[dict[str, str]]:
    """Return, for each of several processes, the environment variables that give it its share of cores and GPUs."""
    if count == 1:
        return [{}]  # a single process takes the idle cores
    threads = os.environ.get(THREADS_VARIABLE) or str(max(1, len(cpu_cores()) // count))
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = named.split(",") if named else [*map(str, range(devices))]
    places = [{"CUDA_VISIBLE_DEVICES": gpus[number % len(gpus)]} if gpus else {} for number in range(count)]
    return [{THREADS_VARIABLE: threads} | place for place in places]
