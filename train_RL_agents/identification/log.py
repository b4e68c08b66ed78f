"""Logs of a boat: commands and poses over time, from a CSV file."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from marinenav_env.config import VesselConfig
from marinenav_env.support.files import read_text
from marinenav_env.support.validation import ConfigError, require
from train_RL_agents.identification.coefficients import value_of
from train_RL_agents.identification.plausibility import check_motion, check_units, drop_jumps

Array = NDArray[np.float64]
FRAMES = ("ned", "enu")
"""Frames of a log: x north, y east, yaw clockwise from north; or x east, y north, yaw anticlockwise from east."""
_LEAST_ROWS, _MOST_MESSAGE = 100, 40
_UNORDERED = 0.05
"""Share of the rows that may be out of order or repeated."""
_BACKWARDS = 2.0
"""Largest jump of the clock backwards that counts as jitter (s)."""
_EARTH = 6_371_008.8
"""Mean radius of the earth (m)."""
_TIME, _YAW = (("time",),), (("yaw",), ("yaw_deg",))
_POSITION = (("x", "y"), ("north", "east"), ("latitude", "longitude"))
_THRUSTERS = (("left", "right"), ("left_command", "right_command"))
_STEERED = (("thrust", "angle"), ("thrust_command", "angle_command"))


@dataclass(frozen=True)
class BoatLog:
    """Log of T samples, in the order of time."""

    time: Array
    """[T] time since the first sample (s)."""
    commands: Array
    """[T, 2] setpoints of the left and the right side as shares of the largest thrusts, or of the thrust and the
    angle; each command applies until the next sample."""
    pose: Array
    """[T, 3] x to the north, y to the east (m), yaw clockwise from north, not wrapped (rad); NaN where missing."""
    in_newtons: bool
    """True if the log has thrusts (N); otherwise it has shares, so that the size of the thrusts is not known."""
    notes: tuple[str, ...] = ()
    """Sentences on what was repaired in the log."""

    @property
    def seconds(self) -> float:
        """Return the length of the log (s)."""
        return float(self.time[-1])


def read_log(path: Path, vessel: VesselConfig, frame: str = "ned") -> BoatLog:
    """Read the log of a boat from a CSV file.

    Columns, in any order, with the names in the first line: ``time`` (s); ``left`` and ``right`` (N), or
    ``left_command`` and ``right_command``, from -1 to 1; ``x`` and ``y``, or ``north`` and ``east`` (m), or
    ``latitude`` and ``longitude`` (degrees); ``yaw`` (rad) or ``yaw_deg``. Boats with an azimuth thruster or a rudder
    have ``thrust`` (N) and ``angle`` (rad), or ``thrust_command`` and ``angle_command``. Other columns are ignored.
    Missing values are empty or nan.

    Args:
        path: CSV file.
        vessel: boat whose limits of thrust and angle the commands are shares of.
        frame: one of FRAMES.

    Raises:
        ConfigError: when the file cannot be read, lacks a column, or is implausible.
    """
    try:
        return _parse(read_text(path, "a log"), vessel, frame)
    except ConfigError as error:
        text = str(error)
        raise ConfigError(text if text.startswith(str(path)) else f"{path}: {text}") from error


def _parse(text: str, vessel: VesselConfig, frame: str) -> BoatLog:
    """Return the log that the text of a CSV file contains; raise a ConfigError if it is not as read_log describes."""
    names, table = _read_table(text)
    is_steered = vessel.actuators.steering != "thrusters"
    time_column = _choose(names, _TIME, "time")[0]
    command_columns = _choose(names, _STEERED if is_steered else _THRUSTERS, "commands")
    position_columns, yaw_columns = _choose(names, _POSITION, "position"), _choose(names, _YAW, "yaw")
    time = table[:, names.index(time_column)]
    time, table, notes = _in_order(time, table)

    def columns(chosen: Sequence[str]) -> Array:
        return np.stack([table[:, names.index(name)] for name in chosen], 1)

    in_newtons = command_columns[0] in ("left", "thrust")
    raw = _hold(columns(command_columns), command_columns)
    position, yaw = columns(position_columns), columns(yaw_columns)[:, 0]
    check_units(time, raw, command_columns, position, position_columns, yaw, yaw_columns[0], vessel)
    commands = _to_shares(raw, command_columns, vessel)
    if position_columns[0] == "latitude":
        position = _to_plane(position)
    pose = np.column_stack((position, np.radians(yaw) if yaw_columns[0] == "yaw_deg" else yaw))
    if frame == "enu":
        if position_columns[0] == "x":
            pose[:, :2] = pose[:, 1::-1]
        pose[:, 2] = 0.5 * math.pi - pose[:, 2]
    pose[~np.isfinite(pose).all(1)] = math.nan
    time = time - time[0]
    dropped = drop_jumps(time, pose, vessel)
    notes += [f"{dropped} positions that no boat can jump to are not used"] if dropped else []
    present = np.isfinite(pose[:, 0])
    notes += [f"{int((~present).sum())} of {len(pose)} rows have no pose"] if not present.all() else []
    pose[present, 2] = np.unwrap(pose[present, 2])
    check_motion(time, commands, pose, is_steered)
    return BoatLog(time, commands, pose, in_newtons, tuple(notes))


# Tables -----------------------------------------------------------------------------------------


def _read_table(text: str) -> tuple[list[str], Array]:
    """Return the names of the columns and the numbers of the rows, NaN where one is missing."""
    try:
        rows = [row for row in csv.reader(io.StringIO(text.removeprefix("\ufeff"))) if any(map(str.strip, row))]
    except csv.Error as error:
        raise ConfigError(f"cannot be read as a table ({error})") from error
    require(len(rows) > 0, "log", "nothing", "a table with the names of its columns in the first line")
    names = [name.strip().lower() for name in rows[0]]
    is_header = not any(map(_is_number, names))
    require(
        is_header,
        "first line",
        ",".join(names)[:_MOST_MESSAGE],
        "the names of the columns, such as time,left,right,x,y,yaw",
    )
    twice = next((name for name in names if name and names.count(name) > 1), None)
    require(twice is None, "column", twice, "there once")
    require(len(rows) > _LEAST_ROWS, "rows", len(rows) - 1, f"at least {_LEAST_ROWS}")
    wrong = next((number for number, row in enumerate(rows[1:], 2) if len(row) != len(names)), None)
    if wrong is not None:
        require(False, f"line {wrong}: values", len(rows[wrong - 1]), f"{len(names)}, as many as names of columns")
    used = {name for groups in (_TIME, _YAW, _POSITION, _THRUSTERS, _STEERED) for group in groups for name in group}
    table = np.full((len(rows) - 1, len(names)), math.nan)
    for column, name in enumerate(names):
        if name in used:
            table[:, column] = [_number(row[column], name, line) for line, row in enumerate(rows[1:], 2)]
    return names, table


def _is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _number(text: str, name: str, line: int) -> float:
    """Return the number of a cell, NaN for an empty one."""
    text = text.strip()
    if not text or text.lower() in ("nan", "na", "none", "null", "-"):
        return math.nan
    value = float(text) if _is_number(text) else math.inf
    require(
        math.isfinite(value), f"line {line}: {name}", text[:_MOST_MESSAGE], "a number, or empty where it is missing"
    )
    return value


def _choose(names: Sequence[str], groups: Sequence[tuple[str, ...]], what: str) -> tuple[str, ...]:
    """Return the names of the columns of a quantity: the first complete group; raise a ConfigError if there is none."""
    for group in groups:
        if set(group) <= set(names):
            return group
    missing = [name for name in groups[0] if name not in names]
    stated = f"no column {' and '.join(missing)}"
    raise ConfigError(
        f"{what} must be in the columns {', or '.join(' and '.join(group) for group in groups)}; there is {stated}"
    )


def _in_order(time: Array, table: Array) -> tuple[Array, Array, list[str]]:
    """Return times and rows in the order of time, without repeated times, and sentences on what was repaired."""
    missing = int((~np.isfinite(time)).sum())
    require(
        missing <= _UNORDERED * len(time), "time", f"missing in {missing} of {len(time)} rows", "there in every row"
    )
    kept = np.isfinite(time)
    time, table = time[kept], table[kept]
    back = float(-np.diff(time).min(initial=0.0))
    typical = float(np.median(np.abs(np.diff(time))))
    require(typical > 0.0, "time", "the same in most rows", "later in every row")
    limit = max(_BACKWARDS, 3.0 * typical)
    require(
        back <= limit,
        "time",
        f"{back:.4g} s earlier in a row than before",
        "in order: cut the log where its clock was set",
    )
    disorder = int((np.diff(time) <= 0.0).sum())
    require(
        disorder <= _UNORDERED * len(time), "time", f"not later than before in {disorder} rows", "later in every row"
    )
    order = np.argsort(time, kind="stable")
    order = order[np.concatenate(([True], np.diff(time[order]) > 0.0))]
    notes = [f"{disorder} rows were out of order or repeated"] if disorder else []
    notes += [f"{missing} rows without a time are not used"] if missing else []
    return time[order], table[order], notes


# Quantities -------------------------------------------------------------------------------------


def _hold(commands: Array, names: Sequence[str]) -> Array:
    """Return commands with missing values replaced by the one before, or by the first one at the start of the log."""
    held = commands.copy()
    for name, side in zip(names, held.T, strict=True):
        present = np.isfinite(side)
        share = f"missing in {int((~present).sum())} of {len(side)} rows"
        require(bool(present.mean() >= 0.5), name, share, "there in at least half of the rows")
        last = np.maximum.accumulate(np.where(present, np.arange(len(side)), -1))
        side[:] = side[np.where(last < 0, int(np.argmax(present)), last)]
    return held


def _to_shares(commands: Array, names: Sequence[str], vessel: VesselConfig) -> Array:
    """Return commands [T, 2] as shares of the limits of a boat, clipped to [-1, 1]."""
    if names[0].endswith("_command"):
        return np.clip(commands, -1.0, 1.0)
    most, least = value_of(vessel, "max_thrust"), -value_of(vessel, "min_thrust")
    limits = np.where(commands < 0.0, max(least, 1e-9), most)
    if names[1] == "angle":
        limits[:, 1] = value_of(vessel, "angle_limit")
    return np.clip(commands / limits, -1.0, 1.0)


def _to_plane(degrees: Array) -> Array:
    """Return positions north and east (m) of the first one present, from latitudes and longitudes (degrees)."""
    present = np.isfinite(degrees).all(1)
    latitude, longitude = np.radians(degrees).T
    first = int(np.argmax(present))
    east = (longitude - longitude[first] + math.pi) % (2.0 * math.pi) - math.pi
    return _EARTH * np.column_stack((latitude - latitude[first], east * math.cos(latitude[first])))
