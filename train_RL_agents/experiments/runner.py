"""Runs at the same time, each in a process of its own, with one display.

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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import torch

from marinenav_env.support import plugins
from train_RL_agents.utils.device import cpu_cores
from train_RL_agents.utils.progress import MOVE, Bars
from train_RL_agents.utils.signals import INTERRUPTED, USER_SIGNALS, first_signal

PROGRAM = (sys.executable, "-m", "train_RL_agents")
_SILENCE = 1.0
"""Seconds without a line of any command after which those that have ended are looked for."""
_PATIENCE = 10.0
"""Seconds between a second request to end and the end by force."""
_STOPPED = (INTERRUPTED, 143, -15, *(status for each in USER_SIGNALS for status in (128 + each, -each)))
"""Exit status of what a signal ended: while it trained, while it started, or before that."""


class Jobs:
    """Runs commands, several at once; a failure of one does not end the others.

    The commands do not see a Ctrl-C of the terminal. The first one, or a SIGTERM, asks all that run
    to save and end, and no others are started; a second one ends them at once. SIGUSR1 and SIGUSR2
    are passed on; when a command ends by one, no others are started.

    Args:
        commands: program and arguments by name, in the order in which they are started.
        at_once: as many run at a time.
        quiet: show nothing.
        bar: show a progress bar for each that runs, if this is a terminal.
    """

    def __init__(
        self,
        commands: Mapping[str, Sequence[str]],
        at_once: int,
        quiet: bool = False,
        bar: bool = True,
    ) -> None:
        self._waiting, self._places = dict(commands), shares(max(1, min(at_once, len(commands))))
        self._running: dict[str, tuple[subprocess.Popen[str], dict[str, str]]] = {}
        self._lines: queue.SimpleQueue[tuple[str, str | None]] = queue.SimpleQueue()
        self._last: dict[str, str] = {}
        self._bars = Bars(quiet, bar)
        self.stopped = self._passed_on = False
        """Whether a signal asked to stop."""
        self.status: dict[str, int] = {}
        """Exit status of the commands that have ended, by name."""

    def run(self) -> None:
        """Run all to their ends, or until a signal asks to stop."""
        self._bars.start()
        try:
            with first_signal(self._stop, self._pass_on):
                while self._running or (self._waiting and not self.stopped):
                    self._start()
                    self._hear()
        finally:
            self._bars.stop()
            self._end()

    @property
    def failures(self) -> list[str]:
        """A sentence for each command that failed."""
        return [
            f"{name}: failed with status {status}: {self._last.get(name, 'it said nothing')}"
            for name, status in self.status.items()
            if status and not (self.stopped and status in _STOPPED)
        ]

    def report(self, advice: str) -> int:
        """Print a sentence for each command that failed; the exit status of all.

        Args:
            advice: how to continue, printed if a signal asked to stop.
        """
        for sentence in self.failures:
            print(f"marinenav: {sentence}", file=sys.stderr)
        if self.stopped:
            print(advice)
            return INTERRUPTED
        return max(map(abs, self.status.values()), default=0)

    def _start(self) -> None:
        """Start commands while there are places."""
        while self._waiting and self._places and not self.stopped:
            name, place = next(iter(self._waiting)), self._places.pop(0)
            process = subprocess.Popen(
                self._waiting.pop(name),
                env=os.environ | place,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running[name] = process, place
            if self.stopped:  # while it started
                process.terminate()
            threading.Thread(target=self._read, args=(name, process.stdout), daemon=True).start()

    def _read(self, name: str, stream: IO[str]) -> None:
        """Pass on the lines of a command, then None; in a thread of its own."""
        with stream:
            for line in stream:
                self._lines.put((name, line.rstrip("\n")))
        self._lines.put((name, None))

    def _hear(self) -> None:
        """Handle one line, or the end, of any command."""
        try:
            name, line = self._lines.get(timeout=_SILENCE)
        except queue.Empty:
            # Processes that a command started may outlive it, and hold its output open.
            ended = [each for each, (process, _) in self._running.items() if process.poll() is not None]
            for each in ended:
                self._lines.put((each, None))
            return
        if name not in self._running:
            return
        if line is None:
            process, place = self._running.pop(name)
            self.status[name] = process.wait()
            self.stopped |= self._passed_on and self.status[name] in _STOPPED
            self._places.append(place)
            self._bars.remove(name)
            return
        said: Any = None
        with suppress(ValueError, RecursionError):
            said = json.loads(line)
        if isinstance(said, dict) and said.keys() == MOVE:
            self._bars.show(name, **said)
            return
        # Parts of the user's may print anything.
        text = said["line"] if isinstance(said, dict) and said.keys() == {"line"} else line
        self._last[name] = text
        self._bars.console.print(f"{name}: {text}")

    def _stop(self) -> None:
        """Ask all to save and end."""
        self.stopped = True
        for process, _ in self._running.values():
            process.terminate()

    def _pass_on(self, number: int) -> None:
        """Send a user's signal to all: they save, and end if they are configured so."""
        self._passed_on = True
        for process, _ in self._running.values():
            process.send_signal(number)

    def _end(self) -> None:
        """End what still runs, which is nothing without an exception."""
        for process, _ in self._running.values():
            process.terminate()
        for process, _ in self._running.values():
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


def command_line(*words: str) -> list[str]:
    """Program and arguments of a command of this program, with the parts of the user's allowed."""
    return [*PROGRAM, *words, *(f"--plugin={part}" for part in plugins.allowed())]


def training_command(run: Path, words: Sequence[str] = ()) -> list[str]:
    """Command that starts or resumes a run, see command_line."""
    return command_line("train", "--resume", str(run), "--json-lines", *words)


def shares(jobs: int) -> list[dict[str, str]]:
    """Environment variables that give each of several jobs its share of cores and GPUs."""
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, cpu_cores() // jobs))
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = named.split(",") if named else [str(each) for each in range(count)]
    devices = [{"CUDA_VISIBLE_DEVICES": gpus[job % len(gpus)]} if gpus else {} for job in range(jobs)]
    return [{"OMP_NUM_THREADS": threads} | each for each in devices]
