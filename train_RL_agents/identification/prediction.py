"""Predictions of a fitted boat over the part of a log that was not fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marinenav_env.config import VesselConfig
from train_RL_agents.identification.coefficients import Coefficient
from train_RL_agents.identification.log import BoatLog
from train_RL_agents.identification.segments import COMMAND_GAP, POSE_GAP, SECONDS, cut, guess_initial
from train_RL_agents.identification.shooting import Point, Problem, minimise
from train_RL_agents.identification.simulation import STEP, Simulator, at_times, substeps_of, wrapped

Array = NDArray[np.float64]
HORIZONS = (5.0, 20.0, 60.0)
"""Times after which predictions are compared with the log (s)."""
EVERY = 5.0
"""Time between the starts of two predictions (s)."""
_RUN_UP = SECONDS
"""Time before a prediction from which its initial state is estimated (s)."""
_NEAR = 1.0
"""Largest time between a horizon and the measured pose that a prediction is compared with (s)."""
_GAIN, _ITERATIONS = 0.05, 15


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
    """Predictions of a boat that start at W times of a log."""

    start: Array
    """[W] times at which predictions start (s)."""
    poses: Array
    """[W, N + 1, 3] predicted poses at the points of the grid."""
    stamp: Array
    """[W, M] times of measured poses since the start (s), 0 where there is none."""
    measured: Array
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
    """Return the predictions of a boat over the end of a log.

    The initial state of each prediction is estimated from the 20 s before its start, and not from what it predicts.

    Args:
        log: log of the boat.
        vessel: preset of the boat.
        coefficients: coefficients that may differ from the preset.
        values: values of these coefficients.
        current: velocity of the water to the north and to the east (m/s).
        begin: time from which on predictions start (s).
    """
    horizons = [horizon for horizon in HORIZONS if begin + horizon <= log.seconds] or [HORIZONS[0]]
    starts, longest = _starts(log, begin, horizons), horizons[-1]
    if not len(starts):
        return Prediction(np.zeros(0), np.zeros((0, 1, 3)), np.zeros((0, 0)), np.zeros((0, 0, 3)), ())
    simulator = Simulator(vessel, [item.name for item in coefficients], substeps_of(vessel))
    targets = simulator.targets(log.commands)
    before = cut(log, [(start - _RUN_UP, start) for start in starts], targets, _RUN_UP)
    problem = Problem(simulator, coefficients, before)
    point = Point(np.array(values) / problem.scale, np.array(current), guess_initial(before))
    point, _, _ = minimise(problem, point, (), _GAIN, _ITERATIONS, with_current=False)
    # The simulation goes on from the run-up, whose end is the start of the prediction.
    ends = np.minimum(starts + longest, log.seconds)
    whole = cut(log, [*zip(starts - _RUN_UP, ends, strict=True)], targets, _RUN_UP + longest)
    poses = problem.poses(whole, point.scaled[None], point.initial[None])[0]
    poses[..., :2] += (np.arange(poses.shape[1]) * STEP)[:, None] * point.current
    poses = poses[:, round(_RUN_UP / STEP) :]
    stamp = whole.stamp - _RUN_UP
    measured = np.where((stamp >= 0.0)[..., None], whole.pose, np.nan)
    stamp = np.where(np.isfinite(measured[..., 0]), stamp, 0.0)
    errors = tuple(_error(horizon, poses, stamp, measured, ends - starts) for horizon in horizons)
    return Prediction(starts, poses, stamp, measured, tuple(error for error in errors if error.count))


def _starts(log: BoatLog, begin: float, horizons: Sequence[float]) -> Array:
    """Return the times at which predictions start: those around which the log has no gaps."""
    latest = log.seconds - horizons[0]
    starts = [time for time in np.arange(max(begin, _RUN_UP), latest + 1e-9, EVERY) if _is_whole(log, time)]
    return np.array(starts)


def _is_whole(log: BoatLog, start: float) -> bool:
    """Return whether a log has no gap of poses or rows from the run-up before a start to the first horizon."""
    inside = (log.time >= start - _RUN_UP - POSE_GAP) & (log.time <= start + HORIZONS[0])
    rows = log.time[inside]
    poses = log.time[inside & np.isfinite(log.pose[:, 0])]
    poses = poses[poses >= start - _RUN_UP]
    enough = len(poses) >= 10 and float(np.diff(poses).max()) <= POSE_GAP and poses[0] <= start - 0.5 * _RUN_UP
    return bool(enough and float(np.diff(rows).max(initial=0.0)) <= COMMAND_GAP)


def _error(horizon: float, poses: Array, stamp: Array, measured: Array, ends: Array) -> HorizonError:
    """Return the error at the measured pose nearest to a horizon, of long enough predictions; NaN if there are none."""
    place = round(horizon / STEP)
    distances, turns, paths = [], [], []
    for pose, times, real, end in zip(poses, stamp, measured, ends, strict=True):
        near = np.isfinite(real[:, 0]) & (np.abs(times - horizon) <= _NEAR)
        if end < horizon - 1e-9 or not near.any():
            continue
        difference = at_times(pose[None], times[None])[0] - real
        row = int(np.argmin(np.where(near, np.abs(times - horizon), np.inf)))
        distances.append(float(np.hypot(*difference[row, :2])))
        turns.append(float(wrapped(difference[row, 2])))
        paths.append(float(np.linalg.norm(np.diff(pose[: place + 1, :2], axis=0), axis=1).sum()))
    if not distances:
        return HorizonError(horizon, 0, *[float("nan")] * 4)
    square = float(np.sqrt(np.mean(np.square(distances))))
    yaw = float(np.degrees(np.sqrt(np.mean(np.square(turns)))))
    return HorizonError(horizon, len(distances), square, float(np.median(distances)), yaw, float(np.mean(paths)))
