"""Checks of logs: units, frames and motion that no boat has, each refused in one sentence with the likely cause."""

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
_MIN_SECONDS, _MAX_SECONDS = 60.0, 7200.0
_MIN_SAMPLE_RATE = 1.0
"""Smallest rate of the samples of a log (Hz)."""
_MAX_SPEED = 50.0
"""Largest plausible speed (m/s)."""
_MAX_DISTANCE = 1e5
"""Largest plausible distance from the median position (m)."""
_MAX_YAW_RATE = 6.0
"""Largest plausible yaw rate (rad/s)."""
_MAX_COORDINATE = 1e9
"""Largest coordinate of a position, from any origin (m)."""
_MAX_STILL_SECONDS = 10.0
"""Longest time for which a pose may stay the same under thrust (s)."""
_MIN_POSE_SHARE = 0.3
"""Smallest share of rows with a pose."""
_MAX_JUMP_SHARE = 0.05
"""Largest share of poses that the boat cannot have jumped to."""
_MIN_TRACK_EXTENT, _MIN_YAW_CHANGE = 5.0, math.radians(20.0)
"""Smallest extent of the track (m), and smallest range of the yaw (rad), in a log."""
_MIN_TURN_CORRELATION = -0.2
"""Smallest correlation of the turning effect of the commands with the yaw rate, or with its response."""
_GRID_STEP, _RESPONSE_STEPS = 0.5, 2
"""Step of the time grid of the motion (s), and number of steps after which the yaw rate counts as the response."""


def _require(condition: bool, key: str, value: str, allowed: str) -> None:
    """Raise a ConfigError unless a condition holds; its sentence says what ``key`` is, and what is allowed."""
    if not condition:
        raise ConfigError(f"{key}: {value}; must be {allowed}")


def check_units(
    time: Array,
    commands: Array,
    command_names: Sequence[str],
    position: Array,
    position_names: Sequence[str],
    yaw: Array,
    yaw_name: str,
    vessel: VesselConfig,
) -> None:
    """Refuse columns that are mostly missing, constant, or in other units than their names state.

    Args:
        time: [T] times (s), in order.
        commands: [T, 2] commands as in the log.
        command_names: names of the columns of the commands.
        position: [T, 2] positions as in the log, NaN where they are missing.
        position_names: names of the columns of the positions.
        yaw: [T] yaw as in the log, NaN where it is missing.
        yaw_name: name of the column of the yaw.
        vessel: boat with limits of thrust.

    Raises:
        ConfigError: when a column is refused.
    """
    _check_time(time)
    _check_commands(commands, command_names, vessel)
    for values, name in ((position[:, 0], position_names[0]), (position[:, 1], position_names[1]), (yaw, yaw_name)):
        share = float(np.isfinite(values).mean())
        _require(
            share >= _MIN_POSE_SHARE,
            name,
            f"there in {share:.0%} of the rows",
            f"there in at least {_MIN_POSE_SHARE:.0%}",
        )
        present = values[np.isfinite(values)]
        _require(float(np.ptp(present)) > 0.0, name, f"{present[0]:g} in every row", "measured: a sensor may be stuck")
    largest_position = float(np.nanmax(np.abs(position)))
    _require(
        largest_position <= _MAX_COORDINATE, ", ".join(position_names), f"up to {largest_position:.3g}", "in meters"
    )
    whole = float((np.isfinite(position).all(1) & np.isfinite(yaw)).mean())
    names = ", ".join((*position_names, yaw_name))
    _require(
        whole >= _MIN_POSE_SHARE, names, f"together in {whole:.0%} of the rows", f"in at least {_MIN_POSE_SHARE:.0%}"
    )
    if position_names[0] == "latitude":
        largest = np.nanmax(np.abs(position), axis=0)
        is_on_earth = bool(largest[0] <= 90.0 and largest[1] <= 180.0)
        _require(is_on_earth, "latitude, longitude", f"up to {largest[0]:g}, {largest[1]:g}", "degrees")
    if yaw_name == "yaw":
        step = np.abs(np.diff(yaw[np.isfinite(yaw)]))
        # A wrap is a jump of a whole turn: in radians of 2 pi, in degrees of 360.
        has_degrees = bool(np.nanmax(np.abs(yaw)) > 7.0 and (np.quantile(step, 0.9) > 0.7 or step.max() > 300.0))
        _require(
            not has_degrees,
            "yaw",
            f"up to {np.nanmax(np.abs(yaw)):.4g}",
            "in radians: name the column yaw_deg for degrees",
        )
    else:
        largest_yaw = float(np.nanmax(yaw) - np.nanmin(yaw))
        _require(
            largest_yaw > 7.0,
            "yaw_deg",
            f"within {largest_yaw:.3g} degrees",
            "in degrees: name the column yaw for radians",
        )


def _check_time(time: Array) -> None:
    """Refuse times in other units, and logs that are too short, too long or too sparse."""
    typical, length = float(np.median(np.diff(time))), float(time[-1] - time[0])
    for factor, unit in ((1e9, "nanoseconds"), (1e6, "microseconds"), (1e3, "milliseconds")):
        is_likely = typical > 1.0 / _MIN_SAMPLE_RATE and length > _MAX_SECONDS and length / factor >= 1.0
        plausible = 1e-3 <= typical / factor <= 1.0 / _MIN_SAMPLE_RATE
        _require(not (is_likely and plausible), "time", f"{typical:.4g} apart", f"in seconds: it seems to be in {unit}")
    _require(
        length >= _MIN_SECONDS,
        "length",
        f"{length:.3g} s",
        f"at least {_MIN_SECONDS:g} s; marinenav identify --plan proposes manoeuvres",
    )
    _require(length <= _MAX_SECONDS, "length", f"{length:.4g} s", f"at most {_MAX_SECONDS:g} s")
    _require(
        typical <= 1.0 / _MIN_SAMPLE_RATE,
        "time",
        f"{typical:.3g} s apart",
        f"at most {1.0 / _MIN_SAMPLE_RATE:g} s apart",
    )


def _check_commands(commands: Array, names: Sequence[str], vessel: VesselConfig) -> None:
    """Refuse commands that are constant, beyond the limits of the boat, or shares in columns of newtons."""
    most, least = float(vessel.max_thrust), float(vessel.min_thrust)  # type: ignore[arg-type]
    limit: Any = vessel.actuators.angle_limit
    limits = {"left": (least, most), "right": (least, most), "thrust": (least, most), "angle": (-limit, limit)}
    is_constant = bool((np.ptp(commands, axis=0) == 0.0).all())
    _require(
        not is_constant,
        " and ".join(names),
        f"{commands[0, 0]:g} and {commands[0, 1]:g} in every row",
        "commands that change",
    )
    of_shares = f"name columns of shares {names[0]}_command and {names[1]}_command"
    for name, values in zip(names, commands.T, strict=True):
        low, high = limits.get(name, (-1.0, 1.0))
        span = f"{values.min():.4g} to {values.max():.4g}"
        if name.endswith("_command"):
            advice = " (divide percent by 100, and pulse widths by their range)"
            _require(bool(np.abs(values).max() <= 1.001), name, span, f"from -1 to 1{advice}")
            continue
        is_inside = bool(values.min() >= 1.01 * low - 1e-9 and values.max() <= 1.01 * high + 1e-9)
        unit = "rad" if name == "angle" else "N"
        advice = f"; state its limits in a vessel file of your own, or {of_shares}"
        _require(is_inside, name, span, f"from {low:g} to {high:g} {unit}, the limits of {vessel.name}{advice}")
        is_share = name != "angle" and bool(np.abs(commands).max() <= 1.001) and high > 20.0
        _require(not is_share, name, span, f"in newtons: {of_shares}")


def drop_jumps(time: Array, pose: Array, vessel: VesselConfig) -> int:
    """Set poses [T, 3] that the boat cannot have jumped to between times [T] to NaN, in place, and return how many.

    Raises:
        ConfigError: when there are too many such poses, or the boat is too fast or too far away.
    """
    present = np.flatnonzero(np.isfinite(pose[:, 0]))
    points, times = pose[present, :2], time[present]
    middle = np.median(points, axis=0)
    # Distance from the median of the neighbours, beyond what the boat can sail between them.
    fastest = min(_MAX_SPEED, 3.0 * top_speed(vessel) + 2.0)
    rows = np.clip(np.arange(len(points))[:, None] + np.array([-2, -1, 1, 2]), 0, len(points) - 1)
    near = np.median(points[rows], axis=1)
    span = np.abs(times[rows] - times[:, None]).max(1)
    far = np.linalg.norm(points - near, axis=1) > fastest * span + 3.0
    typical = np.median(np.linalg.norm(np.diff(points, axis=0), axis=1) / np.maximum(np.diff(times), 1e-3))
    is_slow = bool(typical <= np.clip(3.0 * top_speed(vessel), 3.0, _MAX_SPEED))
    cause = f"plausible for {vessel.name}, of at most {top_speed(vessel):.3g} m/s: is it in meters and seconds?"
    _require(is_slow, "speed", f"{typical:.3g} m/s in the median", cause)
    share = float(far.mean())
    _require(share <= _MAX_JUMP_SHARE, "position", f"jumping in {share:.0%} of the rows", "that of one boat, in meters")
    distance = float(np.linalg.norm(points[~far] - middle, axis=1).max())
    _require(
        distance <= _MAX_DISTANCE, "position", f"{distance:.4g} m away from the others", "in meters, and of one place"
    )
    pose[present[far]] = math.nan
    steps, spans = np.linalg.norm(np.diff(points[~far], axis=0), axis=1), np.diff(times[~far])
    jumps = np.flatnonzero(steps > fastest * spans + 3.0)
    at = f"{steps[jumps[0]]:.3g} m in {spans[jumps[0]]:.2g} s at {times[~far][jumps[0]]:.0f} s" if len(jumps) else ""
    _require(len(jumps) == 0, "position", at, "without jumps: cut the log there")
    return int(far.sum())


def check_motion(time: Array, commands: Array, pose: Array, vessel: VesselConfig) -> None:
    """Refuse a log whose motion does not follow its commands, or is in another frame.

    Args:
        time: [T] times (s).
        commands: [T, 2] commands as shares of the limits.
        pose: [T, 3] poses, yaw not wrapped, NaN where they are missing.
        vessel: boat whose steering the commands are for.

    Raises:
        ConfigError: when the log is refused.
    """
    is_steered = vessel.actuators.steering != "thrusters"
    present = np.isfinite(pose[:, 0])
    grid = np.arange(time[present][0], time[present][-1], _GRID_STEP)
    x, y, yaw = (_smooth(np.interp(grid, time[present], values)) for values in pose[present].T)
    held = commands[np.searchsorted(time, grid, side="right") - 1]
    north, east, turn = (np.gradient(values, _GRID_STEP) for values in (x, y, yaw))
    speed = np.hypot(north, east)
    way, turned = math.hypot(float(np.ptp(x)), float(np.ptp(y))), float(np.ptp(yaw))
    _require(
        way >= _MIN_TRACK_EXTENT,
        "track",
        f"{way:.2g} m across",
        f"at least {_MIN_TRACK_EXTENT:g} m: the boat does not move",
    )
    _check_stuck_sensors(time[present], commands[present], pose[present])
    _require(turned >= _MIN_YAW_CHANGE, "yaw", f"within {math.degrees(turned):.2g} degrees", "of a boat that turns")
    largest = float(np.quantile(np.abs(turn), 0.95))
    _require(largest <= _MAX_YAW_RATE, "yaw", f"turning at {largest:.3g} rad/s", "that of a boat: is it in radians?")
    ahead = _smooth(held[:, 0] if is_steered else held.mean(1)) > 0.1
    moving = ahead & (speed > max(0.3, 0.3 * float(np.quantile(speed, 0.9))))
    if moving.sum() >= 40:
        course = np.arctan2(east, north)[moving]
        _check_heading(course, yaw[moving])
    if is_steered:
        # A positive angle pushes the hull to starboard, at the stern if no other position is stated.
        turning = np.sign(coefficient_value(vessel, "position")) * held[:, 0] * held[:, 1]
        cause = "turning as the angle pushes the stern: is it clockwise from above, or with --frame enu anticlockwise?"
    else:
        turning = held[:, 0] - held[:, 1]
        cause = "turning to starboard with more thrust at the left: are the sides exchanged, or is it --frame enu?"
    turning, turn = _smooth(_smooth(turning)), _smooth(turn)
    is_varied = float(turning.std()) > 0.02 and float(turn.std()) > 0.01
    follows = _turn_correlation(turning, turn) if is_varied else 1.0
    against = "angle" if is_steered else "thrusts"
    _require(follows > _MIN_TURN_CORRELATION, "yaw", f"against the {against} (correlation {follows:.2f})", cause)


def _check_stuck_sensors(time: Array, commands: Array, pose: Array) -> None:
    """Refuse poses [T, 3] that stay the same under thrust for longer than _MAX_STILL_SECONDS."""
    is_still = (np.diff(pose, axis=0) == 0.0).all(1) & (np.abs(commands[:-1, 0]) > 0.1)
    began = np.maximum.accumulate(np.where(is_still, 0.0, time[1:] - time[0]))
    longest = int(np.argmax(time[1:] - time[0] - began))
    until, since = float(time[1:][longest] - time[0]), float(began[longest])
    span = f"the same from {since:.0f} s to {until:.0f} s, under thrust"
    _require(until - since <= _MAX_STILL_SECONDS, "pose", span, "measured: a sensor may be stuck; cut the log there")


def _check_heading(course: Array, yaw: Array) -> None:
    """Refuse yaw angles [N] that are not along the course [N] (rad) of a boat that moves ahead."""

    def mean(angle: Array) -> complex:
        return complex(np.exp(1j * angle).mean())

    along = mean(course - yaw)
    mirrored = mean(course + yaw)
    is_mirrored = abs(mirrored) > 0.8 > abs(along) + 0.1
    text = "clockwise from north as the course is: is it --frame enu, or are x and y exchanged?"
    _require(not is_mirrored, "yaw", "turning against the course", text)
    _require(
        abs(along) > 0.4,
        "yaw",
        "not along the course of a boat that moves ahead",
        "that of the bow, in the unit of its column",
    )
    offset = math.degrees(math.atan2(along.imag, along.real))
    cause = (
        "along the course on average when it moves ahead: is it the yaw of the bow, clockwise from north (--frame ned)?"
    )
    _require(abs(offset) < 60.0, "yaw", f"{offset:.0f} degrees off the course", cause)


def _turn_correlation(turning: Array, turn: Array) -> float:
    """Return the correlation of the commands' turning effect [N] with the yaw rate [N], or with the response to it.

    The larger one counts: commands that keep a course are against a yaw rate due to waves. The response is the yaw rate
    _RESPONSE_STEPS later after its linear dependence on the yaw rate at the time of the commands is removed.
    """
    turning, now, later = turning[:-_RESPONSE_STEPS], turn[:-_RESPONSE_STEPS], turn[_RESPONSE_STEPS:]
    at_once, delayed, own = np.asarray(np.corrcoef((turning, now, later)))[np.triu_indices(3, 1)]
    spread = math.sqrt(max((1.0 - at_once**2) * (1.0 - own**2), 1e-12))
    return float(max(at_once, (delayed - at_once * own) / spread))


def _smooth(values: Array) -> Array:
    """Return the moving average of values [N] over three neighbours, with the end values repeated."""
    padded = np.concatenate((values[:1], values, values[-1:]))
    return np.asarray((padded[:-2] + padded[1:-1] + padded[2:]) / 3.0)
