"""Logs of a boat: commands and poses over time, from a CSV file; others are refused with the likely cause."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

from marinenav_env.config import VesselConfig
from marinenav_env.support.files import read_text
from marinenav_env.support.validation import ConfigError
from marinenav_env.vessels import top_speed
from marinenav_env.waters.projection import LocalPlane
from train_RL_agents.identification.coefficients import Array, coefficient_value

_TIME, _YAW = (("time",),), (("yaw",), ("yaw_deg",))
_POSITION = (("x", "y"), ("north", "east"), ("latitude", "longitude"))
_THRUSTS = (("left", "right"), ("left_command", "right_command"))
_STEERED_THRUST = (("thrust", "angle"), ("thrust_command", "angle_command"))
"""Groups of names of columns, any of which gives a quantity."""
_MAX_SHOWN_LENGTH = 60
_MAX_SPEED = 50.0
"""Largest plausible speed (m/s)."""
_MAX_YAW_OFFSET = 8.0
"""Mean difference of yaw and course ahead above which the yaw is questioned (degrees)."""
_MAX_SPEED_RATIO = 2.0
"""Ratio of the measured speed to that of the preset under the same thrust above which it is questioned."""
_GRID_STEP, _RESPONSE_STEPS = 0.5, 2
"""Step of the time grid of the motion (s), and number of steps after which the yaw rate counts as the response."""
_smooth = partial(uniform_filter1d, size=3, mode="nearest")
"""Moving average of values [..., N] over three neighbours, with the end values repeated."""
_SOME, _ANY = 1e-300, math.inf
# Name of a fact, its smallest and its largest value, and the sentence if the fact is not between them.
REFUSALS = (
    # The table of the file.
    ("lines", 1, _ANY, "there is nothing; must be a table with the names of its columns in the first line"),
    ("missing_quantities", 0, 0, "not a log of such a boat: it lacks the columns {missing}; it has {shown}"),
    ("rows", 100, _ANY, "rows: {rows}; must be at least 100"),
    ("wrong_line", 0, 0, "line {line}: values: {count}; must be {wanted}, as many as names of columns{hint}"),
    ("disorder", 0, 0.05, "time: missing or not later than before in {rows_in_disorder} of {rows_in_all} rows; "
     "must be later in every row"),
    ("commands_present", 0.5, 1, "{name}: missing in {missing} of {rows_in_all} rows; must be there in half of them"),
    # Its columns.
    ("length", 60, _ANY, "length: {length:.3g} s; must be at least 60 s: marinenav identify --plan proposes some"),
    ("length", 0, 7200, "length: {length:.4g} s; must be at most 7200 s: is it in seconds?"),
    ("interval", 0, 1, "time: {interval:.3g} s apart; must be at most 1 s apart: is it in seconds?"),
    ("change", _SOME, _ANY, "{names}: {first:g} and {second:g} in every row; must be commands that change"),
    ("beyond", -_ANY, 1e-9, "{name}: {low:.4g} to {high:.4g}; must be from {least:g} to {most:g}{unit}: shares "
     "are from -1 to 1, others within the limits of {boat}, as a vessel file states them; of shares are {shares}"),
    ("thrust", 1.001, _ANY, "{name}: {low:.4g} to {high:.4g}; must be in newtons: name columns of shares {shares}"),
    ("range", _SOME, _ANY, "{name}: {value:g} in every row; must be measured: a sensor may be stuck"),
    ("together", 0.3, 1, "{position}, {yaw}: together in {together:.0%} of the rows; must be in at least 30%"),
    ("farthest", 0, 1e9, "{position}: up to {farthest:.3g}; must be in meters"),
    # Its motion.
    ("jumping", 0, 0.05, "position: jumping in {jumping:.0%} of the rows; "
     "must be that of one boat, of at most {fastest:.2g} m/s: is it in meters and seconds?"),
    ("jump", 0, 0, "position: {jump:.3g} m in {span:.2g} s at {at:.0f} s; must be without jumps: cut the log there"),
    ("extent", 5, _ANY, "track: {extent:.2g} m across; must be at least 5 m: the boat does not move"),
    ("turned", 20, _ANY, "yaw: within {turned:.2g} degrees; "
     "must be of a boat that turns: is it in radians, or yaw_deg in degrees?"),
    ("yaw_rate", 0, 6, "yaw: turning at {yaw_rate:.3g} rad/s; "
     "must be that of a boat: is it in radians, or yaw_deg in degrees?"),
    ("mirrored", 0, 0, "yaw: turning against the course; "
     "must be clockwise from north as the course is: is it --frame enu, or are x and y exchanged?"),
    ("along", 0.4, 1, "yaw: not along the course of a boat that moves ahead; "
     "must be that of the bow, in the unit of its column"),
    ("offset", -60, 60, "yaw: {offset:.0f} degrees off the course; must be along the course on average when it moves "
     "ahead: is it the yaw of the bow, clockwise from north (--frame ned)?"),
    ("angle_follows", -0.2, 1, "yaw: against the angle (correlation {angle_follows:.2f}); must be turning as the angle "
     "pushes the stern: is it clockwise from above, or with --frame enu anticlockwise?"),
    ("follows", -0.2, 1, "yaw: against the thrusts (correlation {follows:.2f}); must be turning to starboard with more "
     "thrust at the left: are the sides exchanged, or is it --frame enu?"),
)  # fmt: skip


def _refuse(**facts: Any) -> None:
    """Raise a ConfigError with the sentence of the first refusal that applies to facts about a log."""
    for fact, low, high, sentence in REFUSALS:
        if fact in facts and not low <= facts[fact] <= high:
            raise ConfigError(sentence.format(**facts))


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
    order, notes = _increasing_rows(columns[0][1][:, 0])
    (_, time), (command_names, commands), (position_names, position), (yaw_names, yaw) = (
        (names, values[order]) for names, values in columns
    )
    time, yaw = time[:, 0], yaw[:, 0]
    _refuse(length=float(time[-1] - time[0]), interval=float(np.median(np.diff(time))))
    commands = _to_shares(commands, command_names, vessel)
    _check_poses(position, yaw, position_names, yaw_names[0])
    if position_names[0] == "latitude":
        first = int(np.argmax(np.isfinite(position).all(1)))
        position = LocalPlane(*position[first]).to_metres(position[:, ::-1])
    pose = np.column_stack((position, np.radians(yaw) if yaw_names[0] == "yaw_deg" else yaw))
    if frame == "enu":
        if position_names[0] == "x":
            pose[:, :2] = pose[:, 1::-1]
        pose[:, 2] = 0.5 * math.pi - pose[:, 2]
        if is_steered:
            commands[:, 1] = -commands[:, 1]
    pose[~np.isfinite(pose).all(1)] = math.nan
    time = time - time[0]
    dropped = _drop_jumps(time, pose, vessel)
    notes += [f"{dropped} positions that no boat can jump to are not used"] if dropped else []
    present = np.isfinite(pose[:, 0])
    notes += [f"{int((~present).sum())} of {len(pose)} rows have no pose"] if not present.all() else []
    pose[present, 2] = np.unwrap(pose[present, 2])
    is_in_newtons = command_names[0] in ("left", "thrust")
    return _check_motion(BoatLog(time, commands, pose, is_in_newtons, tuple(notes)), vessel)


# Tables -----------------------------------------------------------------------------------------


def _read_columns(text: str, quantities: Sequence[Sequence[tuple[str, ...]]]) -> list[tuple[tuple[str, ...], Array]]:
    """Return, for each quantity, the names of its columns in a CSV text, and their values [T, N], NaN if missing."""
    lines = [line for line in text.removeprefix("\ufeff").replace('"', "").splitlines() if line.strip(" ,;\t")]
    lines = lines[1:] if lines and lines[0].lower().startswith("sep=") else lines
    _refuse(lines=len(lines))
    delimiter = max(",;\t", key=lines[0].count)
    names = [name.strip().lower() for name in lines[0].split(delimiter)]
    chosen = [next((group for group in groups if {*group} <= {*names}), None) for groups in quantities]
    lacking = [groups for groups, group in zip(quantities, chosen, strict=True) if group is None]
    missing = "; ".join(", or ".join(" and ".join(group) for group in groups) for groups in lacking)
    shown = ", ".join(names)[:_MAX_SHOWN_LENGTH]
    _refuse(missing_quantities=len(lacking), missing=missing, shown=shown, rows=len(lines) - 1)
    counts = [line.count(delimiter) + 1 for line in lines]
    line = next((number for number, count in enumerate(counts) if count != len(names)), 0)
    hint = "; decimal commas need semicolons between the columns" if delimiter == "," else ""
    _refuse(wrong_line=line, line=line + 1, count=counts[line], wanted=len(names), hint=hint)
    numbers = lines[1:] if delimiter == "," else [line.replace(",", ".") for line in lines[1:]]
    options: Any = {"delimiter": delimiter, "comments": None, "ndmin": 2}  # None is allowed, but not typed
    table = np.genfromtxt(numbers, **options)  # what is no number is missing
    table[np.isinf(table)] = math.nan
    return [(group, table[:, [names.index(name) for name in group]]) for group in filter(None, chosen)]


def _increasing_rows(time: Array) -> tuple[NDArray[np.intp], list[str]]:
    """Return the indices of the rows with times later than all before, and a sentence if there are others."""
    before = np.fmax.accumulate(np.append(-math.inf, time[:-1]))
    rows = np.flatnonzero(time > before)
    dropped = len(time) - len(rows)
    _refuse(disorder=dropped / len(time), rows_in_disorder=dropped, rows_in_all=len(time))
    return rows, [f"{dropped} rows without a later time are not used"] if dropped else []


# Plausibility -----------------------------------------------------------------------------------


def _to_shares(commands: Array, names: Sequence[str], vessel: VesselConfig) -> Array:
    """Return commands [T, 2] as shares of a boat's limits; those that do not change or are beyond them are refused.

    Missing ones are replaced by the one before, or at the start by the first one.
    """
    for name, missing in zip(names, np.isnan(commands).T, strict=True):
        _refuse(commands_present=1.0 - missing.mean(), name=name, missing=missing.sum(), rows_in_all=len(missing))
    held = np.where(np.isnan(commands), np.argmin(np.isnan(commands), 0), np.arange(len(commands))[:, None])
    commands = np.take_along_axis(commands, np.maximum.accumulate(held), 0)
    first, second = commands[0]
    _refuse(change=float(np.ptp(commands, axis=0).max()), names=" and ".join(names), first=first, second=second)
    angle, least, most = (coefficient_value(vessel, name) for name in ("angle_limit", "min_thrust", "max_thrust"))
    # Others are shares.
    limits = dict.fromkeys(("left", "right", "thrust"), (least, most, " N")) | {"angle": (-angle, angle, " rad")}
    others = " and ".join(f"{name.removesuffix('_command')}_command" for name in names)
    for name, column in zip(names, commands.T, strict=True):
        least, most, unit = limits.get(name, (-1.0, 1.0, ""))
        facts = {"name": name, "low": column.min(), "high": column.max(), "shares": others}
        beyond = max(1.01 * least - facts["low"], facts["high"] - 1.01 * most)
        _refuse(beyond=beyond, least=least, most=most, unit=unit, boat=vessel.name, **facts)
        if unit == " N" and most > 20.0:
            _refuse(thrust=float(np.abs(column).max()), **facts)
        column[:] = np.clip(column / np.where(column < 0.0, max(-least, 1e-9), most), -1.0, 1.0)
    return commands


def _check_poses(position: Array, yaw: Array, names: Sequence[str], yaw_name: str) -> None:
    """Refuse positions [T, 2] and yaws [T], NaN where missing, that are mostly missing, constant or in other units."""
    together = (np.isfinite(position).all(1) & np.isfinite(yaw)).mean()
    farthest = np.abs(np.nan_to_num(position)).max()
    _refuse(position=", ".join(names), yaw=yaw_name, together=together, farthest=farthest)
    for name, column in zip((*names, yaw_name), (*position.T, yaw), strict=True):
        present = column[np.isfinite(column)]
        _refuse(name=name, range=float(np.ptp(present)), value=present[0])


def _drop_jumps(time: Array, pose: Array, vessel: VesselConfig) -> int:
    """Set poses [T, 3] that the boat cannot have jumped to between times [T] to NaN, in place, and return how many."""
    present = np.flatnonzero(np.isfinite(pose[:, 0]))
    points, times = pose[present, :2], time[present]
    # Distance from the median of the neighbours, beyond what the boat can sail between them.
    fastest = min(_MAX_SPEED, 3.0 * top_speed(vessel) + 2.0)
    rows = np.clip(np.arange(len(points))[:, None] + np.array([-2, -1, 1, 2]), 0, len(points) - 1)
    near, span = np.median(points[rows], axis=1), np.abs(times[rows] - times[:, None]).max(1)
    far = np.linalg.norm(points - near, axis=1) > fastest * span + 3.0
    _refuse(jumping=far.mean(), fastest=fastest)
    points, times = points[~far], times[~far]
    steps, spans = np.linalg.norm(np.diff(points, axis=0), axis=1), np.diff(times)
    for row in np.flatnonzero(steps > fastest * spans + 3.0)[:1]:
        _refuse(jump=steps[row], span=spans[row], at=times[row])
    pose[present[far]] = math.nan
    return int(far.sum())


def _check_motion(log: BoatLog, vessel: VesselConfig) -> BoatLog:
    """Return a log with doubts about its motion in its notes, and a doubtful offset; motion of no boat is refused."""
    grid, (x, y, yaw, north, east, turn) = smoothed_motion(log)
    held = log.commands[np.searchsorted(log.time, grid, side="right") - 1]
    speed, is_steered = np.hypot(north, east), vessel.actuators.steering != "thrusters"
    _refuse(extent=math.hypot(np.ptp(x), np.ptp(y)))
    _refuse(turned=math.degrees(np.ptp(yaw)), yaw_rate=float(np.quantile(np.abs(turn), 0.95)))
    ahead = held[:, 0] if is_steered else held.mean(1)
    moving = (_smooth(ahead) > 0.1) & (speed > max(0.3, 0.3 * float(np.quantile(speed, 0.9))))
    if moving.sum() >= 40:
        course = np.arctan2(east, north)[moving]
        along, mirrored = (complex(np.exp(1j * (course + sign * yaw[moving])).mean()) for sign in (-1, 1))
        degrees = math.degrees(np.angle(along))
        is_mirrored = abs(mirrored) > 0.8 > abs(along) + 0.1
        _refuse(mirrored=is_mirrored, along=abs(along), offset=degrees)
        if abs(degrees) > _MAX_YAW_OFFSET:
            cause = "a constant offset of the compass or its mounting is fitted, other causes are not"
            doubt = f"doubtful: the yaw is {-degrees:.0f} degrees off the course on average: {cause}"
            log = replace(log, notes=(*log.notes, doubt), yaw_offset=-math.radians(degrees))
    # Between linear and quadratic damping, of which the latter allows more.
    expected = top_speed(vessel) * math.sqrt(max(float(np.quantile(ahead, 0.95)), 0.0))
    fast = float(np.quantile(speed, 0.95))
    if log.is_in_newtons and fast > _MAX_SPEED_RATIO * max(expected, 0.1):
        text = f"the boat sails at {fast:.2g} m/s, {vessel.name} would at {expected:.2g} m/s under these thrusts"
        doubt = f"doubtful: {text}: are positions in meters and thrusts in newtons?"
        log = replace(log, notes=(*log.notes, doubt))
    # A positive angle pushes the hull to starboard, at the stern if no other position is stated.
    stern = np.sign(coefficient_value(vessel, "position"))
    turning = stern * held[:, 0] * held[:, 1] if is_steered else held[:, 0] - held[:, 1]
    _refuse(**{"angle_follows" if is_steered else "follows": _correlation(turning, turn)})
    return log


def _correlation(turning: Array, turn: Array) -> float:
    """Return the correlation of the turning effect [N] of commands with yaw rates [N], or with the response to it.

    The larger one counts: commands that keep a course are against a yaw rate due to waves. The response is the yaw rate
    _RESPONSE_STEPS later after its linear dependence on the yaw rate at the time of the commands is removed. It is 1 if
    the boat hardly turns.
    """
    turning, turn = _smooth(_smooth(turning)), _smooth(turn)
    if not (float(turning.std()) > 0.02 and float(turn.std()) > 0.01):
        return 1.0
    parts = turning[:-_RESPONSE_STEPS], turn[:-_RESPONSE_STEPS], turn[_RESPONSE_STEPS:]
    at_once, delayed, own = np.asarray(np.corrcoef(parts))[np.triu_indices(3, 1)]
    spread = math.sqrt(max((1.0 - at_once**2) * (1.0 - own**2), 1e-12))
    return float(min(max(at_once, (delayed - at_once * own) / spread), 1.0))


def smoothed_motion(log: BoatLog) -> tuple[Array, Array]:
    """Return times on a grid (s), and the smoothed x, y (m) and yaw (rad) there with their derivatives [6, N]."""
    present = np.isfinite(log.pose[:, 0])
    time, poses = log.time[present], log.pose[present]
    grid = np.arange(time[0], time[-1], _GRID_STEP)
    smooth = _smooth(np.array([np.interp(grid, time, values) for values in poses.T]))
    return grid, np.vstack((smooth, np.gradient(smooth, _GRID_STEP, axis=1)))
