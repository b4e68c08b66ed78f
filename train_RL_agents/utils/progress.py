"""Progress display of a training run, and timer of its phases."""

import gc
import json
import math
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from marinenav_env.support import plugins
from marinenav_env.support.validation import is_number
from train_RL_agents.utils.signals import stop_on_broken_pipe

_MIN_PRINT_INTERVAL = 10.0
"""Shortest time between printed log entries when no progress bar is shown (s)."""
_SPEED_PERIOD = 600.0
"""Time over which the speed is averaged that the remaining time follows from, evaluations included (s)."""
BAR_FORMATS: dict[str, Callable[[float], str]] = {
    "episode_return": "return {:.1f}".format,
    "train_success": "success {:.2f}".format,
    "success": "eval {:.2f}".format,
    "rate": "{:,.0f}/s".format,
}
"""Formats of the metrics beside a progress bar, by name in their order: mean return and success rate of training
episodes, success rate of the last evaluation, env-steps per second."""
_EVALUATION_FORMATS: dict[str, Callable[[Any], str]] = {
    "success_rate": "success {:.3f}".format,
    "collision_rate": "collision {:.3f}".format,
    "avg_time": lambda value: "    - s" if value is None else f"{value:5.1f} s",
    "avg_return": "return {:.2f}".format,
    "avg_length": "length {:.1f}".format,
}
"""Formats of the metrics of an evaluation in its printed line, by name in their order."""
BAR_UPDATE_KEYS = {"total", "env_steps", *BAR_FORMATS}
"""Keys of the JSON object that ProgressDisplay prints for an update of the progress bar."""
_UNCOMPILED_PHASES = ("evaluate", "save", "insert", "sample", "compile")
"""Phases that compile nothing when they are passed first, unless they are marked."""
_NON_TRAINING_PHASES = ("evaluate", "save", "compile")
"""Phases of a run whose time does not count as training."""


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection in the context; it takes a tenth of the time of a compiler written in Python."""
    # Frozen objects are skipped by the collections that torch itself requests.
    before = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if before:
            gc.enable()


class PhaseTimer:
    """Timer of the host time (s) of every phase of a run, such as ``collect`` or ``update``.

    Phases are not synchronised with a GPU, so its work counts in the phase that waits for it. The first pass through a
    phase that compiles code counts as ``compile``; ``on_compiled`` is called after it, with its name and its seconds.
    """

    def __init__(self, on_compiled: Callable[[str, float], None] = lambda name, seconds: None) -> None:
        self._on_compiled = on_compiled
        self.phase_context: Callable[[str], AbstractContextManager[Any]] = nullcontext
        """Function that returns a context, such as a profiler's, in which the phase of a given name runs."""
        self.is_compiling = False
        """True during the first pass through a phase that compiles."""
        self.seconds: dict[str, float] = {}
        """Seconds spent in each phase so far, by name."""
        self._lap_seconds: dict[str, float] = {}
        self._started = self._lap_started = time.perf_counter()
        self._previous_seconds, self._passed_phases = 0.0, {*_UNCOMPILED_PHASES}

    def mark_compiling(self, name: str) -> None:
        """Mark a phase as one whose first pass compiles code, as that of all but a few phases does."""
        self._passed_phases.discard(name)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the wall time of the context, without phases inside it, and add it to the seconds of its phase."""
        before = sum(self.seconds.values())
        began, self.is_compiling = time.perf_counter(), name not in self._passed_phases
        try:
            with self.phase_context(name), _without_garbage_collection() if self.is_compiling else nullcontext():
                yield
        finally:
            self.is_compiling = False
        taken = time.perf_counter() - began - (sum(self.seconds.values()) - before)
        if name not in self._passed_phases:
            self._passed_phases.add(name)
            self._on_compiled(name, taken)
            name = "compile"
        self.seconds[name] = self.seconds.get(name, 0.0) + taken

    @property
    def total_seconds(self) -> float:
        """Return the wall time of the run so far (s), without the time between a stop and a resumption."""
        return self._previous_seconds + time.perf_counter() - self._started

    @property
    def training_seconds(self) -> float:
        """Return the wall time of the run so far (s), without evaluations, saving and compilation."""
        return self.total_seconds - sum(self.seconds.get(name, 0.0) for name in _NON_TRAINING_PHASES)

    def lap(self) -> tuple[dict[str, float], float]:
        """Return, since the last call, each phase's share of the wall time by name, and the seconds of training."""
        now = time.perf_counter()
        elapsed = now - self._lap_started
        spent = {name: value - self._lap_seconds.get(name, 0.0) for name, value in self.seconds.items()}
        self._lap_seconds, self._lap_started = dict(self.seconds), now
        idle = sum(spent.get(name, 0.0) for name in _NON_TRAINING_PHASES)
        return {name: value / max(elapsed, 1e-9) for name, value in spent.items()}, elapsed - idle

    def state_dict(self) -> dict[str, Any]:
        """Return the seconds of each phase by name (``seconds``) and of the run (``total``), for the training state."""
        return {"seconds": dict(self.seconds), "total": self.total_seconds}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``."""
        seconds = state["total"], *state["seconds"].values()
        if not all(is_number(value) and value >= 0.0 for value in seconds):
            raise ValueError("seconds that are no numbers from 0")
        self.seconds, self._previous_seconds = dict(state["seconds"]), state["total"]
        self._lap_seconds = dict(self.seconds)
        self._started = self._lap_started = time.perf_counter()


class _Terminal(Console):
    """Console on standard output that requests a stop of the run when its pipe is closed."""

    def on_broken_pipe(self) -> None:
        """Request a stop, so that the run is saved; the overridden method would end the process."""
        stop_on_broken_pipe()


class ProgressBars:
    """Progress bars below the printed lines; every bar is one line of the terminal."""

    def __init__(self, quiet: bool, bar: bool, on_stderr: bool = False) -> None:
        self.console = _Terminal(quiet=quiet, highlight=False, markup=False, soft_wrap=True, stderr=on_stderr)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:.0f}%  {task.fields[text]}", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True),
            console=self.console,
            speed_estimate_period=_SPEED_PERIOD,
            get_time=time.perf_counter,
            expand=True,
            transient=on_stderr,
            disable=quiet or not bar or not self.console.is_terminal,
        )
        self.is_shown = not self._progress.disable
        self._tasks: dict[str, Task] = {}
        self.start, self.stop = self._progress.start, self._progress.stop

    def show(self, name: str, total: int, env_steps: int, **metrics: float | None) -> str:
        """Update a bar, which the first call creates, and return its text with the latest metrics."""
        if name not in self._tasks:
            self._progress.add_task(name, total=total, completed=env_steps, text="", metrics={})
            self._tasks[name] = self._progress.tasks[-1]
        task = self._tasks[name]
        latest = task.fields["metrics"]
        latest |= {key: value for key, value in metrics.items() if value is not None}
        text = "  ".join(form(latest[key]) for key, form in BAR_FORMATS.items() if key in latest)
        self._progress.update(task.id, completed=env_steps, text=text)
        return text

    def remaining_seconds(self, name: str) -> float | None:
        """Return the seconds until a bar is complete, at its average speed so far; None while that is not known."""
        return self._tasks[name].time_remaining

    def show_text(self, name: str, text: str) -> None:
        """Show a text instead of the metrics of a bar, until its next update."""
        if name in self._tasks:
            self._progress.update(self._tasks[name].id, text=text)

    def remove(self, name: str) -> None:
        """Remove a bar, if it exists."""
        if name in self._tasks:
            self._progress.remove_task(self._tasks.pop(name).id)


class ProgressDisplay:
    """Display of a run's progress: a bar, or a line from time to time; a line per evaluation; and closing lines.

    ``record`` receives every line, even if nothing is printed. With ``json_lines``, JSON is printed for other programs,
    an object per line: ``{"line": TEXT}`` for a line, and ``total``, ``env_steps`` and the keys of BAR_FORMATS for an
    update of the bar, null for unchanged numbers.
    """

    def __init__(
        self,
        total: int,
        quiet: bool,
        bar: bool,
        record: Callable[[str], None] = lambda line: None,
        json_lines: bool = False,
    ) -> None:
        self._bars, self._total = ProgressBars(quiet or json_lines, bar), total
        self._record, self._json_lines = record, json_lines
        self._printed_at = -math.inf

    def start(self, env_steps: int, compiles: bool) -> None:
        """Show the bar, after lines on resuming and compiling."""
        if env_steps:
            self.log(f"resuming at {env_steps:,} env-steps")
        if compiles:
            self.log("compiling: a minute or two, or seconds if the cache has the code of these settings ...")
        self._bars.start()
        self._bars.show("training", self._total, env_steps)
        if compiles:
            self._bars.show_text("training", "compiling")

    def log(self, text: str) -> None:
        """Print and record a line."""
        self._record(text)
        self._bars.console.print(text)
        self._print({"line": text})

    def _print(self, content: dict[str, Any]) -> None:
        """Print an object as a line of JSON, if this is configured."""
        if self._json_lines:
            try:
                print(json.dumps(content), flush=True)
            except BrokenPipeError:
                stop_on_broken_pipe()

    def show_log_entry(
        self,
        env_steps: int,
        rate: float,
        success: float | None,
        episode_return: float | None = None,
        train_success: float | None = None,
    ) -> None:
        """Show a log entry of training: update the bar or, without one, print a line if the last line is old.

        ``success`` is the rate of the last evaluation, return and ``train_success`` are those of the training episodes
        that ended since the last log entry; None if there are none.
        """
        metrics = {"episode_return": episode_return, "train_success": train_success, "success": success, "rate": rate}
        text, now = self._update_bar(env_steps, **metrics), time.perf_counter()
        is_silent = self._bars.is_shown or self._json_lines
        if not is_silent and now - self._printed_at >= _MIN_PRINT_INTERVAL:
            self._printed_at = now
            left = self._bars.remaining_seconds("training")
            ending = "" if left is None else f"  {timedelta(seconds=left)} left"
            self.log(f"{env_steps:>11,} env-steps  train: {text}{ending}")

    def show_evaluation_progress(self, done: int, total: int) -> None:
        """Show how many of all episodes of an evaluation have ended."""
        self._bars.show_text("training", f"evaluating {done} of {total}")

    def _update_bar(self, env_steps: int, **metrics: float | None) -> str:
        """Update the bar with metrics by their names in BAR_FORMATS, print the update as JSON, and return its text."""
        self._print({"total": self._total, "env_steps": env_steps, **dict.fromkeys(BAR_FORMATS)} | metrics)
        return self._bars.show("training", self._total, env_steps, **metrics)

    def show_evaluation(self, env_steps: int, seconds: float, metrics: dict[str, Any], is_best: bool) -> None:
        """Print the line of an evaluation, and show its success rate in the bar."""
        # Where collisions are counted, the mean return is left out, because it says less.
        names = _EVALUATION_FORMATS.keys() & metrics.keys() - ({"avg_return"} if "collision_rate" in metrics else set())
        shown = [form(metrics[name]) for name, form in _EVALUATION_FORMATS.items() if name in names]
        line = f"{env_steps:>11,} env-steps {seconds / 60:6.1f} min  {'  '.join(shown)}"
        self.log(f"{line}{'  best' if is_best else ''}")
        self._update_bar(env_steps, success=metrics.get("success_rate", metrics.get("avg_return")))

    def stop(self) -> None:
        """Remove the progress bar, which also restores the cursor of the terminal."""
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
        """Print how the run ended, where its policy is, commands that show the results, and how to resume it.

        ``kept`` are the env-steps of the last saved state if the run was stopped without saving.
        """
        run, plugin_options = str(relative_to_cwd(path)), plugins.option_words()
        if finished:
            self.log(f"finished: {run}")
        if best is not None:
            self.log(f"policy: {relative_to_cwd(best)}")
            self.log(f"next: {shlex.join(['marinenav', 'evaluate', run, *plugin_options])}")
            self.log(f"      {shlex.join(['marinenav', 'play', run, *plugin_options])}")
            self.log(f"      {shlex.join(['tensorboard', '--logdir', str(relative_to_cwd(path.parent.parent))])}")
        if not finished and resumable:
            lost = f"while compiling: the state of {kept or 0:,} env-steps is kept, nothing since"
            command = shlex.join([*program, "train", "--resume", run, *plugin_options])
            self.log(f"stopped {'and saved' if kept is None else lost}; go on with: {command}")
        elif not finished:
            self.log(f"stopped: {run}; with save_replay=false it cannot be resumed")


def relative_to_cwd(path: Path) -> Path:
    """Return a path relative to the working folder if it is inside, else unchanged."""
    folder = Path.cwd()
    return path.relative_to(folder) if path.is_relative_to(folder) else path
