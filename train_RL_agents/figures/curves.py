"""Evaluations of runs, and tables of them: curves over seeds, success by level, and comparisons of groups.

A run consists of the episodes of its evaluations. They are read from run folders, and from ``evaluations.npz`` files as
the field and stable-baselines3 write them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from marinenav_env.support.validation import is_printable_text, require
from train_RL_agents.config.environment import BUILT_IN
from train_RL_agents.run.finding import EVALUATIONS_PATTERN, resolve_path
from train_RL_agents.run.run_folder import read_evaluations
from train_RL_agents.run.tensorboard import read_scalars
from train_RL_agents.utils import statistics
from train_RL_agents.utils.arrays import read_arrays
from train_RL_agents.utils.files import read_json
from train_RL_agents.utils.rows import OVERALL, STORED_NAMES
from train_RL_agents.utils.statistics import Array, Counts, Estimate, wilson_interval

METRIC_LABELS = {"success": "success rate", "return": "return", "time": "travel time (s)", "energy": "energy (N s)"}
METRIC_LABELS |= {"training": "return while training"}
"""Labels of the metrics of learning curves, by name. Time and energy are means over successful episodes; returns while
training are those of the log, by env-steps."""
AXIS_LABELS = {"steps": "environment steps", "minutes": "wall time (min)"}
_STORED_NAMES = {
    "success": (STORED_NAMES["success"],),
    "return": (STORED_NAMES["returns"], "results"),
    "time": (STORED_NAMES["time"],),
    "energy": (STORED_NAMES["energy"],),
}
"""Names of the arrays of each metric in evaluations.npz; stable-baselines3 stores returns as ``results``."""
Rows = list[dict[str, Any]]
"""Rows of a table, each with values by name of the column."""


@dataclass(frozen=True)
class Run:
    """Evaluations of one training run: N evaluations of K episodes each."""

    agent: str
    folder: str
    """Name of the folder in which the run was made."""
    axes: dict[str, Array]
    """[N] positions of the evaluations on each axis: ``steps`` (env-steps), ``minutes`` (wall time); [M] ``training
    steps`` of entries of the log."""
    episodes: dict[str, Array]
    """[N, K] values by metric: ``success``, ``return``, ``time``, ``energy``; NaN where an episode does not count; and
    [M, 1] ``training``, the means in the log."""
    groups: Sequence[str] = ()
    """[K] name of each episode's level or group; empty if they are not known."""
    environment: str = ""
    """Name of its environment; empty if it is not known."""

    @property
    def last_success(self) -> Array:
        """Return the success [K] of each episode of the last evaluation, 0 or 1; empty if it is not known."""
        return (self.episodes["success"][-1] >= 1.0).astype(np.float64) if "success" in self.episodes else np.empty(0)

    @property
    def success_counts(self) -> dict[str, tuple[int, int]]:
        """Return the numbers of successes and of episodes of the last evaluation, by level and ``overall``."""
        won, groups = self.last_success, np.array(self.groups)
        parts = {name: won[groups == name] for name in dict.fromkeys(self.groups)}
        return {name: (int(part.sum()), len(part)) for name, part in {**parts, OVERALL: won}.items() if len(part)}


Groups = dict[str, list[Run]]


# Reading ----------------------------------------------------------------------------------------


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Read the runs in folders and files."""
    files: list[Path] = []
    for path in paths:
        folder = resolve_path(path, EVALUATIONS_PATTERN)
        found = [path] if path.suffix == ".npz" else sorted(folder.rglob(EVALUATIONS_PATTERN))
        require(len(found) > 0, "RUN", str(path), f"a run folder with {EVALUATIONS_PATTERN}")
        files += found
    runs = [*map(_read_arrays, files)]
    names = sorted({run.environment for run in runs} - {""})
    require(len(names) < 2, "RUN", f"runs in {', '.join(names)}", "runs in one environment, to be compared")
    return runs


def _environment_name(settings: dict[str, Any]) -> str:
    """Return the name of the environment in the settings of a run or evaluation; without one, the built-in one."""
    env = settings.get("env")
    return str(env.get("name", BUILT_IN)) if isinstance(env, dict) else BUILT_IN


def _read_arrays(path: Path) -> Run:
    """Return the run in an evaluations.npz file, with settings and wall times of its run folder if it has any."""
    readable = {"timesteps", *(name for names in _STORED_NAMES.values() for name in names)}
    found = read_arrays(path, "a file of evaluations", skips_objects=True)
    arrays = {name: array for name, array in found.items() if name in readable}
    for name, array in arrays.items():
        is_column = array.ndim == 1 if name == "timesteps" else array.ndim >= 2
        is_column &= array.dtype.kind in "bif" and array.size > 0
        require(is_column, f"{path}: {name}", f"{array.dtype} {array.shape}", "numbers, a row for each evaluation")
        arrays[name] = array.astype(np.float64)
    require("timesteps" in arrays, str(path), sorted(arrays), "arrays with timesteps")
    steps = arrays["timesteps"]
    # Curves look evaluations up by their positions.
    allowed = "numbers that rise from one evaluation to the next; give parts as files of their own"
    require(bool((np.diff(steps) > 0.0).all()), f"{path}: timesteps", steps[:5].tolist(), allowed)
    episodes = {}
    for metric, names in _STORED_NAMES.items():
        for name in names:
            if name in arrays:
                # Some have a value for each robot: an episode's is their mean, but it succeeds if all robots do.
                values = arrays[name].reshape(*arrays[name].shape[:2], -1)
                episodes[metric] = values.min(-1) if metric == "success" else values.mean(-1)
    count = len(steps)
    for metric, value in episodes.items():
        require(len(value) == count > 0, f"{path}: {metric}", len(value), f"{count} evaluations")
    for metric in {"time", "energy"} & episodes.keys() if "success" in episodes else ():
        episodes[metric] = np.where(episodes["success"] >= 1.0, episodes[metric], np.nan)
    folder = path.parent
    config = folder / "trial_config.json"
    settings = read_json(config) if config.is_file() else {}
    minutes = np.array([row["wall_time"] / 60.0 for row in read_evaluations(folder)])
    axes = {"steps": steps} | ({"minutes": minutes} if len(minutes) == count and minutes.any() else {})
    if logged := sorted(read_scalars(folder, "train/episode_return").items()):
        axes["training steps"], episodes["training"] = np.split(np.array(logged), 2, axis=1)
        axes["training steps"] = axes["training steps"].ravel()
    agent = settings.get("agent_type", folder.name)
    require(is_printable_text(agent), f"{config}: agent_type", agent, "text")
    groups = _level_names(settings, episodes["success"].shape[1]) if "success" in episodes else ()
    return Run(agent, _run_folder_name(folder), axes, episodes, groups, _environment_name(settings) if settings else "")


def _run_folder_name(folder: Path) -> str:
    """Return the name of the folder above ``AGENT_TIME/seed_N`` if a run has such a path; else that of its folder."""
    full = folder.resolve()
    timed = re.match(r"training_|.+_\d{4}(-\d\d){5}", full.parent.name)
    return full.parents[1].name if timed else full.name


def _level_names(settings: dict[str, Any], episodes: int) -> list[str]:
    """Return the name of the level of each episode of an evaluation, in order, from a run's settings."""
    try:
        schedule = settings["eval_schedule"]
        # Those of the original project have a list of the numbers.
        counts = [level["num_episodes"] for level in schedule.get("levels", ())] or schedule["num_episodes"]
        names = [f"level {number}" for number, count in enumerate(counts, 1) for _ in range(min(count, episodes))]
    except (KeyError, TypeError, AttributeError):
        return []
    return names if len(names) == episodes and _environment_name(settings) == BUILT_IN else []


def group_runs(runs: Iterable[Run], by: str) -> Groups:
    """Return the runs of each agent or each folder (``by`` is ``agent`` or ``folder``), in the order of the names."""
    groups: Groups = {}
    for run in sorted(runs, key=attrgetter(by)):
        groups.setdefault(getattr(run, by), []).append(run)
    return groups


def drop_early_runs(groups: Groups) -> tuple[Groups, list[str]]:
    """Return groups without runs that end before another run of their group begins, and a sentence per loss."""
    kept, sentences = {}, []
    for name, runs in groups.items():
        begins = [run.axes["steps"][0] for run in runs if "steps" in run.axes]
        late = max(begins, default=0.0)
        kept[name] = [run for run in runs if "steps" not in run.axes or run.axes["steps"][-1] >= late]
        lost = len(runs) - len(kept[name])
        if lost:
            end = f"end before the first evaluation of another, at {late:,.0f} env-steps"
            sentences.append(f"{name}: {lost} of {len(runs)} runs left out, as they {end}")
    return kept, sentences


# Statistics -------------------------------------------------------------------------------------


class Curve(NamedTuple):
    """Mean of a metric over the runs of a group along an axis, at T points."""

    x: Array
    """[T] positions on the axis."""
    mean: Array
    """[T] mean of the metric over runs and episodes."""
    low: Array
    """[T] lower end of the 95% bootstrap interval of the mean."""
    high: Array
    """[T] upper end of that interval."""
    runs: int


def learning_curve(runs: Sequence[Run], axis: str, metric: str, points: int = 200) -> Curve | None:
    """Return the mean of a metric over runs of a group along an axis, with its 95% bootstrap interval.

    Between evaluations the value of the last one holds. The bootstrap is over runs and, within each, over episodes, so
    that even a single run has an interval. The curve covers the range that all runs cover; it is None if there is no
    such range, or no run has both the axis and the metric.
    """
    axis = f"training {axis}" if metric == "training" else axis
    having = [run for run in runs if axis in run.axes and metric in run.episodes]
    if not having:
        return None
    begin = max(run.axes[axis][0] for run in having)
    end = min(run.axes[axis][-1] for run in having)
    x = np.unique(np.concatenate([run.axes[axis] for run in having]))
    x = x[(x >= begin) & (x <= end)]
    if len(x) == 0:
        return None
    x = x[np.linspace(0, len(x) - 1, min(points, len(x))).round().astype(int)]
    rows = [np.searchsorted(run.axes[axis], x, side="right") - 1 for run in having]
    values = [run.episodes[metric][row] for run, row in zip(having, rows, strict=True)]
    return Curve(x, *statistics.curve_estimate(values), len(having))


def level_counts(groups: Iterable[Sequence[Run]]) -> list[Counts]:
    """Return, for each group of N runs, the successes and episodes [N, M, 2] on the M levels that all runs have.

    Overall metrics count only if there are no common levels; M is 0 if the runs have nothing in common.
    """
    levels = [[run.success_counts for run in group] for group in groups]
    common = set.intersection(*(set(run) for group in levels for run in group)) if any(levels) else set()
    names = sorted(common - {OVERALL}) or sorted(common)
    return [
        np.array([[run[name] for name in names] for run in group], np.int64).reshape(len(group), len(names), 2)
        for group in levels
    ]


def paired_difference(first: Sequence[Run], second: Sequence[Run]) -> Estimate:
    """Estimate the paired difference of success rates of two groups of runs on the same episodes."""
    return statistics.paired_difference([run.last_success for run in first], [run.last_success for run in second])


# Tables -----------------------------------------------------------------------------------------


def curve_table(groups: Groups) -> Rows:
    """Return a row for every point of every learning curve: ``group``, ``axis``, ``metric`` and the fields of Curve."""
    rows = []
    for (name, runs), axis, metric in product(groups.items(), AXIS_LABELS, METRIC_LABELS):
        if (line := learning_curve(runs, axis, metric)) is not None:
            keys = {"group": name, "axis": axis, "metric": metric, "runs": line.runs}
            rows += [keys | dict(zip(Curve._fields[:4], point, strict=True)) for point in zip(*line[:4], strict=True)]
    return rows


def level_table(groups: Groups) -> Rows:
    """Return a row for each group and level with the success rate, pooled over runs, and its 95% Wilson interval."""
    rows = []
    for name, runs in groups.items():
        levels = [run.success_counts for run in runs]
        for level in dict.fromkeys(level for run in levels for level in run):
            count, total = map(sum, zip(*(run[level] for run in levels if level in run), strict=True))
            metrics = {"successes": count, "episodes": total, "rate": count / total}
            ends = dict(zip(("low", "high"), wilson_interval(count, total), strict=True))
            rows.append({"group": name, "level": level, **metrics, **ends, "runs": len(runs)})
    return rows


def difference_table(groups: Groups) -> Rows:
    """Return a row with the paired difference in success of every two groups; all runs must have the same episodes."""
    rows = []
    for first, other in combinations(groups, 2):
        value, low, high = paired_difference(groups[first], groups[other])
        rows.append({"group": first, "over": other, "difference": value, "low": low, "high": high})
    return rows


def iqm_table(groups: Groups) -> Rows:
    """Return a row for each group with interquartile mean and mean of success over runs and levels."""
    rows = []
    for (name, runs), counts in zip(groups.items(), level_counts(groups.values()), strict=True):
        if counts.size:
            value, low, high = statistics.estimate(statistics.interquartile_mean, counts)
            mean = statistics.success_rates(counts).mean()
            rows.append({"group": name, "iqm": value, "low": low, "high": high, "mean": mean, "runs": len(runs)})
    return rows
