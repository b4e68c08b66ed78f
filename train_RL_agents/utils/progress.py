"""Progress display of a run, and the time of its phases."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from marinenav_env.validation import is_number
from train_RL_agents.utils.signals import reader_gone

_BETWEEN = 60.0
"""Seconds between lines on the time left, where there is no bar."""
MOVE = {"total", "env_steps", "rate", "success"}
"""Keys of a move of the bar as JSON, see Display."""
_NOT_TRAINING = ("evaluate", "save", "compile")


class Clock:
    """Host time by phase, in seconds.

    Phases are not synchronised with a GPU: its work shows up in the phase that waits for it. The
    first pass through a phase that compiles what it runs counts as ``compile``.

    Args:
        first: told of such a pass: the phase, and its seconds.
    """

    def __init__(self, first: Callable[[str, float], None] = lambda name, seconds: None) -> None:
        self._first = first
        self.watch: Callable[[str], AbstractContextManager[Any]] = nullcontext
        """Entered around every phase with its name, for a profiler or a benchmark."""
        self.compiling = False
        """Whether a phase runs that compiles."""
        self.seconds: dict[str, float] = {}
        self._lap: dict[str, float] = {}
        self._started = self._lap_started = time.perf_counter()
        self._before, self._seen = 0.0, {"evaluate", "save", "insert", "sample", "compile"}

    def compiles(self, name: str) -> None:
        """Know that this phase, too, compiles what it runs, as collect and update do."""
        self._seen.discard(name)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time inside towards a phase."""
        began, self.compiling = time.perf_counter(), name not in self._seen
        try:
            with self.watch(name):
                yield
        finally:
            self.compiling = False
        taken = time.perf_counter() - began
        if name not in self._seen:
            self._seen.add(name)
            self._first(name, taken)
            name = "compile"
        self.seconds[name] = self.seconds.get(name, 0.0) + taken

    @property
    def total(self) -> float:
        """Seconds since the start of the run, interruptions left out."""
        return self._before + time.perf_counter() - self._started

    @property
    def training(self) -> float:
        """Wall time without evaluations, saving and compilation."""
        return self.total - sum(self.seconds.get(name, 0.0) for name in _NOT_TRAINING)

    def lap(self) -> tuple[dict[str, float], float]:
        """Share of each phase since the last lap, and the seconds of training since then."""
        now = time.perf_counter()
        elapsed = now - self._lap_started
        spent = {name: value - self._lap.get(name, 0.0) for name, value in self.seconds.items()}
        self._lap, self._lap_started = dict(self.seconds), now
        idle = sum(spent.get(name, 0.0) for name in _NOT_TRAINING)
        return {name: value / max(elapsed, 1e-9) for name, value in spent.items()}, elapsed - idle

    def state_dict(self) -> dict[str, Any]:
        """Seconds so far."""
        return {"seconds": dict(self.seconds), "total": self.total}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the counts.

        Raises:
            ValueError: when they are no numbers from 0.
        """
        seconds = state["total"], *state["seconds"].values()
        if not all(is_number(each) and each >= 0.0 for each in seconds):
            raise ValueError("seconds that are no numbers from 0")
        self.seconds, self._before = dict(state["seconds"]), state["total"]
        self._lap = dict(self.seconds)
        self._started = self._lap_started = time.perf_counter()


class _Terminal(Console):
    """Standard output; a run whose reader has gone is stopped and saved."""

    def on_broken_pipe(self) -> None:
        """See Console, which would end the process."""
        reader_gone()


class Bars:
    """Progress bars below the lines that are said.

    Args:
        quiet: print nothing at all.
        bar: show bars; without a terminal they are left out anyway.
    """

    def __init__(self, quiet: bool, bar: bool) -> None:
        self.console = _Terminal(quiet=quiet, highlight=False, markup=False, soft_wrap=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]:,.0f} env-steps/s, success {task.fields[success]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=quiet or not bar or not self.console.is_terminal,
        )
        self.shown = not self._progress.disable
        """Whether there are any."""
        self._tasks: dict[str, TaskID] = {}
        self.start, self.stop = self._progress.start, self._progress.stop

    def show(
        self, name: str, total: int, env_steps: int, rate: float | None = None,
        success: float | None = None,
    ) -> None:  # fmt: skip
        """Move a bar, which is made the first time; what is None stays as it was."""
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=total, rate=0.0, success="-")
        fields: dict[str, Any] = {} if rate is None else {"rate": rate}
        fields |= {} if success is None else {"success": f"{success:.2f}"}
        self._progress.update(self._tasks[name], completed=env_steps, **fields)

    def remove(self, name: str) -> None:
        """Remove a bar, if there is one."""
        if name in self._tasks:
            self._progress.remove_task(self._tasks.pop(name))


class Display:
    """A progress bar, one line per evaluation, and a last line.

    Args:
        total: env-steps of the run.
        quiet: print nothing at all.
        bar: show the bar; without a terminal it is left out anyway.
        record: is given every line, also if nothing is printed.
        json_lines: print JSON for other programs, an object a line: ``{"line": TEXT}`` for a line,
            and ``total``, ``env_steps``, ``rate`` (env-steps a second) and ``success`` (of the last
            evaluation) for a move of the bar, null where that is not new.
    """

    def __init__(
        self, total: int, quiet: bool, bar: bool, record: Callable[[str], None] = lambda line: None,
        json_lines: bool = False,
    ) -> None:  # fmt: skip
        self._bars, self._total = Bars(quiet or json_lines, bar), total
        self._record, self._json_lines = record, json_lines
        self._told_at = time.perf_counter()

    def start(self, env_steps: int, compiles: bool) -> None:
        """Say what happens first, and show the bar."""
        if env_steps:
            self.say(f"resuming at {env_steps:,} env-steps")
        if compiles:
            self.say("compiling world, policy and update (up to two minutes) ...")
        self._bars.start()
        self._bars.show("training", self._total, env_steps)

    def say(self, text: str) -> None:
        """One line."""
        self._record(text)
        self._bars.console.print(text)
        self._print({"line": text})

    def _print(self, content: dict[str, Any]) -> None:
        """Print JSON, if that is wanted."""
        if self._json_lines:
            try:
                print(json.dumps(content), flush=True)
            except BrokenPipeError:
                reader_gone()

    def step(self, env_steps: int, rate: float, success: float | None) -> None:
        """Move the bar; without one, say now and then how long it will take."""
        self._move(env_steps, rate, success)
        now = time.perf_counter()
        if not self._bars.shown and now - self._told_at >= _BETWEEN and rate > 0:
            self._told_at, left = now, (self._total - env_steps) / rate / 60
            self.say(f"{env_steps:>11,} env-steps, {rate:,.0f} a second, about {left:.1f} min left")

    def _move(self, env_steps: int, rate: float | None, success: float | None) -> None:
        self._bars.show("training", self._total, env_steps, rate, success)
        self._print({"total": self._total, "env_steps": env_steps, "rate": rate,
                     "success": success})  # fmt: skip

    def evaluation(
        self, env_steps: int, seconds: float, figures: dict[str, Any], best: bool
    ) -> None:
        """One line, and the new success in the bar; time is wall time, as in the bar."""

        def shown(name: str, form: str) -> str:
            value = figures[name]
            return f"{'-':>{form[0]}}" if value is None else f"{value:{form}}"

        self.say(
            f"{env_steps:>11,} env-steps {seconds / 60:6.1f} min  "
            f"success {figures['success_rate']:.3f}  collision {figures['collision_rate']:.3f}  "
            f"{shown('avg_time', '5.1f')} s{'  best' if best else ''}"
        )
        self._move(env_steps, None, figures["success_rate"])

    def stop(self) -> None:
        """Remove the bar, which also restores the cursor of the terminal."""
        self._bars.stop()

    def finish(
        self,
        path: Path,
        best: Path | None,
        finished: bool,
        resumable: bool,
        program: Sequence[str] = ("marinenav",),
        kept: int | None = None,
    ) -> None:
        """Print where the results are, and how to resume.

        Args:
            path: of the run.
            best: its best policy.
            finished: whether it made all its env-steps.
            resumable: whether it can be resumed.
            program: first words of the command that does.
            kept: env-steps that it is resumed at, where it could not be saved.
        """
        if finished:
            self.say(f"finished: {path}; best policy {best}")
        elif resumable:
            command = shlex.join([*program, "train", "--resume", str(path)])
            how = "and saved" if kept is None else f"while compiling, {kept:,} env-steps are kept"
            self.say(f"stopped {how}; go on with: {command}")
        else:
            self.say(f"stopped: {path}; with save_replay=false it cannot be resumed")
