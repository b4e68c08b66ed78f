"""Predictions of a fitted boat over the part of a log that was not fitted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from marinenav_env.config import VesselConfig
from train_RL_agents.identification.coefficients import Coefficient
from train_RL_agents.identification.log import BoatLog
from train_RL_agents.identification.shooting import (
    FIRST_NOISE,
    MAX_COMMAND_GAP,
    MAX_POSE_GAP,
    SETTLING_SECONDS,
    Nuisance,
    ShootingProblem,
    cut_segments,
    find_gaps,
    guess_initial_states,
    scale_values,
)
from train_RL_agents.identification.simulation import TIME_STEP, Simulator, interpolate_poses, num_substeps

Array = NDArray[np.float64]
HORIZONS = (5.0, 20.0, 60.0)
"""Times after which predictions are compared with the log (s)."""
START_INTERVAL = 5.0
"""Time between the starts of two predictions (s)."""
_RUN_UP_SECONDS = 20.0
"""Time before a prediction from which its initial state is estimated (s)."""
_MAX_TIME_DIFFERENCE = 1.0
"""Largest time between a horizon and the measured pose that a prediction is compared with (s)."""


@dataclass(frozen=True)
class HorizonError:
    """Error of predictions at one horizon."""

    seconds: float
    """Horizon: time since the start of a prediction (s)."""
    count: int
    position: float
    """Root of the mean squared distance from measured positions (m)."""
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
    errors: tuple[HorizonError, ...]
    """Errors at the horizons that the log is long enough for."""


def predict(
    log: BoatLog,
    vessel: VesselConfig,
    coefficients: Sequence[Coefficient],
    values: Sequence[float],
    nuisance: Nuisance,
    begin: float,
) -> Prediction:
    """Return predictions of a boat's poses from the time ``begin`` (s) of a log on, with their errors.

    The initial state of each prediction is estimated from the 20 s before its start, and not from what it predicts. The
    boat is the preset but for the values of some coefficients; the nuisance is that of the log.
    """
    horizons = [horizon for horizon in HORIZONS if begin + horizon <= log.duration] or [HORIZONS[0]]
    windows, longest = prediction_windows(log, begin, horizons), horizons[-1]
    starts, ends = windows.T
    if not len(starts):
        return Prediction(np.zeros(0), np.zeros((0, 1, 3)), ())
    simulator = Simulator(vessel, [item.name for item in coefficients], num_substeps(vessel))
    begins = starts - _RUN_UP_SECONDS
    before = cut_segments(log, [*zip(begins, starts, strict=True)], _RUN_UP_SECONDS)
    problem = ShootingProblem(simulator, coefficients, before, FIRST_NOISE)
    shared = scale_values(coefficients, values, nuisance)
    states = problem.fit_states(shared, guess_initial_states(before, nuisance.yaw_offset))
    # The simulation goes on from the run-up, whose end is the start of the prediction.
    whole = cut_segments(log, [*zip(begins, ends, strict=True)], _RUN_UP_SECONDS + longest)
    poses = replace(problem, segments=whole).simulate(shared[None], states[None])[0]
    poses = poses[:, round(_RUN_UP_SECONDS / TIME_STEP) :]
    stamp = whole.pose_times - _RUN_UP_SECONDS
    measured = np.where((stamp >= 0.0)[..., None], whole.pose, np.nan)
    stamp = np.where(np.isfinite(measured[..., 0]), stamp, 0.0)
    errors = tuple(_horizon_error(horizon, poses, stamp, measured, ends - starts) for horizon in horizons)
    return Prediction(starts, poses, tuple(error for error in errors if error.count))


def prediction_windows(log: BoatLog, begin: float, horizons: Sequence[float]) -> Array:
    """Return the windows [W, 2] of a log, from a time on, in which a boat is predicted: their starts and ends (s).

    A prediction ends at the largest of the ascending horizons (s), or earlier where the commands are not known any
    more. It reaches at least the smallest horizon, and has poses and commands in the run-up before it.
    """
    poses, windows = log.time[np.isfinite(log.pose[:, 0])], []
    gaps = find_gaps(log.time, MAX_COMMAND_GAP)
    for start in np.arange(max(begin, _RUN_UP_SECONDS), log.duration - horizons[0] + 1e-9, START_INTERVAL):
        run_up = start - _RUN_UP_SECONDS
        inside = poses[(poses >= run_up) & (poses <= start)]
        if len(inside) < 10 or inside[0] > start - 0.5 * _RUN_UP_SECONDS:
            continue
        # Commands are known until the first gap of rows after which the actuators have not settled in the run-up.
        end = min(start + horizons[-1], log.duration, *(low for low, high in gaps if high + SETTLING_SECONDS > run_up))
        if np.diff(inside, append=start).max() <= MAX_POSE_GAP and end >= start + horizons[0] - 1e-9:
            windows.append((start, end))
    return np.reshape(windows, (-1, 2))


def _horizon_error(horizon: float, poses: Array, stamp: Array, measured: Array, ends: Array) -> HorizonError:
    """Return the error at the measured pose nearest to a horizon (s); NaN if no prediction is long enough.

    Measured poses [W, M, 3] have times [W, M] since the starts of predictions (s) that are ``ends`` [W] long (s).
    """
    far = np.where(np.isfinite(measured[..., 0]), np.abs(stamp - horizon), np.inf)
    reached = (far.min(1) <= _MAX_TIME_DIFFERENCE) & (ends >= horizon - 1e-9)
    if not reached.any():
        return HorizonError(horizon, 0, *[math.nan] * 3)
    rows = np.flatnonzero(reached), far.argmin(1)[reached]
    x, y, turn = (interpolate_poses(poses, stamp) - measured)[rows].T
    square, turns = x**2 + y**2, np.angle(np.exp(1j * turn), deg=True)
    track = poses[reached, : round(horizon / TIME_STEP) + 1, :2]
    path = np.linalg.norm(np.diff(track, axis=1), axis=2).sum(1).mean()
    errors = math.sqrt(square.mean()), math.sqrt((turns**2).mean())
    return HorizonError(horizon, len(square), *errors, float(path))
