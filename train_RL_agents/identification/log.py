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
from marinenav_env.support.validation import ConfigError
from train_RL_agents.identification.plausibility import (
    check_columns,
    check_motion,
    command_limits,
    drop_jumps,
    refuse,
)

Array = NDArray[np.float64]
Groups = Sequence[tuple[str, ...]]
"""Groups of names of columns, any of which gives a quantity."""
_TIME, _YAW = (("time",),), (("yaw",), ("yaw_deg",))
_POSITION = (("x", "y"), ("north", "east"), ("latitude", "longitude"))
_THRUSTS = (("left", "right"), ("left_command", "right_command"))
_STEERED_THRUST = (("thrust", "angle"), ("thrust_command", "angle_command"))
_MAX_SHOWN_LENGTH = 60
_MAX_CLOCK_JITTER = 2.0
"""Largest jump of the clock backwards that counts as jitter (s)."""
_EQUATOR_RADIUS, _SQUARED_ECCENTRICITY = 6_378_137.0, 6.694_379_990_14e-3
"""Radius of the earth at the equator (m), and squared eccentricity of its meridians (1), both of WGS 84."""


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
    """Read the log of a boat from a CSV file with the columns that docs/boats.md lists, in any order.

    Commands are shares of the limits of ``vessel``. ``frame`` is ``ned``: x north, y east, yaw clockwise from north; or
    ``enu``: x east, y north, yaw anticlockwise from east. The angle of a thruster or rudder has the sense of the yaw.
    """
    try:
        return _parse_log(read_text(path, "a log"), vessel, frame)
    except ConfigError as error:
        text = str(error)
        raise ConfigError(text if text.startswith(str(path)) else f"{path}: {text}") from error


def _parse_log(text: str, vessel: VesselConfig, frame: str) -> BoatLog:
    """Return the log that the text of a CSV file contains."""
    is_steered = vessel.actuators.steering != "thrusters"
    columns = _read_columns(text, (_TIME, _STEERED_THRUST if is_steered else _THRUSTS, _POSITION, _YAW))
    order, notes = _order_by_time(columns[0][1][:, 0])
    (_, time), (command_names, commands), (position_names, position), (yaw_names, yaw) = (
        (names, values[order]) for names, values in columns
    )
    time, yaw, commands = time[:, 0], yaw[:, 0], _fill_missing(commands, command_names)
    check_columns(time, (commands, position, yaw), (command_names, position_names, yaw_names[0]), vessel)
    commands = _to_shares(commands, command_names, vessel)
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


def _read_columns(text: str, quantities: Sequence[Groups]) -> list[tuple[tuple[str, ...], Array]]:
    """Return, for each quantity, the names of its columns in a CSV text, and their values [T, N], NaN if missing."""
    lines = text.removeprefix("\ufeff").splitlines(keepends=True)
    stated = lines.pop(0).strip()[4:] if lines and lines[0].lower().startswith("sep=") else ""
    first = next((line for line in lines if line.strip()), "")
    delimiter = stated[:1] or next((mark for mark in ",;\t" if mark in first), ",")
    try:
        rows = [row for row in csv.reader(lines, delimiter=delimiter) if any(map(str.strip, row))]
    except csv.Error as error:
        raise ConfigError(f"cannot be read as a table ({error})") from error
    refuse(lines=len(rows))
    names = [name.strip().lower() for name in rows[0]]
    shown = ", ".join(names)[:_MAX_SHOWN_LENGTH]
    refuse(numbers_as_names=sum(math.isfinite(_parse_number(name)) for name in names), shown=shown)
    chosen = [next((group for group in groups if {*group} <= {*names}), None) for groups in quantities]
    lacking = [groups for groups, group in zip(quantities, chosen, strict=True) if group is None]
    missing = "; ".join(", or ".join(" and ".join(group) for group in groups) for groups in lacking)
    refuse(missing_quantities=len(lacking), missing=missing, shown=shown)
    rows, found = rows[1:], []
    line = next((number for number, row in enumerate(rows) if len(row) != len(names)), 0)
    refuse(rows=len(rows))
    hint = "; decimal commas need semicolons between the columns" if delimiter == "," else ""
    refuse(
        surplus=abs(len(rows[line]) - len(names)), line=line + 2, count=len(rows[line]), wanted=len(names), hint=hint
    )
    for group in filter(None, chosen):
        places = [names.index(name) for name in group]
        refuse(repetitions=max(map(names.count, group)), name=max(group, key=names.count))
        cells = [[row[place] for place in places] for row in rows]
        if delimiter != ",":
            cells = [[cell.replace(",", ".") for cell in row] for row in cells]
        values = np.array([[*map(_parse_number, row)] for row in cells])
        for line, column in np.argwhere(np.isinf(values))[:1]:
            cell = cells[line][column].strip()[:_MAX_SHOWN_LENGTH]
            refuse(is_number=0, line=line + 2, name=group[column], cell=cell)
        found.append((group, values))
    return found


def _parse_number(text: str) -> float:
    """Return the number in a cell, NaN for an empty one, and infinity for a cell that is no number."""
    text = text.strip()
    if text.lower() in ("", "nan", "na", "none", "null", "-"):
        return math.nan
    try:
        return float(text)
    except ValueError:
        return math.inf


def _order_by_time(time: Array) -> tuple[NDArray[np.intp], list[str]]:
    """Return the indices of the rows in the order of their times, without repeated ones, and sentences on repairs."""
    order = np.flatnonzero(np.isfinite(time))
    missing = len(time) - len(order)
    refuse(without_time=missing / len(time), missing=missing, rows_in_all=len(time))
    steps = np.diff(time[order])
    back, typical, disorder = -steps.min(initial=0.0), np.median(np.abs(steps)), int((steps <= 0.0).sum())
    refuse(typical_step=typical)
    refuse(back_share=back / max(_MAX_CLOCK_JITTER, 3.0 * typical), back=back)
    refuse(disorder=disorder / len(time), rows_in_disorder=disorder)
    order = order[np.argsort(time[order], kind="stable")]
    notes = [f"{disorder} rows were out of order or repeated"] if disorder else []
    notes += [f"{missing} rows without a time are not used"] if missing else []
    return order[np.diff(time[order], prepend=-math.inf) > 0.0], notes


# Quantities -------------------------------------------------------------------------------------


def _fill_missing(commands: Array, names: Sequence[str]) -> Array:
    """Return commands [T, 2] with missing values replaced by the one before, or at the start by the first one."""
    held = commands.copy()
    for name, side in zip(names, held.T, strict=True):
        present = np.isfinite(side)
        refuse(commands_present=present.mean(), name=name, missing=int((~present).sum()), rows_in_all=len(side))
        last = np.maximum.accumulate(np.where(present, np.arange(len(side)), -1))
        side[:] = side[np.where(last < 0, int(np.argmax(present)), last)]
    return held


def _to_shares(commands: Array, names: Sequence[str], vessel: VesselConfig) -> Array:
    """Return commands [T, 2] as shares of the limits of a boat, clipped to [-1, 1]."""
    if names[0].endswith("_command"):
        return np.clip(commands, -1.0, 1.0)
    least, most = np.transpose([command_limits(vessel, name) for name in names])
    return np.clip(commands / np.where(commands < 0.0, np.maximum(-least, 1e-9), most), -1.0, 1.0)


def _to_local_plane(degrees: Array) -> Array:
    """Return positions [T, 2] north and east (m) of the first one present, from latitudes and longitudes (degrees)."""
    latitude, longitude = np.radians(degrees).T
    first = int(np.argmax(np.isfinite(degrees).all(1)))
    east = (longitude - longitude[first] + math.pi) % (2.0 * math.pi) - math.pi
    share = 1.0 - _SQUARED_ECCENTRICITY * math.sin(latitude[first]) ** 2
    north_radius = _EQUATOR_RADIUS * (1.0 - _SQUARED_ECCENTRICITY) / share**1.5
    east_radius = _EQUATOR_RADIUS / math.sqrt(share) * math.cos(latitude[first])
    return np.column_stack((north_radius * (latitude - latitude[first]), east_radius * east))
