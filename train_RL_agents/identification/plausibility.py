"""Refusals of logs: no log, other units or frames, motion of no boat; each is a rule and a sentence of one table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marinenav_env.config import VesselConfig
from marinenav_env.support.validation import ConfigError
from marinenav_env.vessels import top_speed
from train_RL_agents.identification.coefficients import coefficient_value

Array = NDArray[np.float64]
_MAX_SPEED = 50.0
"""Largest plausible speed (m/s)."""
_MAX_SPEED_RATIO = 2.0
"""Ratio of the measured speed to that of the preset under the same thrust above which it is questioned."""
_MAX_YAW_OFFSET = 8.0
"""Mean difference of yaw and course ahead above which the yaw is questioned (degrees)."""
_GRID_STEP, _RESPONSE_STEPS = 0.5, 2
"""Step of the time grid of the motion (s), and number of steps after which the yaw rate counts as the response."""
_SOME, _ANY = 1e-300, math.inf
# Name of a fact, its smallest and its largest value, and the sentence if the fact is not between them.
REFUSALS = (
    # The table of the file.
    ("lines", 1, _ANY, "there is nothing; must be a table with the names of its columns in the first line"),
    ("numbers_as_names", 0, 0, "first line: {shown}; must be the names of the columns: time,left,right,x,y,yaw"),
    ("missing_quantities", 0, 0, "not a log of such a boat: it lacks the columns {missing}; it has {shown}"),
    ("rows", 100, _ANY, "rows: {rows}; must be at least 100"),
    ("surplus", 0, 0, "line {line}: values: {count}; must be {wanted}, as many as names of columns{hint}"),
    ("repetitions", 1, 1, "column: {name}; must be there once"),
    ("is_number", 1, 1, "line {line}: {name}: {cell}; must be a number, or empty where it is missing"),
    ("without_time", 0, 0.05, "time: missing in {missing} of {rows_in_all} rows; must be there in every row"),
    ("typical_step", _SOME, _ANY, "time: the same in most rows; must be later in every row"),
    ("back_share", 0, 1, "time: {back:.4g} s earlier in a row; must be in order: cut the log where its clock was set"),
    ("disorder", 0, 0.05, "time: not later than before in {rows_in_disorder} rows; must be later in every row"),
    ("commands_present", 0.5, 1, "{name}: missing in {missing} of {rows_in_all} rows; must be there in half of them"),
    # Its columns.
    ("unit_factor", 1, 1, "time: {interval:.4g} apart; must be in seconds: it seems to be in {unit}"),
    ("length", 60, _ANY, "length: {length:.3g} s; must be at least 60 s: marinenav identify --plan proposes some"),
    ("length", 0, 7200, "length: {length:.4g} s; must be at most 7200 s"),
    ("interval", 0, 1, "time: {interval:.3g} s apart; must be at most 1 s apart"),
    ("change", _SOME, _ANY, "{names}: {first:g} and {second:g} in every row; must be commands that change"),
    ("share", 0, 1.001, "{name}: {low:.4g} to {high:.4g}; "
     "must be from -1 to 1 (divide percent by 100, and pulse widths by their range)"),
    ("beyond", -_ANY, 1e-9, "{name}: {low:.4g} to {high:.4g}; must be from {least:g} to {most:g} {unit}, the limits of "
     "{boat}; state its limits in a vessel file of your own, or name columns of shares {shares}"),
    ("thrust", 1.001, _ANY, "{name}: {low:.4g} to {high:.4g}; must be in newtons: name columns of shares {shares}"),
    ("present", 0.3, 1, "{name}: there in {present:.0%} of the rows; must be there in at least 30%"),
    ("range", _SOME, _ANY, "{name}: {value:g} in every row; must be measured: a sensor may be stuck"),
    ("farthest", 0, 1e9, "{position}: up to {farthest:.3g}; must be in meters"),
    ("together", 0.3, 1, "{position}, {yaw}: together in {together:.0%} of the rows; must be in at least 30%"),
    ("beyond_earth", -_ANY, 0, "latitude, longitude: up to {north:g}, {east:g}; must be degrees"),
    ("in_degrees", 0, 0, "yaw: up to {largest:.4g}; must be in radians: name the column yaw_deg for degrees"),
    ("turned_degrees", 7, _ANY, "yaw_deg: within {turned_degrees:.3g} degrees; "
     "must be in degrees: name the column yaw for radians"),
    # Its motion.
    ("speed_share", 0, 1, "speed: {speed:.3g} m/s in the median; "
     "must be plausible for {boat}, of at most {top:.3g} m/s: is it in meters and seconds?"),
    ("jumping", 0, 0.05, "position: jumping in {jumping:.0%} of the rows; must be that of one boat, in meters"),
    ("distance", 0, 1e5, "position: {distance:.4g} m away from the others; must be in meters, and of one place"),
    ("jump", 0, 0, "position: {jump:.3g} m in {span:.2g} s at {at:.0f} s; must be without jumps: cut the log there"),
    ("extent", 5, _ANY, "track: {extent:.2g} m across; must be at least 5 m: the boat does not move"),
    ("still", 0, 10, "pose: the same from {since:.0f} s to {until:.0f} s, under thrust; "
     "must be measured: a sensor may be stuck; cut the log there"),
    ("turned", 20, _ANY, "yaw: within {turned:.2g} degrees; must be of a boat that turns"),
    ("yaw_rate", 0, 6, "yaw: turning at {yaw_rate:.3g} rad/s; must be that of a boat: is it in radians?"),
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


def refuse(**facts: Any) -> None:
    """Raise a ConfigError with the sentence of the first refusal that applies to facts about a log."""
    for fact, low, high, sentence in REFUSALS:
        if fact in facts and not low <= facts[fact] <= high:
            raise ConfigError(sentence.format(**facts))


def command_limits(vessel: VesselConfig, name: str) -> tuple[float, float]:
    """Return the smallest and the largest value of a column of thrusts (N), or of the angle (rad)."""
    if name == "angle":
        return -coefficient_value(vessel, "angle_limit"), coefficient_value(vessel, "angle_limit")
    return coefficient_value(vessel, "min_thrust"), coefficient_value(vessel, "max_thrust")


def check_columns(
    time: Array,
    values: tuple[Array, Array, Array],
    names: tuple[Sequence[str], Sequence[str], str],
    vessel: VesselConfig,
) -> None:
    """Refuse columns that are mostly missing, constant, or in other units than their names state.

    Times [T] are in order (s); values and names are those of the commands [T, 2], of the positions [T, 2] and of the
    yaw [T] as in the log, the last two NaN where they are missing.
    """
    (commands, position, yaw), (command_names, position_names, yaw_name) = values, names
    interval, length = float(np.median(np.diff(time))), float(time[-1] - time[0])
    units = {1e3: "milliseconds", 1e6: "microseconds", 1e9: "nanoseconds"}
    factor = next((each for each in units if length > 7200.0 and 1e-3 < interval / each <= 1.0), 1)
    refuse(unit_factor=factor, unit=units.get(factor), interval=interval, length=length)
    _check_commands(commands, command_names, vessel)
    for name, column in zip((*position_names, yaw_name), (*position.T, yaw), strict=True):
        present = column[np.isfinite(column)]
        refuse(name=name, present=len(present) / len(column))
        refuse(name=name, range=float(np.ptp(present)), value=present[0])
    north, east = np.nanmax(np.abs(position), axis=0)
    together = float((np.isfinite(position).all(1) & np.isfinite(yaw)).mean())
    refuse(position=", ".join(position_names), yaw=yaw_name, farthest=max(north, east), together=together)
    if position_names[0] == "latitude":
        refuse(beyond_earth=max(north - 90.0, east - 360.0), north=north, east=east)
    finite = yaw[np.isfinite(yaw)]
    if yaw_name == "yaw":
        step, largest = np.abs(np.diff(finite)), float(np.abs(finite).max())
        # A wrap is a jump of a whole turn: in radians of 2 pi, in degrees of 360.
        refuse(in_degrees=largest > 7.0 and (np.quantile(step, 0.9) > 0.7 or step.max() > 300.0), largest=largest)
    else:
        refuse(turned_degrees=float(np.ptp(finite)))


def _check_commands(commands: Array, names: Sequence[str], vessel: VesselConfig) -> None:
    """Refuse commands [T, 2] that never change, or that are not shares or not within the limits of a boat."""
    first, second = commands[0]
    refuse(change=float(np.ptp(commands, axis=0).max()), names=" and ".join(names), first=first, second=second)
    for name, column in zip(names, commands.T, strict=True):
        facts = {"name": name, "low": column.min(), "high": column.max()}
        if name.endswith("_command"):
            refuse(share=float(np.abs(column).max()), **facts)
            continue
        (least, most), unit = command_limits(vessel, name), "rad" if name == "angle" else "N"
        facts |= {"boat": vessel.name, "shares": " and ".join(f"{each}_command" for each in names)}
        beyond = max(1.01 * least - facts["low"], facts["high"] - 1.01 * most)
        refuse(beyond=beyond, least=least, most=most, unit=unit, **facts)
        if name != "angle" and most > 20.0:
            refuse(thrust=float(np.abs(commands).max()), **facts)


def drop_jumps(time: Array, pose: Array, vessel: VesselConfig) -> int:
    """Set poses [T, 3] that the boat cannot have jumped to between times [T] to NaN, in place, and return how many.

    A log with too many of them, or of a boat that is too fast or too far away, is refused.
    """
    present = np.flatnonzero(np.isfinite(pose[:, 0]))
    points, times, top = pose[present, :2], time[present], top_speed(vessel)
    # Distance from the median of the neighbours, beyond what the boat can sail between them.
    fastest = min(_MAX_SPEED, 3.0 * top + 2.0)
    rows = np.clip(np.arange(len(points))[:, None] + np.array([-2, -1, 1, 2]), 0, len(points) - 1)
    near, span = np.median(points[rows], axis=1), np.abs(times[rows] - times[:, None]).max(1)
    far = np.linalg.norm(points - near, axis=1) > fastest * span + 3.0
    steps, spans = np.linalg.norm(np.diff(points, axis=0), axis=1), np.diff(times)
    speed = np.median(steps / np.maximum(spans, 1e-3))
    share = speed / np.clip(3.0 * top, 3.0, _MAX_SPEED)
    refuse(speed_share=share, speed=speed, boat=vessel.name, top=top, jumping=far.mean())
    points, times = points[~far], times[~far]
    steps, spans = np.linalg.norm(np.diff(points, axis=0), axis=1), np.diff(times)
    refuse(distance=np.linalg.norm(points - np.median(points, axis=0), axis=1).max())
    for row in np.flatnonzero(steps > fastest * spans + 3.0)[:1]:
        refuse(jump=steps[row], span=spans[row], at=times[row])
    pose[present[far]] = math.nan
    return int(far.sum())


def check_motion(
    time: Array, commands: Array, pose: Array, vessel: VesselConfig, is_in_newtons: bool
) -> tuple[list[str], float]:
    """Return doubts about a log, and the offset of its yaw (rad), if there is one; motion of no boat is refused.

    Commands [T, 2] at times [T] (s) are shares of the limits, poses [T, 3] are NaN where missing, yaw not wrapped;
    ``is_in_newtons`` is true if the log has thrusts (N).
    """
    present = np.isfinite(pose[:, 0])
    grid = np.arange(time[present][0], time[present][-1], _GRID_STEP)
    x, y, yaw = (_smooth(np.interp(grid, time[present], values)) for values in pose[present].T)
    held = commands[np.searchsorted(time, grid, side="right") - 1]
    north, east, turn = (np.gradient(values, _GRID_STEP) for values in (x, y, yaw))
    speed, is_steered = np.hypot(north, east), vessel.actuators.steering != "thrusters"
    refuse(extent=math.hypot(np.ptp(x), np.ptp(y)))
    since, until = _longest_standstill(time[present], commands[present], pose[present])
    refuse(still=until - since, since=since, until=until)
    refuse(turned=math.degrees(np.ptp(yaw)), yaw_rate=float(np.quantile(np.abs(turn), 0.95)))
    doubts, offset, ahead = [], 0.0, held[:, 0] if is_steered else held.mean(1)
    moving = (_smooth(ahead) > 0.1) & (speed > max(0.3, 0.3 * float(np.quantile(speed, 0.9))))
    if moving.sum() >= 40:
        course = np.arctan2(east, north)[moving]
        along, mirrored = (complex(np.exp(1j * (course + sign * yaw[moving])).mean()) for sign in (-1, 1))
        degrees = math.degrees(np.angle(along))
        is_mirrored = abs(mirrored) > 0.8 > abs(along) + 0.1
        refuse(mirrored=is_mirrored, along=abs(along), offset=degrees)
        if abs(degrees) > _MAX_YAW_OFFSET:
            offset = -math.radians(degrees)
            cause = "a constant offset of the compass or its mounting is fitted, other causes are not"
            doubts.append(f"doubtful: the yaw is {-degrees:.0f} degrees off the course on average: {cause}")
    if is_steered:
        # A positive angle pushes the hull to starboard, at the stern if no other position is stated.
        refuse(
            angle_follows=_correlation(np.sign(coefficient_value(vessel, "position")) * held[:, 0] * held[:, 1], turn)
        )
    else:
        refuse(follows=_correlation(held[:, 0] - held[:, 1], turn))
    # Between linear and quadratic damping, of which the latter allows more.
    expected = top_speed(vessel) * math.sqrt(max(float(np.quantile(ahead, 0.95)), 0.0))
    fast = float(np.quantile(speed, 0.95))
    if is_in_newtons and fast > _MAX_SPEED_RATIO * max(expected, 0.1):
        text = f"the boat sails at {fast:.2g} m/s, {vessel.name} would at {expected:.2g} m/s under these thrusts"
        doubts.append(f"doubtful: {text}: are positions in meters and thrusts in newtons?")
    return doubts, offset


def _longest_standstill(time: Array, commands: Array, pose: Array) -> tuple[float, float]:
    """Return the ends (s) of the longest time for which measured poses [T, 3] stay the same under thrust."""
    is_still = (np.diff(pose, axis=0) == 0.0).all(1) & (np.abs(commands[:-1, 0]) > 0.1)
    until = time[1:] - time[0]
    since = np.maximum.accumulate(np.where(is_still, 0.0, until))
    longest = int(np.argmax(until - since))
    return float(since[longest]), float(until[longest])


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


def _smooth(values: Array) -> Array:
    """Return the moving average of values [N] over three neighbours, with the end values repeated."""
    padded = np.concatenate((values[:1], values, values[-1:]))
    return np.asarray((padded[:-2] + padded[1:-1] + padded[2:]) / 3.0)
