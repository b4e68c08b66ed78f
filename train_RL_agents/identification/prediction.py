"""Predictions of a fitted boat over the part of a log that was not fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marinenav_env.config import VesselConfig
from train_RL_agents.identification.coefficients import Coefficient
from train_RL_agents.identification.log import BoatLog
from train_RL_agents.identification.segments import (
    MAX_COMMAND_GAP,
    MAX_POSE_GAP,
    SETTLING_SECONDS,
    cut_segments,
    find_gaps,
    guess_initial_states,
)
from train_RL_agents.identification.shooting import FitProblem, Unknowns, minimise
from train_RL_agents.identification.simulation import TIME_STEP, Simulator, interpolate_poses, num_substeps, wrap_angle

Array = NDArray[np.float64]
HORIZONS = (5.0, 20.0, 60.0)
"""Times after which predictions are compared with the log (s)."""
START_INTERVAL = 5.0
"""Time between the starts of two predictions (s)."""
_RUN_UP_SECONDS = 20.0
"""Time before a prediction from which its initial state is estimated (s)."""
_MAX_TIME_DIFFERENCE = 1.0
"""Largest time between a horizon and the measured pose that a prediction is compared with (s)."""
_TOLERANCE = 0.05
"""Decrease of the loss per iteration below which the search for initial states ends."""
_MAX_ITERATIONS = 15


@dataclass(frozen=True)
class HorizonError:
    """Error of predictions at one horizon."""

    seconds: float
    """Horizon: time since the start of a prediction (s)."""
    count: int
    """Number of predictions."""
    position: float
    """Root of the mean squared distance from measured positions (m)."""
    median: float
    """Median distance from measured positions (m)."""
    yaw: float
    """Root of the mean squared error of the yaw (degrees)."""
    path: float
    """Mean length of the predicted paths (m)."""


@dataclass(frozen=True)
class Prediction:
    """Predictions of a boat that start at W times of a log. Poses are x, y (m) and yaw (rad)."""

    start_times: Array
    """[W] times at which predictions start (s)."""
    poses: Array
    """[W, N + 1, 3] predicted poses, TIME_STEP apart."""
    measured_times: Array
    """[W, M] times of measured poses since the start (s), 0 where there is none."""
    measured_poses: Array
    """[W, M, 3] measured poses, NaN where there is none."""
    errors: tuple[HorizonError, ...]
    """Errors at the horizons that the log is long enough for."""


def predict(
    log: BoatLog,
    vessel: VesselConfig,
    coefficients: Sequence[Coefficient],
    values: Sequence[float],
    current: tuple[float, float],
    begin: float,
) -> Prediction:
    """Return predictions of a boat's poses over the end of a log, with their errors.

    The initial state of each prediction is estimated from the 20 s before its start, and not from what it predicts.

    Args:
        log: log of the boat.
        vessel: preset of the boat.
        coefficients: coefficients that may differ from the preset.
        values: values of these coefficients.
        current: velocity of the water to the north and to the east (m/s).
        begin: time from which on predictions start (s).
    """
    horizons = [horizon for horizon in HORIZONS if begin + horizon <= log.duration] or [HORIZONS[0]]
    windows, longest = prediction_windows(log, begin, horizons), horizons[-1]
    starts, ends = windows.T
    if not len(starts):
        return Prediction(np.zeros(0), np.zeros((0, 1, 3)), np.zeros((0, 0)), np.zeros((0, 0, 3)), ())
    simulator = Simulator(vessel, [item.name for item in coefficients], num_substeps(vessel))
    targets, rate = simulator.steady_states(log.commands), simulator.angle_rate
    before = cut_segments(log, [(start - _RUN_UP_SECONDS, start) for start in starts], targets, rate, _RUN_UP_SECONDS)
    problem = FitProblem(simulator, coefficients, before)
    point = Unknowns(np.array(values) / problem.scale, np.array(current), guess_initial_states(before))
    point, _, _ = minimise(problem, point, (), _TOLERANCE, _MAX_ITERATIONS, with_current=False)
    # The simulation goes on from the run-up, whose end is the start of the prediction.
    parts = [*zip(starts - _RUN_UP_SECONDS, ends, strict=True)]
    whole = cut_segments(log, parts, targets, rate, _RUN_UP_SECONDS + longest)
    poses = problem.simulate_poses(whole, point.coefficients[None], point.initial[None])[0]
    poses[..., :2] += (np.arange(poses.shape[1]) * TIME_STEP)[:, None] * point.current
    poses = poses[:, round(_RUN_UP_SECONDS / TIME_STEP) :]
    stamp = whole.pose_times - _RUN_UP_SECONDS
    measured = np.where((stamp >= 0.0)[..., None], whole.pose, np.nan)
    stamp = np.where(np.isfinite(measured[..., 0]), stamp, 0.0)
    errors = tuple(_horizon_error(horizon, poses, stamp, measured, ends - starts) for horizon in horizons)
    return Prediction(starts, poses, stamp, measured, tuple(error for error in errors if error.count))


def prediction_windows(log: BoatLog, begin: float, horizons: Sequence[float]) -> Array:
    """Return the windows [W, 2] of a log in which a boat is predicted: times at which predictions start and end (s).

    A prediction ends at the largest horizon, or earlier where the commands are not known any more. It reaches at least
    the smallest horizon, and has poses and commands in the run-up before it.

    Args:
        log: log of the boat.
        begin: earliest time at which a prediction may start (s).
        horizons: times after which predictions are compared with the log (s), in ascending order.
    """
    latest = log.duration - horizons[0]
    starts = np.arange(max(begin, _RUN_UP_SECONDS), latest + 1e-9, START_INTERVAL)
    windows = [
        (start, min(start + horizons[-1], _commands_known_until(log, start)))
        for start in starts
        if _has_poses_before(log, start)
    ]
    return np.reshape([window for window in windows if window[1] >= window[0] + horizons[0] - 1e-9], (-1, 2))


def _commands_known_until(log: BoatLog, start: float) -> float:
    """Return the end of the commands that a prediction from ``start`` on can use (s).

    It is the time at which a gap of rows begins, the first one after which the actuators have not settled yet when the
    run-up begins; without such a gap, it is the end of the log.
    """
    run_up = start - _RUN_UP_SECONDS
    later = [low for low, high in find_gaps(log.time, MAX_COMMAND_GAP) if high + SETTLING_SECONDS > run_up]
    return min([*later, log.duration])


def _has_poses_before(log: BoatLog, start: float) -> bool:
    """Return whether a log has enough poses, without a gap, in the run-up before a prediction from ``start`` on."""
    inside = (log.time >= start - _RUN_UP_SECONDS) & (log.time <= start) & np.isfinite(log.pose[:, 0])
    poses = log.time[inside]
    enough = len(poses) >= 10 and poses[0] <= start - 0.5 * _RUN_UP_SECONDS
    return bool(enough and float(np.diff(poses, append=start).max()) <= MAX_POSE_GAP)


def _horizon_error(horizon: float, poses: Array, stamp: Array, measured: Array, ends: Array) -> HorizonError:
    """Return the error at the measured pose nearest to a horizon (s); NaN if no prediction is long enough.

    The arguments are those of Prediction, and ``ends`` [W], the lengths of the predictions (s).
    """
    place = round(horizon / TIME_STEP)
    distances, turns, paths = [], [], []
    for pose, times, real, end in zip(poses, stamp, measured, ends, strict=True):
        near = np.isfinite(real[:, 0]) & (np.abs(times - horizon) <= _MAX_TIME_DIFFERENCE)
        if end < horizon - 1e-9 or not near.any():
            continue
        difference = interpolate_poses(pose[None], times[None])[0] - real
        row = int(np.argmin(np.where(near, np.abs(times - horizon), np.inf)))
        distances.append(float(np.hypot(*difference[row, :2])))
        turns.append(float(wrap_angle(difference[row, 2])))
        paths.append(float(np.linalg.norm(np.diff(pose[: place + 1, :2], axis=0), axis=1).sum()))
    if not distances:
        return HorizonError(horizon, 0, *[float("nan")] * 4)
    square = float(np.sqrt(np.mean(np.square(distances))))
    yaw = float(np.degrees(np.sqrt(np.mean(np.square(turns)))))
    return HorizonError(horizon, len(distances), square, float(np.median(distances)), yaw, float(np.mean(paths)))
