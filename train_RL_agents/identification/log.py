"""Logs of a boat: commands and poses over time, from a CSV file."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marinenav_env.config import VesselConfig
from marinenav_env.support.files import read_text
from marinenav_env.support.validation import require

Array = NDArray[np.float64]
_SHORTEST, _LONGEST = 60.0, 7200.0
"""Limits of the length of a log (s)."""
_LARGEST = 1e6
"""Largest plausible size of a number."""
_FARTHEST_GAP = 5.0
"""Longest time without a sample that is bridged (s)."""
_CHOICES: dict[str, tuple[tuple[str, ...], ...]] = {
    "time": (("time",),),
    "commands": (("left", "right"), ("left_command", "right_command")),
    "position": (("x", "y"), ("north", "east")),
    "yaw": (("yaw",), ("yaw_deg",)),
}
"""Columns of a log: one of the groups of each."""


@dataclass(frozen=True)
class BoatLog:
    """Log of T samples; poses are NaN where they are missing."""

    time: Array
    """[T] time from the first sample (s)."""
    commands: Array
    """[T, 2] setpoints of the left and the right side (N), held until the next sample."""
    pose: Array
    """[T, 3] x to the north, y to the east (m), yaw clockwise from north, not wrapped (rad)."""

    @property
    def seconds(self) -> float:
        """Return the length of the log (s)."""
        return float(self.time[-1])


def read_log(path: Path, vessel: VesselConfig) -> BoatLog:
    """Read a log.

    Columns, in any order: ``time`` (s); ``left`` and ``right`` (N), or ``left_command`` and ``right_command`` as
    shares from -1 to 1 of the largest thrusts; ``x`` and ``y``, or ``north`` and ``east`` (m); ``yaw`` (rad) or
    ``yaw_deg``, clockwise from north. Others are not used. Missing values are empty or nan.

    Args:
        path: CSV file with a line of names.
        vessel: boat with the largest thrusts.

    Raises:
        ConfigError: when it cannot be read, lacks a column, or is absurd.
    """
    rows = list(csv.reader(io.StringIO(read_text(path, "a log"))))
    names = [name.strip().lower() for name in rows[0]] if rows else []
    chosen = {}
    for what, groups in _CHOICES.items():
        group = next((group for group in groups if set(group) <= set(names)), None)
        allowed = f"there: {' or '.join(' and '.join(group) for group in groups)}"
        require(group is not None, f"{path}: {what}", None, allowed)
        chosen[what] = group or ()
    table = np.array([_numbers(path, number, row, len(names)) for number, row in enumerate(rows[1:], 2) if row])
    require(len(table) > 1, f"{path}: samples", len(table), "more than one")

    def columns(what: str) -> Array:
        return table[:, [names.index(name) for name in chosen[what]]]

    time = columns("time")[:, 0]
    require(bool(np.isfinite(time).all()), f"{path}: time", "nan", "there in every row")
    order = np.argsort(time, kind="stable")
    order = order[np.concatenate(([True], np.diff(time[order]) > 0.0))]
    time, table = time[order], table[order]
    length = float(time[-1] - time[0])
    require(_SHORTEST <= length <= _LONGEST, f"{path}: length", length, f"from {_SHORTEST:g} to {_LONGEST:g} s")
    commands, position, yaw = columns("commands"), columns("position"), columns("yaw")
    if chosen["commands"][0] == "left_command":
        within = bool((np.nan_to_num(np.abs(commands)) <= 1.0).all())
        require(within, f"{path}: commands", float(np.nanmax(np.abs(commands))), "from -1 to 1")
        most, least = _single(vessel.max_thrust), _single(vessel.min_thrust)
        commands = np.where(commands > 0.0, commands * most, -commands * least)
    yaw = np.radians(yaw) if chosen["yaw"][0] == "yaw_deg" else yaw
    commands = _held(path, commands)
    moved = np.nanmax(np.abs(position - np.nanmedian(position, axis=0))) if np.isfinite(position).any() else 0.0
    require(bool(np.ptp(commands) > 0.0), f"{path}: commands", float(commands[0, 0]), "more than one number")
    require(bool(moved > 0.0), f"{path}: position", moved, "that of a boat that moves")
    return BoatLog(time - time[0], commands, np.concatenate((position, _unwrapped(yaw)), 1))


def _numbers(path: Path, line: int, row: list[str], count: int) -> list[float]:
    """Return the numbers of a line of a file, NaN for those that are missing."""
    require(len(row) == count, f"{path}: line {line}", len(row), f"{count} values, as many as names")
    numbers = []
    for text in row:
        try:
            value = float(text) if text.strip() else math.nan
        except ValueError:
            value = math.inf
        is_number = math.isnan(value) or abs(value) <= _LARGEST or abs(value) <= 1e11
        require(is_number, f"{path}: line {line}", text, "a number")
        numbers.append(value)
    return numbers


def _single(value: Any) -> float:
    return max(value) if isinstance(value, tuple) else value


def _held(path: Path, commands: Array) -> Array:
    """Return commands with missing ones held from before; the first must be there."""
    require(bool(np.isfinite(commands[0]).all()), f"{path}: commands", "nan", "there in the first row")
    held = commands.copy()
    for side in held.T:
        known = np.maximum.accumulate(np.where(np.isfinite(side), np.arange(len(side)), 0))
        side[:] = side[known]
    return held


def _unwrapped(yaw: Array) -> Array:
    """Return yaw [T, 1] without jumps of a turn; missing values stay."""
    known = np.isfinite(yaw[:, 0])
    unwrapped = yaw.copy()
    unwrapped[known, 0] = np.unwrap(yaw[known, 0])
    return unwrapped


@dataclass(frozen=True)
class Segments:
    """Parts of a log of the same length, E of them, on a grid of N steps."""

    start: Array
    """[E] time at which they begin (s)."""
    commands: Array
    """[E, N, 2] setpoints (N) during each step."""
    stamp: Array
    """[E, M] times of the samples from the start (s), 0 where there is none."""
    pose: Array
    """[E, M, 3] measured poses, NaN where there is none."""


def cut(log: BoatLog, begins: Array, seconds: float, step: float) -> Segments:
    """Cut parts out of a log; those with few samples or a long gap are left out.

    Args:
        log: the log.
        begins: times at which parts begin (s).
        seconds: length of the parts (s).
        step: length of a step of the grid (s).
    """
    grid, parts = np.arange(round(seconds / step) + 1) * step, []
    # Steps of the grid have the mean of the commands that hold during them.
    spent = np.concatenate((np.zeros((1, 2)), np.cumsum(log.commands[:-1] * np.diff(log.time)[:, None], 0)))
    for begin in begins:
        if begin + seconds > log.seconds + 1e-9:
            continue
        inside = (log.time >= begin) & (log.time <= begin + seconds)
        known = inside & np.isfinite(log.pose).all(1)
        times = log.time[known]
        gaps = np.diff(np.concatenate(([begin], times, [begin + seconds])))
        if known.sum() < 8 or gaps.max() > _FARTHEST_GAP:
            continue
        integral = np.stack([np.interp(begin + grid, log.time, side) for side in spent.T], -1)
        parts.append((begin, np.diff(integral, axis=0) / step, times - begin, log.pose[known]))
    most = max((len(part[2]) for part in parts), default=0)
    stamp, pose = np.zeros((len(parts), most)), np.full((len(parts), most, 3), np.nan)
    for number, (_, _, times, measured) in enumerate(parts):
        stamp[number, : len(times)], pose[number, : len(times)] = times, measured
    commands = np.array([part[1] for part in parts]).reshape(len(parts), len(grid) - 1, 2)
    return Segments(np.array([part[0] for part in parts]), commands, stamp, pose)
