"""Progress display of a run, and the time of its phases."""

from __future__ import annotations

import gc
import json
import math
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from marinenav_env.support.validation import is_number
from train_RL_agents.utils.signals import reader_gone
from train_RL_agents.utils.time_left import TimeLeft, clock_text

_BETWEEN = 10.0
"""Seconds between lines of a log entry at least, where there is no bar."""
_WIDE = 110
"""Columns of a terminal from which the bar counts env-steps, too."""
FIGURES: dict[str, Callable[[float], str]] = {
    "episode_return": "return {:.1f}".format,
    "train_success": "success {:.2f}".format,
    "success": "eval {:.2f}".format,
    "rate": "{:,.0f}/s".format,
    "left": clock_text,
}
"""Figures of a bar in their order: mean return and success of training episodes, success of the
last evaluation, env-steps a second, seconds left."""
MOVE = {"total", "env_steps", *FIGURES}
"""Keys of a move of the bar as JSON, see Display."""
_NOT_TRAINING = ("evaluate", "save", "compile")


@contextmanager
def _uncollected() -> Iterator[None]:
    """Leave out collections of garbage, which take a tenth of the time of a compiler in Python."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


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
            with self.watch(name), _uncollected() if self.compiling else nullcontext():
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
        """Return the seconds since the start of the run, interruptions left out."""
        return self._before + time.perf_counter() - self._started

    @property
    def training(self) -> float:
        """Return the wall time without evaluations, saving and compilation."""
        return self.total - sum(self.seconds.get(name, 0.0) for name in _NOT_TRAINING)

    @property
    def pauses(self) -> float:
        """Return the seconds of evaluations and saving."""
        return self.seconds.get("evaluate", 0.0) + self.seconds.get("save", 0.0)

    def lap(self) -> tuple[dict[str, float], float]:
        """Return the share of each phase since the last lap, and the seconds of training since then."""
        now = time.perf_counter()
        elapsed = now - self._lap_started
        spent = {name: value - self._lap.get(name, 0.0) for name, value in self.seconds.items()}
        self._lap, self._lap_started = dict(self.seconds), now
        idle = sum(spent.get(name, 0.0) for name in _NOT_TRAINING)
        return {name: value / max(elapsed, 1e-9) for name, value in spent.items()}, elapsed - idle

    def state_dict(self) -> dict[str, Any]:
        """Return the seconds so far."""
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
    """Progress bars below the lines that are said; each is one line of the terminal.

    Args:
        quiet: print nothing at all.
        bar: show bars; without a terminal they are left out anyway.
    """

    def __init__(self, quiet: bool, bar: bool) -> None:
        self.console = _Terminal(quiet=quiet, highlight=False, markup=False, soft_wrap=True)
        counts = [MofNCompleteColumn()] if self.console.width >= _WIDE else []
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            *counts,
            TextColumn("{task.percentage:.0f}%  {task.fields[text]}", markup=False),
            console=self.console,
            expand=True,
            disable=quiet or not bar or not self.console.is_terminal,
        )
        self.shown = not self._progress.disable
        """Whether there are any."""
        self._tasks: dict[str, TaskID] = {}
        self._figures: dict[str, dict[str, float]] = {}
        self.start, self.stop = self._progress.start, self._progress.stop

    def show(self, name: str, total: int, env_steps: int, **figures: float | None) -> None:
        """Move a bar, which is made the first time.

        Args:
            name: of the bar.
            total: env-steps of the run.
            env_steps: of the run so far.
            figures: see FIGURES; what is None stays as it was.
        """
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=total, text="")
            self._figures[name] = {}
        known = self._figures[name]
        known |= {key: value for key, value in figures.items() if value is not None}
        text = "  ".join(form(known[key]) for key, form in FIGURES.items() if key in known)
        self._progress.update(self._tasks[name], completed=env_steps, text=text)

    def note(self, name: str, text: str) -> None:
        """Show a text in place of the figures of a bar, until it moves."""
        if name in self._tasks:
            self._progress.update(self._tasks[name], text=text)

    def remove(self, name: str) -> None:
        """Remove a bar, if there is one."""
        if name in self._tasks:
            self._progress.remove_task(self._tasks.pop(name))
            del self._figures[name]


class Display:
    """A progress bar, or a line now and then; one line per evaluation, and the last lines.

    Args:
        total: env-steps of the run.
        quiet: print nothing at all.
        bar: show the bar; without a terminal it is left out anyway.
        record: is given every line, also if nothing is printed.
        json_lines: print JSON for other programs, an object a line: ``{"line": TEXT}`` for a line,
            and ``total``, ``env_steps`` and FIGURES by name for a move of the bar, null where that
            is not new.
        eval_freq: env-steps between evaluations.
    """

    def __init__(
        self,
        total: int,
        quiet: bool,
        bar: bool,
        record: Callable[[str], None] = lambda line: None,
        json_lines: bool = False,
        eval_freq: int = 0,
    ) -> None:
        self._bars, self._total = Bars(quiet or json_lines, bar), total
        self._record, self._json_lines = record, json_lines
        self._left, self._at, self._told_at = TimeLeft(total, eval_freq), 0, -math.inf
        self._known: dict[str, float] = {}

    def start(self, env_steps: int, compiles: bool) -> None:
        """Say what happens first, and show the bar."""
        self._at = env_steps
        if env_steps:
            self.log(f"resuming at {env_steps:,} env-steps")
        if compiles:
            self.log("compiling (up to two minutes; some seconds once it is in the cache) ...")
        self._bars.start()
        self._bars.show("training", self._total, env_steps)

    def log(self, text: str) -> None:
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

    def step(
        self,
        env_steps: int,
        rate: float,
        success: float | None,
        episode_return: float | None = None,
        train_success: float | None = None,
    ) -> None:
        """Show a log entry: move the bar or, without one, print a line if the last one is old.

        Args:
            env_steps: of the run so far.
            rate: env-steps a second of training.
            success: of the last evaluation.
            episode_return: mean of the training episodes that ended.
            train_success: share of those that succeeded.
        """
        self._left.lap(env_steps - self._at, (env_steps - self._at) / rate if rate > 0 else 0.0)
        self._at, left = env_steps, self._left.seconds(env_steps)
        found = {
            "episode_return": episode_return,
            "train_success": train_success,
            "success": success,
            "rate": rate,
            "left": left,
        }
        self._move(env_steps, **found)
        # Between two entries no episode may have ended; the line shows the latest figures then.
        self._known |= {name: value for name, value in found.items() if value is not None}
        now = time.perf_counter()
        silent = self._bars.shown or self._json_lines
        if not silent and now - self._told_at >= _BETWEEN:
            self._told_at = now
            texts = [
                form(self._known[name]) for name, form in FIGURES.items() if name in self._known and name != "success"
            ]
            texts[-1] += " left" if left is not None else ""
            self.log(f"{env_steps:>11,} env-steps  train: {'  '.join(texts)}")

    def evaluating(self, done: int, total: int) -> None:
        """Show how many episodes of an evaluation have ended."""
        self._bars.note("training", f"evaluating {done} of {total}")

    def _move(self, env_steps: int, **figures: float | None) -> None:
        self._bars.show("training", self._total, env_steps, **figures)
        move = {"total": self._total, "env_steps": env_steps, **dict.fromkeys(FIGURES)}
        self._print(move | figures)

    def evaluation(
        self,
        env_steps: int,
        seconds: float,
        figures: dict[str, Any],
        best: bool,
        paused: float = 0.0,
        count: int = 1,
    ) -> None:
        """Print a line, and show the new success in the bar.

        Args:
            env_steps: of the run so far.
            seconds: of the run so far, wall time.
            figures: of the evaluation.
            best: whether its policy is the best so far.
            paused: seconds of all evaluations so far, with saving.
            count: of these evaluations.
        """
        self._left.evaluated(paused, count)

        def shown(name: str, form: str) -> str:
            value = figures[name]
            return f"{'-':>{form[0]}}" if value is None else f"{value:{form}}"

        self.log(
            f"{env_steps:>11,} env-steps {seconds / 60:6.1f} min  "
            f"success {figures['success_rate']:.3f}  collision {figures['collision_rate']:.3f}  "
            f"{shown('avg_time', '5.1f')} s{'  best' if best else ''}"
        )
        left = self._left.seconds(env_steps)
        self._move(env_steps, success=figures["success_rate"], left=left)

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
        """Print where the results are, how to resume, and commands that show them.

        Args:
            path: of the run.
            best: its best policy, if it has one.
            finished: whether it made all its env-steps.
            resumable: whether it can be resumed.
            program: first words of the command that does.
            kept: env-steps that it is resumed at, where it could not be saved.
        """
        run, shown = str(relative(path)), []
        if best is not None:
            folder = str(relative(path.parent.parent))
            commands = (["marinenav", "evaluate", run], ["marinenav", "play", run], ["tensorboard", "--logdir", folder])
            first, *others = map(shlex.join, commands)
            shown = [f"policy: {relative(best)}", f"next: {first}"]
            shown += [f"      {command}" for command in others]
        if finished:
            shown.insert(0, f"finished: {run}")
        elif resumable:
            command = shlex.join([*program, "train", "--resume", run])
            lost = f"while compiling: the state of {kept or 0:,} env-steps is kept, nothing since"
            how = "and saved" if kept is None else lost
            shown.append(f"stopped {how}; go on with: {command}")
        else:
            shown.append(f"stopped: {run}; with save_replay=false it cannot be resumed")
        for line in shown:
            self.log(line)


def relative(path: Path) -> Path:
    """Return a path from the present folder, if it is below that."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
