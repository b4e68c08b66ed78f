"""Logs of a boat: commands and poses over time, from a CSV file."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from marinenav_env.config import VesselConfig
from marinenav_env.support.files import read_text
from marinenav_env.support.validation import ConfigError, require
from train_RL_agents.identification.coefficients import coefficient_value
from train_RL_agents.identification.plausibility import check_columns, check_motion, drop_jumps

Array = NDArray[np.float64]
FRAMES = ("ned", "enu")
"""Frames of a log: x north, y east, yaw clockwise from north; or x east, y north, yaw anticlockwise from east. The
angle of a thruster or rudder has the sense of the yaw, as seen from above."""
_MIN_ROWS = 100
_MAX_SHOWN_LENGTH = 40
"""Largest number of characters of a file's text in a message."""
_MAX_DISORDER_SHARE = 0.05
"""Share of the rows that may be out of order or repeated."""
_MAX_CLOCK_JITTER = 2.0
"""Largest jump of the clock backwards that counts as jitter (s)."""
_EQUATOR_RADIUS, _SQUARED_ECCENTRICITY = 6_378_137.0, 6.694_379_990_14e-3
"""Radius of the earth at the equator (m), and squared eccentricity of its meridians (1), both of WGS 84."""
# Groups of columns, any of which gives a quantity.
_TIME_COLUMNS, _YAW_COLUMNS = (("time",),), (("yaw",), ("yaw_deg",))
_POSITION_COLUMNS = (("x", "y"), ("north", "east"), ("latitude", "longitude"))
_THRUSTER_COLUMNS = (("left", "right"), ("left_command", "right_command"))
_STEERED_COLUMNS = (("thrust", "angle"), ("thrust_command", "angle_command"))


@dataclass(frozen=True)
class BoatLog:
    """Log of T samples, in the order of time."""

    time: Array
    """[T] time since the first sample (s)."""
    commands: Array
    """[T, 2] setpoints of the left and the right side as shares of the largest thrusts, or of the thrust and the
    angle (clockwise as seen from above); each command applies until the next sample."""
    pose: Array
    """[T, 3] x to the north, y to the east (m), yaw clockwise from north, not wrapped (rad); NaN where missing."""
    is_in_newtons: bool
    """True if the log has thrusts (N); otherwise it has shares, so that the size of the thrusts is not known."""
    notes: tuple[str, ...] = ()
    """Sentences on what was repaired in the log, or is doubtful."""
    yaw_offset: float = 0.0
    """Mean difference of the yaw from the course ahead, if it is a doubtful one (rad)."""

    @property
    def duration(self) -> float:
        """Return the length of the log (s)."""
        return float(self.time[-1])


def read_log(path: Path, vessel: VesselConfig, frame: str = "ned") -> BoatLog:
    """Read the log of a boat from a CSV file.

    Columns, in any order, with the names in the first line: ``time`` (s); ``left`` and ``right`` (N), or
    ``left_command`` and ``right_command``, from -1 to 1; ``x`` and ``y``, or ``north`` and ``east`` (m), or
    ``latitude`` and ``longitude`` (degrees); ``yaw`` (rad) or ``yaw_deg``. Boats with an azimuth thruster or a rudder
    have ``thrust`` (N) and ``angle`` (rad), or ``thrust_command`` and ``angle_command``; FRAMES states the sense of the
    angle. Other columns are ignored. Missing values are empty or nan. Semicolons or tabs may separate the columns.

    Args:
        path: CSV file.
        vessel: boat whose limits of thrust and angle the commands are shares of.
        frame: one of FRAMES.

    Raises:
        ConfigError: when the file cannot be read, lacks a column, or is implausible.
    """
    try:
        return _parse_log(read_text(path, "a log"), vessel, frame)
    except ConfigError as error:
        text = str(error)
        raise ConfigError(text if text.startswith(str(path)) else f"{path}: {text}") from error


def _parse_log(text: str, vessel: VesselConfig, frame: str) -> BoatLog:
    """Return the log that the text of a CSV file contains."""
    names, table = _read_table(text)
    is_steered = vessel.actuators.steering != "thrusters"
    time_names, command_names, position_names, yaw_names = (
        _choose_columns(names, groups, what)
        for groups, what in (
            (_TIME_COLUMNS, "time"),
            (_STEERED_COLUMNS if is_steered else _THRUSTER_COLUMNS, "commands"),
            (_POSITION_COLUMNS, "position"),
            (_YAW_COLUMNS, "yaw"),
        )
    )
    time, table, notes = _sort_by_time(table[:, names.index(time_names[0])], table)

    def columns(chosen: Sequence[str]) -> Array:
        return np.stack([table[:, names.index(name)] for name in chosen], 1)

    raw, position = _fill_missing(columns(command_names), command_names), columns(position_names)
    yaw = columns(yaw_names)[:, 0]
    check_columns(time, (raw, position, yaw), (command_names, position_names, yaw_names[0]), vessel)
    commands = _to_shares(raw, command_names, vessel)
    if position_names[0] == "latitude":
        position = _to_local_plane(position)
    pose = np.column_stack((position, np.radians(yaw) if yaw_names[0] == "yaw_deg" else yaw))
    if frame == "enu":
        if position_names[0] == "x":
            pose[:, :2] = pose[:, 1::-1]
        pose[:, 2] = 0.5 * math.pi - pose[:, 2]
        if is_steered:
            commands[:, 1] = -commands[:, 1]
    pose[~np.isfinite(pose).all(1)] = math.nan
    time = time - time[0]
    dropped = drop_jumps(time, pose, vessel)
    notes += [f"{dropped} positions that no boat can jump to are not used"] if dropped else []
    present = np.isfinite(pose[:, 0])
    notes += [f"{int((~present).sum())} of {len(pose)} rows have no pose"] if not present.all() else []
    pose[present, 2] = np.unwrap(pose[present, 2])
    is_in_newtons = command_names[0] in ("left", "thrust")
    doubts, offset = check_motion(time, commands, pose, vessel, is_in_newtons)
    return BoatLog(time, commands, pose, is_in_newtons, (*notes, *doubts), offset)


# Tables -----------------------------------------------------------------------------------------


def _read_table(text: str) -> tuple[list[str], Array]:
    """Return the names of a CSV text's columns, and a table [rows, columns] with NaN for missing and unused values."""
    lines = text.removeprefix("\ufeff").splitlines(keepends=True)
    stated = lines.pop(0).strip()[4:] if lines and lines[0].lower().startswith("sep=") else ""
    first = next((line for line in lines if line.strip()), "")
    delimiter = stated[:1] or next((mark for mark in ",;\t" if mark in first), ",")
    try:
        rows = [row for row in csv.reader(lines, delimiter=delimiter) if any(map(str.strip, row))]
    except csv.Error as error:
        raise ConfigError(f"cannot be read as a table ({error})") from error
    require(len(rows) > 0, "log", "nothing", "a table with the names of its columns in the first line")
    names = [name.strip().lower() for name in rows[0]]
    shown, example = ",".join(names)[:_MAX_SHOWN_LENGTH], "the names of the columns, such as time,left,right,x,y,yaw"
    require(not any(map(_is_number, names)), "first line", shown, example)
    twice = next((name for name in names if name and names.count(name) > 1), None)
    require(twice is None, "column", twice, "there once")
    require(len(rows) > _MIN_ROWS, "rows", len(rows) - 1, f"at least {_MIN_ROWS}")
    wrong = next((number for number, row in enumerate(rows[1:], 2) if len(row) != len(names)), None)
    if wrong is not None:
        commas = "; decimal commas need semicolons between the columns" if delimiter == "," else ""
        allowed = f"{len(names)}, as many as names of columns{commas}"
        require(False, f"line {wrong}: values", len(rows[wrong - 1]), allowed)
    all_groups = (_TIME_COLUMNS, _YAW_COLUMNS, _POSITION_COLUMNS, _THRUSTER_COLUMNS, _STEERED_COLUMNS)
    used = {name for groups in all_groups for group in groups for name in group}
    has_decimal_commas = delimiter != ","
    table = np.full((len(rows) - 1, len(names)), math.nan)
    for column, name in enumerate(names):
        if name in used:
            cells = [row[column].replace(",", ".") if has_decimal_commas else row[column] for row in rows[1:]]
            table[:, column] = [_parse_number(cell, name, line) for line, cell in enumerate(cells, 2)]
    return names, table


def _is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _parse_number(text: str, name: str, line: int) -> float:
    """Return the number in a cell, NaN for an empty one; the column's name and the line are for a message."""
    text = text.strip()
    if not text or text.lower() in ("nan", "na", "none", "null", "-"):
        return math.nan
    value, allowed = float(text) if _is_number(text) else math.inf, "a number, or empty where it is missing"
    require(math.isfinite(value), f"line {line}: {name}", text[:_MAX_SHOWN_LENGTH], allowed)
    return value


def _choose_columns(names: Sequence[str], groups: Sequence[tuple[str, ...]], what: str) -> tuple[str, ...]:
    """Return the first group of columns whose names all exist; raise a ConfigError on the quantity if there is none."""
    for group in groups:
        if set(group) <= set(names):
            return group
    missing = " and ".join(name for name in groups[0] if name not in names)
    allowed, there = ", or ".join(" and ".join(group) for group in groups), ", ".join(names)[:_MAX_SHOWN_LENGTH]
    raise ConfigError(f"{what} must be in the columns {allowed}; there is no column {missing}, but {there or 'none'}")


def _sort_by_time(time: Array, table: Array) -> tuple[Array, Array, list[str]]:
    """Return times [T] and their rows in the order of time, without repeated times, and sentences on repairs."""
    kept = np.isfinite(time)
    missing, most = int((~kept).sum()), _MAX_DISORDER_SHARE * len(time)
    require(missing <= most, "time", f"missing in {missing} of {len(time)} rows", "there in every row")
    time, table = time[kept], table[kept]
    steps = np.diff(time)
    back, typical = float(-steps.min(initial=0.0)), float(np.median(np.abs(steps)))
    require(typical > 0.0, "time", "the same in most rows", "later in every row")
    is_jitter, allowed = back <= max(_MAX_CLOCK_JITTER, 3.0 * typical), "in order: cut the log where its clock was set"
    require(is_jitter, "time", f"{back:.4g} s earlier in a row than before", allowed)
    disorder = int((steps <= 0.0).sum())
    require(disorder <= most, "time", f"not later than before in {disorder} rows", "later in every row")
    order = np.argsort(time, kind="stable")
    order = order[np.concatenate(([True], np.diff(time[order]) > 0.0))]
    notes = [f"{disorder} rows were out of order or repeated"] if disorder else []
    notes += [f"{missing} rows without a time are not used"] if missing else []
    return time[order], table[order], notes


# Quantities -------------------------------------------------------------------------------------


def _fill_missing(commands: Array, names: Sequence[str]) -> Array:
    """Return commands [T, 2] with missing values replaced by the one before, or at the start by the first one."""
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
    most, least = coefficient_value(vessel, "max_thrust"), -coefficient_value(vessel, "min_thrust")
    limits = np.where(commands < 0.0, max(least, 1e-9), most)
    if names[1] == "angle":
        limits[:, 1] = coefficient_value(vessel, "angle_limit")
    return np.clip(commands / limits, -1.0, 1.0)


def _to_local_plane(degrees: Array) -> Array:
    """Return positions [T, 2] north and east (m) of the first one present, from latitudes and longitudes (degrees)."""
    latitude, longitude = np.radians(degrees).T
    first = int(np.argmax(np.isfinite(degrees).all(1)))
    east = (longitude - longitude[first] + math.pi) % (2.0 * math.pi) - math.pi
    share = 1.0 - _SQUARED_ECCENTRICITY * math.sin(latitude[first]) ** 2
    north_radius = _EQUATOR_RADIUS * (1.0 - _SQUARED_ECCENTRICITY) / share**1.5
    east_radius = _EQUATOR_RADIUS / math.sqrt(share) * math.cos(latitude[first])
    return np.column_stack((north_radius * (latitude - latitude[first]), east_radius * east))
