"""Checks of logs: units, frames and motion that no boat has, each refused in one sentence with the likely cause."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from marinenav_env.config import VesselConfig
from marinenav_env.support.validation import ConfigError
from marinenav_env.vessels import top_speed
from train_RL_agents.identification.coefficients import coefficient_value

Array = NDArray[np.float64]
Check = tuple[bool | np.bool_, str, str, str]
"""Whether a log is right in some respect; what is checked, what it is, and what it must be."""
_MIN_SECONDS, _MAX_SECONDS, _MAX_INTERVAL = 60.0, 7200.0, 1.0
"""Smallest and largest length of a log, and largest typical time between its rows (s)."""
_MAX_SPEED, _MAX_YAW_RATE = 50.0, 6.0
"""Largest plausible speed (m/s) and yaw rate (rad/s)."""
_MAX_SPEED_RATIO = 2.0
"""Ratio of the measured speed to that of the preset under the same thrust above which it is questioned."""
_MAX_DISTANCE, _MAX_COORDINATE = 1e5, 1e9
"""Largest plausible distance from the median position, and largest coordinate (m)."""
_MAX_STILL_SECONDS = 10.0
"""Longest time for which a pose may stay the same under thrust (s)."""
_MIN_POSE_SHARE, _MAX_JUMP_SHARE = 0.3, 0.05
"""Smallest share of rows with a pose, and largest share of poses that the boat cannot have jumped to."""
_MIN_TRACK_EXTENT, _MIN_YAW_CHANGE = 5.0, math.radians(20.0)
"""Smallest extent of the track (m), and smallest range of the yaw (rad), in a log."""
_MAX_YAW_OFFSET = 8.0
"""Mean difference of yaw and course ahead above which the yaw is questioned (degrees)."""
_MIN_TURN_CORRELATION = -0.2
"""Smallest correlation of the turning effect of the commands with the yaw rate, or with its response."""
_GRID_STEP, _RESPONSE_STEPS = 0.5, 2
"""Step of the time grid of the motion (s), and number of steps after which the yaw rate counts as the response."""


def refuse(checks: Iterable[Check]) -> None:
    """Raise a ConfigError with the sentence of the first check that fails; later ones may rely on it."""
    for is_right, key, value, allowed in checks:
        if not is_right:
            raise ConfigError(f"{key}: {value}; must be {allowed}")


def check_columns(
    time: Array,
    values: tuple[Array, Array, Array],
    names: tuple[Sequence[str], Sequence[str], str],
    vessel: VesselConfig,
) -> Iterator[Check]:
    """Yield checks of columns that are mostly missing, constant, or in other units than their names state.

    Args:
        time: [T] times (s), in order.
        values: commands [T, 2], positions [T, 2] and yaw [T] as in the log, the last two NaN where they are missing.
        names: names of their columns.
        vessel: boat with limits of thrust.
    """
    (commands, position, yaw), (command_names, position_names, yaw_name) = values, names
    yield from _check_time(time)
    yield from _check_commands(commands, command_names, vessel)
    for column, name in ((position[:, 0], position_names[0]), (position[:, 1], position_names[1]), (yaw, yaw_name)):
        present = column[np.isfinite(column)]
        share, least = len(present) / len(column), f"there in at least {_MIN_POSE_SHARE:.0%}"
        yield share >= _MIN_POSE_SHARE, name, f"there in {share:.0%} of the rows", least
        yield np.ptp(present) > 0.0, name, f"{present[0]:g} in every row", "measured: a sensor may be stuck"
    largest = float(np.nanmax(np.abs(position)))
    yield largest <= _MAX_COORDINATE, ", ".join(position_names), f"up to {largest:.3g}", "in meters"
    whole, together = float((np.isfinite(position).all(1) & np.isfinite(yaw)).mean()), (*position_names, yaw_name)
    least = f"in at least {_MIN_POSE_SHARE:.0%}"
    yield whole >= _MIN_POSE_SHARE, ", ".join(together), f"together in {whole:.0%} of the rows", least
    if position_names[0] == "latitude":
        north, east = np.nanmax(np.abs(position), axis=0)
        yield north <= 90.0 and east <= 360.0, "latitude, longitude", f"up to {north:g}, {east:g}", "degrees"
    finite = yaw[np.isfinite(yaw)]
    if yaw_name == "yaw":
        step, most = np.abs(np.diff(finite)), np.abs(finite).max()
        # A wrap is a jump of a whole turn: in radians of 2 pi, in degrees of 360.
        has_degrees = most > 7.0 and (np.quantile(step, 0.9) > 0.7 or step.max() > 300.0)
        yield not has_degrees, "yaw", f"up to {most:.4g}", "in radians: name the column yaw_deg for degrees"
    else:
        span = float(np.ptp(finite))
        yield span > 7.0, "yaw_deg", f"within {span:.3g} degrees", "in degrees: name the column yaw for radians"


def _check_time(time: Array) -> Iterator[Check]:
    """Yield checks of times in other units, and of logs that are too short, too long or too sparse."""
    typical, length = float(np.median(np.diff(time))), float(time[-1] - time[0])
    for factor, unit in ((1e9, "nanoseconds"), (1e6, "microseconds"), (1e3, "milliseconds")):
        is_likely = typical > _MAX_INTERVAL and length > _MAX_SECONDS and length / factor >= 1.0
        is_other = is_likely and 1e-3 <= typical / factor <= _MAX_INTERVAL
        yield not is_other, "time", f"{typical:.4g} apart", f"in seconds: it seems to be in {unit}"
    least = f"at least {_MIN_SECONDS:g} s; marinenav identify --plan proposes manoeuvres"
    yield length >= _MIN_SECONDS, "length", f"{length:.3g} s", least
    yield length <= _MAX_SECONDS, "length", f"{length:.4g} s", f"at most {_MAX_SECONDS:g} s"
    yield typical <= _MAX_INTERVAL, "time", f"{typical:.3g} s apart", f"at most {_MAX_INTERVAL:g} s apart"


def _check_commands(commands: Array, names: Sequence[str], vessel: VesselConfig) -> Iterator[Check]:
    """Yield checks of commands that are constant, beyond the limits of the boat, or shares in columns of newtons."""
    thrusts = coefficient_value(vessel, "min_thrust"), coefficient_value(vessel, "max_thrust")
    limit = coefficient_value(vessel, "angle_limit")
    constant = f"{commands[0, 0]:g} and {commands[0, 1]:g} in every row"
    yield bool((np.ptp(commands, axis=0) > 0.0).any()), " and ".join(names), constant, "commands that change"
    of_shares = f"name columns of shares {names[0]}_command and {names[1]}_command"
    for name, values in zip(names, commands.T, strict=True):
        span, (low, high) = f"{values.min():.4g} to {values.max():.4g}", (-limit, limit) if name == "angle" else thrusts
        if name.endswith("_command"):
            advice = "from -1 to 1 (divide percent by 100, and pulse widths by their range)"
            yield bool(np.abs(values).max() <= 1.001), name, span, advice
            continue
        is_inside = values.min() >= 1.01 * low - 1e-9 and values.max() <= 1.01 * high + 1e-9
        bounds = f"from {low:g} to {high:g} {'rad' if name == 'angle' else 'N'}, the limits of {vessel.name}"
        yield is_inside, name, span, f"{bounds}; state its limits in a vessel file of your own, or {of_shares}"
        is_share = name != "angle" and np.abs(commands).max() <= 1.001 and high > 20.0
        yield not is_share, name, span, f"in newtons: {of_shares}"


def drop_jumps(time: Array, pose: Array, vessel: VesselConfig) -> int:
    """Set poses [T, 3] that the boat cannot have jumped to between times [T] to NaN, in place, and return how many.

    A log with too many of them, or of a boat that is too fast or too far away, is refused.
    """
    present = np.flatnonzero(np.isfinite(pose[:, 0]))
    points, times, most = pose[present, :2], time[present], top_speed(vessel)
    # Distance from the median of the neighbours, beyond what the boat can sail between them.
    fastest = min(_MAX_SPEED, 3.0 * most + 2.0)
    rows = np.clip(np.arange(len(points))[:, None] + np.array([-2, -1, 1, 2]), 0, len(points) - 1)
    near, span = np.median(points[rows], axis=1), np.abs(times[rows] - times[:, None]).max(1)
    far = np.linalg.norm(points - near, axis=1) > fastest * span + 3.0
    refuse(_check_track(times, points, far, fastest, vessel))
    pose[present[far]] = math.nan
    return int(far.sum())


def _check_track(
    times: Array, points: Array, far: NDArray[np.bool_], fastest: float, vessel: VesselConfig
) -> Iterator[Check]:
    """Yield checks of the speed and the extent of a track [T, 2], and of jumps besides points that are ``far`` off."""
    most = top_speed(vessel)
    typical = np.median(np.linalg.norm(np.diff(points, axis=0), axis=1) / np.maximum(np.diff(times), 1e-3))
    cause = f"plausible for {vessel.name}, of at most {most:.3g} m/s: is it in meters and seconds?"
    yield typical <= np.clip(3.0 * most, 3.0, _MAX_SPEED), "speed", f"{typical:.3g} m/s in the median", cause
    one_boat = "that of one boat, in meters"
    yield far.mean() <= _MAX_JUMP_SHARE, "position", f"jumping in {far.mean():.0%} of the rows", one_boat
    points, times, middle = points[~far], times[~far], np.median(points, axis=0)
    distance = float(np.linalg.norm(points - middle, axis=1).max())
    place = "in meters, and of one place"
    yield distance <= _MAX_DISTANCE, "position", f"{distance:.4g} m away from the others", place
    steps, spans = np.linalg.norm(np.diff(points, axis=0), axis=1), np.diff(times)
    jumps = np.flatnonzero(steps > fastest * spans + 3.0)
    at = f"{steps[jumps[0]]:.3g} m in {spans[jumps[0]]:.2g} s at {times[jumps[0]]:.0f} s" if len(jumps) else ""
    yield len(jumps) == 0, "position", at, "without jumps: cut the log there"


def check_motion(time: Array, commands: Array, pose: Array, vessel: VesselConfig) -> Iterator[Check]:
    """Yield checks that motion follows commands [T, 2], and that poses [T, 3] (NaN: missing) are in the right frame."""
    is_steered = vessel.actuators.steering != "thrusters"
    held, x, y, yaw = _on_grid(time, commands, pose)
    north, east, turn = (np.gradient(values, _GRID_STEP) for values in (x, y, yaw))
    speed, way, turned = np.hypot(north, east), math.hypot(np.ptp(x), np.ptp(y)), math.degrees(np.ptp(yaw))
    least = f"at least {_MIN_TRACK_EXTENT:g} m: the boat does not move"
    yield way >= _MIN_TRACK_EXTENT, "track", f"{way:.2g} m across", least
    yield _check_still_poses(time, commands, pose)
    yield math.radians(turned) >= _MIN_YAW_CHANGE, "yaw", f"within {turned:.2g} degrees", "of a boat that turns"
    largest = float(np.quantile(np.abs(turn), 0.95))
    in_radians = "that of a boat: is it in radians?"
    yield largest <= _MAX_YAW_RATE, "yaw", f"turning at {largest:.3g} rad/s", in_radians
    ahead = _smooth(held[:, 0] if is_steered else held.mean(1)) > 0.1
    moving = ahead & (speed > max(0.3, 0.3 * float(np.quantile(speed, 0.9))))
    if moving.sum() >= 40:
        yield from _check_heading(np.arctan2(east, north)[moving], yaw[moving])
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
    against = f"against the {'angle' if is_steered else 'thrusts'} (correlation {follows:.2f})"
    yield follows > _MIN_TURN_CORRELATION, "yaw", against, cause


def _on_grid(time: Array, commands: Array, pose: Array) -> tuple[Array, Array, Array, Array]:
    """Return commands [N, 2], and smoothed x, y and yaw [N] of a log, _GRID_STEP apart."""
    present = np.isfinite(pose[:, 0])
    grid = np.arange(time[present][0], time[present][-1], _GRID_STEP)
    x, y, yaw = (_smooth(np.interp(grid, time[present], values)) for values in pose[present].T)
    return commands[np.searchsorted(time, grid, side="right") - 1], x, y, yaw


def question_yaw(time: Array, commands: Array, pose: Array) -> list[str]:
    """Return a sentence if the yaw has an offset from the course ahead, as of a compass or its mounting."""
    held, x, y, yaw = _on_grid(time, commands, pose)
    north, east = np.gradient(x, _GRID_STEP), np.gradient(y, _GRID_STEP)
    speed = np.hypot(north, east)
    moving = (speed > max(0.3, 0.3 * float(np.quantile(speed, 0.9)))) & (_smooth(held[:, 0]) > 0.1)
    if moving.sum() < 40:
        return []
    offset = -math.degrees(np.angle(np.exp(1j * (np.arctan2(east, north) - yaw)[moving]).mean()))
    if not abs(offset) > _MAX_YAW_OFFSET:
        return []
    cause = "correct it by the offset of the compass or its mounting, or coefficients of sway will be wrong"
    return [f"doubtful: the yaw is {offset:.0f} degrees off the course on average: {cause}"]


def question_speed(time: Array, commands: Array, pose: Array, vessel: VesselConfig) -> list[str]:
    """Return a sentence if the boat is much faster than the preset would be under its thrusts, as in other units."""
    held, x, y, _ = _on_grid(time, commands, pose)
    speed = float(np.quantile(np.hypot(np.gradient(x, _GRID_STEP), np.gradient(y, _GRID_STEP)), 0.95))
    ahead = held[:, 0] if vessel.actuators.steering != "thrusters" else held.mean(1)
    # Between linear and quadratic damping, of which the latter allows more.
    expected = top_speed(vessel) * math.sqrt(max(float(np.quantile(ahead, 0.95)), 0.0))
    if speed <= _MAX_SPEED_RATIO * max(expected, 0.1):
        return []
    text = f"the boat sails at {speed:.2g} m/s, {vessel.name} would at {expected:.2g} m/s under these thrusts"
    return [f"doubtful: {text}: are positions in meters and thrusts in newtons?"]


def _check_still_poses(time: Array, commands: Array, pose: Array) -> Check:
    """Return the check of poses [T, 3] that stay the same under thrust for longer than _MAX_STILL_SECONDS."""
    present = np.isfinite(pose[:, 0])
    time, commands, pose = time[present], commands[present], pose[present]
    is_still = (np.diff(pose, axis=0) == 0.0).all(1) & (np.abs(commands[:-1, 0]) > 0.1)
    began = np.maximum.accumulate(np.where(is_still, 0.0, time[1:] - time[0]))
    longest = int(np.argmax(time[1:] - time[0] - began))
    until, since = float(time[1:][longest] - time[0]), float(began[longest])
    span = f"the same from {since:.0f} s to {until:.0f} s, under thrust"
    return until - since <= _MAX_STILL_SECONDS, "pose", span, "measured: a sensor may be stuck; cut the log there"


def _check_heading(course: Array, yaw: Array) -> Iterator[Check]:
    """Yield checks that yaw angles [N] are along the course [N] (rad) of a boat that moves ahead."""
    along, mirrored = complex(np.exp(1j * (course - yaw)).mean()), complex(np.exp(1j * (course + yaw)).mean())
    is_mirrored = abs(mirrored) > 0.8 > abs(along) + 0.1
    clockwise = "clockwise from north as the course is: is it --frame enu, or are x and y exchanged?"
    yield not is_mirrored, "yaw", "turning against the course", clockwise
    of_bow = "that of the bow, in the unit of its column"
    yield abs(along) > 0.4, "yaw", "not along the course of a boat that moves ahead", of_bow
    offset = math.degrees(math.atan2(along.imag, along.real))
    cause = "along the course on average when it moves ahead: is it the yaw of the bow, clockwise from north"
    yield abs(offset) < 60.0, "yaw", f"{offset:.0f} degrees off the course", f"{cause} (--frame ned)?"


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
