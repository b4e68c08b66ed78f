"""Refusals of logs: units, frames and motion that no boat has, each in one sentence with the likely cause."""

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
Facts = dict[str, Any]
"""Numbers and texts about a log by name, which _REFUSALS checks and puts into its sentences."""
_MAX_SPEED = 50.0
"""Largest plausible speed (m/s)."""
_MAX_SPEED_RATIO = 2.0
"""Ratio of the measured speed to that of the preset under the same thrust above which it is questioned."""
_MAX_YAW_OFFSET = 8.0
"""Mean difference of yaw and course ahead above which the yaw is questioned (degrees)."""
_GRID_STEP, _RESPONSE_STEPS = 0.5, 2
"""Step of the time grid of the motion (s), and number of steps after which the yaw rate counts as the response."""
_SOME, _ANY = 1e-300, math.inf
# Name of a fact, its smallest and largest value; what is refused otherwise, what it is, and what it must be.
_REFUSALS = (
    ("unit_factor", 1, 1, "time", "{interval:.4g} apart", "in seconds: it seems to be in {unit}"),
    ("length", 60, _ANY, "length", "{length:.3g} s", "at least 60 s; marinenav identify --plan proposes manoeuvres"),
    ("length", 0, 7200, "length", "{length:.4g} s", "at most 7200 s"),
    ("interval", 0, 1, "time", "{interval:.3g} s apart", "at most 1 s apart"),
    ("change", _SOME, _ANY, "{names}", "{first:g} and {second:g} in every row", "commands that change"),
    ("share", 0, 1.001, "{name}", "{low:.4g} to {high:.4g}",
     "from -1 to 1 (divide percent by 100, and pulse widths by their range)"),
    ("beyond", -_ANY, 1e-9, "{name}", "{low:.4g} to {high:.4g}",
     "from {least:g} to {most:g} {unit}, the limits of {boat}; state its limits in a vessel file of your own, or "
     "{of_shares}"),
    ("thrust", 1.001, _ANY, "{name}", "{low:.4g} to {high:.4g}", "in newtons: {of_shares}"),
    ("present", 0.3, 1, "{name}", "there in {present:.0%} of the rows", "there in at least 30%"),
    ("range", _SOME, _ANY, "{name}", "{value:g} in every row", "measured: a sensor may be stuck"),
    ("farthest", 0, 1e9, "{position}", "up to {farthest:.3g}", "in meters"),
    ("together", 0.3, 1, "{position}, {yaw}", "together in {together:.0%} of the rows", "in at least 30%"),
    ("beyond_earth", -_ANY, 0, "latitude, longitude", "up to {north:g}, {east:g}", "degrees"),
    ("in_degrees", 0, 0, "yaw", "up to {largest:.4g}", "in radians: name the column yaw_deg for degrees"),
    ("turned_degrees", 7, _ANY, "yaw_deg", "within {turned_degrees:.3g} degrees",
     "in degrees: name the column yaw for radians"),
    ("speed_share", 0, 1, "speed", "{speed:.3g} m/s in the median",
     "plausible for {boat}, of at most {top:.3g} m/s: is it in meters and seconds?"),
    ("jumping", 0, 0.05, "position", "jumping in {jumping:.0%} of the rows", "that of one boat, in meters"),
    ("distance", 0, 1e5, "position", "{distance:.4g} m away from the others", "in meters, and of one place"),
    ("jump", 0, 0, "position", "{jump:.3g} m in {span:.2g} s at {at:.0f} s", "without jumps: cut the log there"),
    ("extent", 5, _ANY, "track", "{extent:.2g} m across", "at least 5 m: the boat does not move"),
    ("still", 0, 10, "pose", "the same from {since:.0f} s to {until:.0f} s, under thrust",
     "measured: a sensor may be stuck; cut the log there"),
    ("turned", 20, _ANY, "yaw", "within {turned:.2g} degrees", "of a boat that turns"),
    ("yaw_rate", 0, 6, "yaw", "turning at {yaw_rate:.3g} rad/s", "that of a boat: is it in radians?"),
    ("mirrored", 0, 0, "yaw", "turning against the course",
     "clockwise from north as the course is: is it --frame enu, or are x and y exchanged?"),
    ("along", 0.4, 1, "yaw", "not along the course of a boat that moves ahead",
     "that of the bow, in the unit of its column"),
    ("offset", -60, 60, "yaw", "{offset:.0f} degrees off the course",
     "along the course on average when it moves ahead: is it the yaw of the bow, clockwise from north (--frame ned)?"),
    ("follows", -0.2, 1, "yaw", "against the {turner} (correlation {follows:.2f})", "turning {cause}"),
)  # fmt: skip


def refuse(facts: Facts) -> None:
    """Raise a ConfigError with the sentence of the first refusal that applies to the facts."""
    for fact, low, high, key, value, allowed in _REFUSALS:
        if fact in facts and not low <= facts[fact] <= high:
            raise ConfigError(f"{key}: {value}; must be {allowed}".format(**facts))


def check_columns(
    time: Array,
    values: tuple[Array, Array, Array],
    names: tuple[Sequence[str], Sequence[str], str],
    vessel: VesselConfig,
) -> None:
    """Refuse columns that are mostly missing, constant, or in other units than their names state.

    Args:
        time: [T] times (s), in order.
        values: commands [T, 2], positions [T, 2] and yaw [T] as in the log, the last two NaN where they are missing.
        names: names of their columns.
        vessel: boat with limits of thrust.
    """
    (commands, position, yaw), (command_names, position_names, yaw_name) = values, names
    refuse(_time_facts(time))
    change, (first, second) = float(np.ptp(commands, axis=0).max()), commands[0]
    refuse({"change": change, "names": " and ".join(command_names), "first": first, "second": second})
    for name, column in zip(command_names, commands.T, strict=True):
        refuse(_command_facts(name, column, command_names, float(np.abs(commands).max()), vessel))
    for name, column in zip((*position_names, yaw_name), (*position.T, yaw), strict=True):
        present = column[np.isfinite(column)]
        refuse({"name": name, "present": len(present) / len(column)})
        refuse({"name": name, "range": float(np.ptp(present)), "value": present[0]})
    north, east = np.nanmax(np.abs(position), axis=0)
    finite = yaw[np.isfinite(yaw)]
    facts: Facts = {"position": ", ".join(position_names), "yaw": yaw_name, "north": north, "east": east}
    facts["farthest"] = max(north, east)
    facts["together"] = float((np.isfinite(position).all(1) & np.isfinite(yaw)).mean())
    if position_names[0] == "latitude":
        facts["beyond_earth"] = max(north - 90.0, east - 360.0)
    if yaw_name == "yaw":
        step, facts["largest"] = np.abs(np.diff(finite)), float(np.abs(finite).max())
        # A wrap is a jump of a whole turn: in radians of 2 pi, in degrees of 360.
        facts["in_degrees"] = int(facts["largest"] > 7.0 and (np.quantile(step, 0.9) > 0.7 or step.max() > 300.0))
    else:
        facts["turned_degrees"] = float(np.ptp(finite))
    refuse(facts)


def _time_facts(time: Array) -> Facts:
    """Return facts about the times [T] of a log (s)."""
    facts: Facts = {"interval": float(np.median(np.diff(time))), "length": float(time[-1] - time[0]), "unit_factor": 1}
    for factor, unit in ((1e3, "milliseconds"), (1e6, "microseconds"), (1e9, "nanoseconds")):
        is_likely = facts["interval"] > 1.0 and facts["length"] > 7200.0 and facts["length"] / factor >= 1.0
        if is_likely and 1e-3 <= facts["interval"] / factor <= 1.0:
            facts |= {"unit_factor": factor, "unit": unit}
    return facts


def _command_facts(name: str, column: Array, names: Sequence[str], largest: float, vessel: VesselConfig) -> Facts:
    """Return facts about a column [T] of commands, one of two with names, whose largest size is stated."""
    facts: Facts = {"name": name, "low": column.min(), "high": column.max(), "boat": vessel.name}
    if name.endswith("_command"):
        return facts | {"share": float(np.abs(column).max())}
    limit = coefficient_value(vessel, "angle_limit")
    least, most = coefficient_value(vessel, "min_thrust"), coefficient_value(vessel, "max_thrust")
    least, most, unit = (-limit, limit, "rad") if name == "angle" else (least, most, "N")
    facts |= {"least": least, "most": most, "unit": unit}
    facts["beyond"] = max(1.01 * least - facts["low"], facts["high"] - 1.01 * most)
    facts["of_shares"] = f"name columns of shares {names[0]}_command and {names[1]}_command"
    return facts | ({"thrust": largest} if name != "angle" and most > 20.0 else {})


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
    facts: Facts = {"boat": vessel.name, "top": top, "jumping": far.mean()}
    facts["speed"] = np.median(steps / np.maximum(spans, 1e-3))
    facts["speed_share"] = facts["speed"] / np.clip(3.0 * top, 3.0, _MAX_SPEED)
    refuse(facts)
    points, times = points[~far], times[~far]
    steps, spans = np.linalg.norm(np.diff(points, axis=0), axis=1), np.diff(times)
    facts = {"distance": np.linalg.norm(points - np.median(points, axis=0), axis=1).max(), "jump": 0.0}
    jumps = np.flatnonzero(steps > fastest * spans + 3.0)
    if len(jumps):
        facts |= {"jump": steps[jumps[0]], "span": spans[jumps[0]], "at": times[jumps[0]]}
    refuse(facts)
    pose[present[far]] = math.nan
    return int(far.sum())


def check_motion(
    time: Array, commands: Array, pose: Array, vessel: VesselConfig, is_in_newtons: bool
) -> tuple[list[str], float]:
    """Return doubts about a log, and the offset of its yaw (rad), if there is one; motion of no boat is refused.

    Args:
        time: [T] times (s).
        commands: [T, 2] commands as shares of the limits.
        pose: [T, 3] poses, NaN where missing, yaw not wrapped.
        vessel: preset of the boat.
        is_in_newtons: whether the log has thrusts (N).
    """
    present = np.isfinite(pose[:, 0])
    grid = np.arange(time[present][0], time[present][-1], _GRID_STEP)
    x, y, yaw = (_smooth(np.interp(grid, time[present], values)) for values in pose[present].T)
    held = commands[np.searchsorted(time, grid, side="right") - 1]
    north, east, turn = (np.gradient(values, _GRID_STEP) for values in (x, y, yaw))
    speed, is_steered = np.hypot(north, east), vessel.actuators.steering != "thrusters"
    refuse({"extent": math.hypot(np.ptp(x), np.ptp(y))})
    refuse(_stillness(time[present], commands[present], pose[present]))
    refuse({"turned": math.degrees(np.ptp(yaw)), "yaw_rate": float(np.quantile(np.abs(turn), 0.95))})
    doubts, offset, ahead = [], 0.0, held[:, 0] if is_steered else held.mean(1)
    moving = (_smooth(ahead) > 0.1) & (speed > max(0.3, 0.3 * float(np.quantile(speed, 0.9))))
    if moving.sum() >= 40:
        facts = _heading_facts(np.arctan2(east, north)[moving], yaw[moving])
        refuse(facts)
        if abs(facts["offset"]) > _MAX_YAW_OFFSET:
            offset = -math.radians(facts["offset"])
            cause = "a constant offset of the compass or its mounting is fitted, other causes are not"
            doubts.append(f"doubtful: the yaw is {-facts['offset']:.0f} degrees off the course on average: {cause}")
    refuse(_turning_facts(held, turn, vessel))
    # Between linear and quadratic damping, of which the latter allows more.
    expected = top_speed(vessel) * math.sqrt(max(float(np.quantile(ahead, 0.95)), 0.0))
    fast = float(np.quantile(speed, 0.95))
    if is_in_newtons and fast > _MAX_SPEED_RATIO * max(expected, 0.1):
        text = f"the boat sails at {fast:.2g} m/s, {vessel.name} would at {expected:.2g} m/s under these thrusts"
        doubts.append(f"doubtful: {text}: are positions in meters and thrusts in newtons?")
    return doubts, offset


def _stillness(time: Array, commands: Array, pose: Array) -> Facts:
    """Return facts about the longest time for which measured poses [T, 3] stay the same under thrust."""
    is_still = (np.diff(pose, axis=0) == 0.0).all(1) & (np.abs(commands[:-1, 0]) > 0.1)
    began = np.maximum.accumulate(np.where(is_still, 0.0, time[1:] - time[0]))
    longest = int(np.argmax(time[1:] - time[0] - began))
    facts: Facts = {"until": float(time[1:][longest] - time[0]), "since": float(began[longest])}
    return facts | {"still": facts["until"] - facts["since"]}


def _heading_facts(course: Array, yaw: Array) -> Facts:
    """Return facts about yaw angles [N] along the course [N] (rad) of a boat that moves ahead."""
    along, mirrored = complex(np.exp(1j * (course - yaw)).mean()), complex(np.exp(1j * (course + yaw)).mean())
    is_mirrored = abs(mirrored) > 0.8 > abs(along) + 0.1
    return {"mirrored": int(is_mirrored), "along": abs(along), "offset": math.degrees(np.angle(along))}


def _turning_facts(held: Array, turn: Array, vessel: VesselConfig) -> Facts:
    """Return the correlation of the turning effect of commands [N, 2] with yaw rates [N], or with the response to it.

    The larger one counts: commands that keep a course are against a yaw rate due to waves. The response is the yaw rate
    _RESPONSE_STEPS later after its linear dependence on the yaw rate at the time of the commands is removed.
    """
    if vessel.actuators.steering != "thrusters":
        # A positive angle pushes the hull to starboard, at the stern if no other position is stated.
        turning = np.sign(coefficient_value(vessel, "position")) * held[:, 0] * held[:, 1]
        turner, cause = (
            "angle",
            "as the angle pushes the stern: is it clockwise from above, or with --frame enu anticlockwise?",
        )
    else:
        turning = held[:, 0] - held[:, 1]
        turner, cause = (
            "thrusts",
            "to starboard with more thrust at the left: are the sides exchanged, or is it --frame enu?",
        )
    turning, turn = _smooth(_smooth(turning)), _smooth(turn)
    if not (float(turning.std()) > 0.02 and float(turn.std()) > 0.01):
        return {}
    parts = turning[:-_RESPONSE_STEPS], turn[:-_RESPONSE_STEPS], turn[_RESPONSE_STEPS:]
    at_once, delayed, own = np.asarray(np.corrcoef(parts))[np.triu_indices(3, 1)]
    spread = math.sqrt(max((1.0 - at_once**2) * (1.0 - own**2), 1e-12))
    follows = max(at_once, (delayed - at_once * own) / spread)
    return {"follows": min(float(follows), 1.0), "turner": turner, "cause": cause}


def _smooth(values: Array) -> Array:
    """Return the moving average of values [N] over three neighbours, with the end values repeated."""
    padded = np.concatenate((values[:1], values, values[-1:]))
    return np.asarray((padded[:-2] + padded[1:-1] + padded[2:]) / 3.0)
