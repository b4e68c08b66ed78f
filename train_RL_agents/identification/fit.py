"""Fit of a boat's coefficients to a log, with intervals and verdicts, and predictions of the rest of the log."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from scipy.stats import t as student_t

from marinenav_env.config import VesselConfig
from marinenav_env.support.validation import require
from train_RL_agents.identification.coefficients import Array, Coefficient
from train_RL_agents.identification.log import BoatLog
from train_RL_agents.identification.shooting import (
    FIRST_NOISE,
    HUBER_THRESHOLD,
    NUISANCE,
    RUN_UP_SECONDS,
    SEGMENT_SECONDS,
    Linearised,
    ShootingProblem,
    cut_segments,
    divide_log,
    estimate_noise,
    guess_initial_states,
    huber_loss,
    prediction_windows,
)
from train_RL_agents.identification.simulation import TIME_STEP, Simulator, interpolate_poses

MAX_AUTOCORRELATION = 0.1
"""Correlation of consecutive residuals above which they are not those of noise alone."""
_MAX_RELATIVE_WIDTH = 1.0
"""Width of an interval, over the size of the coefficient, above which the log does not determine the coefficient."""
_COARSE_TOLERANCE, _FINE_TOLERANCE = 5e-3, 1e-3
"""Tolerances of the searches with assumed and with estimated noise."""
_EXACT = 1e-6
"""Damping of the states when intervals are computed."""
_MIN_SEGMENTS = 4
"""Smallest number of segments of a log that are fitted."""
_NEAR_BOUND = 1e-3
"""Distance from a bound, over the scale of a coefficient, up to which a value is at it."""
HORIZONS = (5.0, 20.0, 60.0)
"""Times after which predictions are compared with the log (s)."""
_MAX_TIME_DIFFERENCE = 1.0
"""Largest time between a horizon and the measured pose that a prediction is compared with (s)."""


class Verdict(StrEnum):
    """Verdict of a log on a coefficient."""

    DETERMINED = "determined"
    JOINTLY_DETERMINED = "determined together with others only"
    AT_BOUND = "at the end of its range"
    # The residuals are not those of noise, so that intervals may miss.
    UNCERTAIN = "fitted, but the boat moves otherwise than the model"
    PRESET_KEPT = "not determined: as in the preset"


@dataclass(frozen=True)
class Estimate:
    """Value of a coefficient after the fit, with a 95% interval and a verdict."""

    coefficient: Coefficient
    value: float
    """Fitted value, or that of the preset."""
    low: float
    high: float
    verdict: Verdict


@dataclass(frozen=True)
class Fit:
    """Result of a fit: estimates of the coefficients of the boat whose motion fits a log best."""

    estimates: tuple[Estimate, ...]
    nuisance: Array
    """[2, 3] values of NUISANCE, and half of the widths of their 95% intervals."""
    noise: tuple[float, float]
    """Standard deviations of measured positions (m) and yaw (rad), which include errors of the model."""


def fit(
    log: BoatLog,
    vessel: VesselConfig,
    coefficients: Sequence[Coefficient],
    end_time: float,
    report: Callable[[str], None] = lambda _: None,
) -> Fit:
    """Fit coefficients of a boat, which has a preset, to a log up to a time (s); ``report`` receives the progress."""
    divided = [divide_log(log, end_time, seconds) for seconds in SEGMENT_SECONDS]
    allowed = f"at least {_MIN_SEGMENTS} between gaps in the log"
    require(len(divided[0]) >= _MIN_SEGMENTS, f"segments of {SEGMENT_SECONDS[0]:g} s", len(divided[0]), allowed)
    count, noise = len(coefficients), FIRST_NOISE
    simulator = Simulator(vessel, [item.name for item in coefficients])
    unknowns, scales = (*coefficients, *NUISANCE), [item.scale for item in (*coefficients, *NUISANCE)]
    # A lag of 0 tells nothing of how a larger one would do.
    first = {item.name: max(item.preset, 0.2) if item.name == "lag" else item.preset for item in unknowns}
    shared = np.array([*(first | {"yaw_offset": log.yaw_offset}).values()]) / scales
    # A search with short segments converges from far away; long segments contain more information.
    for parts in (parts for parts in divided if len(parts) >= _MIN_SEGMENTS):
        segments = cut_segments(log, parts)
        problem = ShootingProblem(simulator, unknowns, segments, noise)
        states = guess_initial_states(segments, float(shared[-1] * scales[-1]))
        best = problem.solve(shared, states, (), _COARSE_TOLERANCE)
        shared, noise = best.shared.copy(), estimate_noise(problem, best.residuals)
        report(f"fitted {len(parts)} segments of up to {segments.num_steps * TIME_STEP:.0f} s")
    problem = replace(problem, noise=noise)
    kept = _choose_kept(problem, problem.linearise(shared, best.states, damping=_EXACT))
    shared[kept] = problem.scaled("preset")[kept]
    best = problem.solve(shared, best.states_at(shared), kept, _FINE_TOLERANCE)
    if kept:
        report(f"{len(kept)} coefficients keep the values of {vessel.name}")
    exact = problem.linearise(best.shared, best.states, damping=_EXACT)
    widths, ends, relative = _intervals(problem, exact, ())
    low, high = problem.scaled("low"), problem.scaled("high")
    is_at_bound = (np.minimum(best.shared - low, high - best.shared) < _NEAR_BOUND)[:count]
    is_noise = autocorrelation(best.residuals.reshape(len(best.states), -1, 3)) <= MAX_AUTOCORRELATION
    conditions = np.isin(np.arange(count), kept), is_at_bound, relative > _MAX_RELATIVE_WIDTH
    verdicts = (Verdict.PRESET_KEPT, Verdict.AT_BOUND, Verdict.JOINTLY_DETERMINED)
    named = np.select(conditions, verdicts, Verdict.DETERMINED if is_noise else Verdict.UNCERTAIN).tolist()
    numbers = np.column_stack((best.shared[:count], ends)) * problem.scales[:count, None]
    estimates = tuple(
        Estimate(item, item.preset if verdict == Verdict.PRESET_KEPT else value, least, most, Verdict(verdict))
        for item, (value, least, most), verdict in zip(coefficients, numbers.tolist(), named, strict=True)
    )
    nuisance = np.stack((best.shared, widths))[:, count:] * problem.scales[count:]
    return Fit(estimates, nuisance, (float(problem.noise[0]), float(problem.noise[2])))


def autocorrelation(errors: Array) -> float:
    """Return the correlation of consecutive errors [E, M, 3], in standard deviations, without outliers' excess."""
    cut = errors.clip(-HUBER_THRESHOLD, HUBER_THRESHOLD)
    return float((cut[:, 1:] * cut[:, :-1]).sum() / max(float((cut**2).sum()), 1e-12))


# Intervals and verdicts -------------------------------------------------------------------------


def _intervals(problem: ShootingProblem, best: Linearised, kept: Sequence[int]) -> tuple[Array, Array, Array]:
    """Return half of the widths [Q] of 95% intervals, their clipped ends [K, 2], and their relative widths [K].

    They are of scaled unknowns; coefficients that are ``kept`` are known. The variance is the larger of that by
    the noise alone and the sandwich estimate (White, Econometrica 48, 1980) with segments as clusters, which covers
    errors of the model that differ between segments. Both include the prior.
    """
    count, known = len(best.residuals), len(problem.simulator.names)
    unknown = np.delete(np.arange(len(best.shared)), kept)
    weighted = best.slopes * huber_loss(best.residuals**2)[1][..., None]
    matrix, gradient = weighted.mT @ best.slopes, (weighted.mT @ best.residuals[..., None])[:, unknown, 0]
    gradient = gradient - gradient.mean(0)
    precision = np.eye(len(unknown))  # of the prior
    inverse = np.linalg.inv(matrix.sum(0)[np.ix_(unknown, unknown)] + precision)
    scatter = count / max(count - 1, 1) * gradient.T @ gradient
    variance = np.maximum(np.diag(inverse), np.diag(inverse @ (scatter + precision) @ inverse))
    widths = np.zeros(len(best.shared))
    widths[unknown] = student_t.ppf(0.975, max(count - 1, 1)) * np.sqrt(variance)
    ends = np.stack((best.shared - widths, best.shared + widths)).clip(problem.scaled("low"), problem.scaled("high"))
    sizes = np.abs((ends.mean(0), problem.scaled("preset"), problem.scaled("reference_size"))).max(0)
    return widths, ends.T[:known], (np.ptp(ends, axis=0) / np.maximum(sizes, 1e-12))[:known]


def _choose_kept(problem: ShootingProblem, best: Linearised) -> list[int]:
    """Return the indices of the coefficients that keep the preset's value.

    Of the coefficients that the log does not determine, the one with the widest interval is kept first; then the log
    may determine others, which it determined only together with that one.
    """
    kept: list[int] = []
    while True:
        *_, width = _intervals(problem, best, kept)
        if width.max(initial=0.0) <= _MAX_RELATIVE_WIDTH:
            return kept
        kept.append(int(width.argmax()))


# Predictions -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HorizonError:
    """Error of predictions at one horizon."""

    seconds: float
    """Horizon: time since the start of a prediction (s)."""
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
    nuisance: Sequence[float],
    begin: float,
) -> Prediction:
    """Return predictions of a boat's poses from the time ``begin`` (s) of a log on, with their errors.

    The initial state of each prediction is estimated from the 20 s before its start, and not from what it predicts. The
    boat is the preset but for the values of some coefficients; ``nuisance`` are values of NUISANCE.
    """
    horizons = [horizon for horizon in HORIZONS if begin + horizon <= log.duration] or [HORIZONS[0]]
    windows = prediction_windows(log, begin, horizons)
    starts = windows[:, 0]
    if not len(starts):
        return Prediction(np.zeros(0), np.zeros((0, 1, 3)), ())
    simulator = Simulator(vessel, [item.name for item in coefficients])
    before = cut_segments(log, [*zip(starts - RUN_UP_SECONDS, starts, strict=True)])
    problem = ShootingProblem(simulator, (*coefficients, *NUISANCE), before, FIRST_NOISE)
    shared = np.array([*values, *nuisance]) / problem.scales
    states = problem.fit_states(shared, guess_initial_states(before, nuisance[-1]))
    # The simulation goes on from the run-up, whose end is the start of the prediction.
    num_before = before.num_steps
    longer = replace(before, num_steps=num_before + round(horizons[-1] / TIME_STEP))
    poses = replace(problem, segments=longer).simulate(shared[None], states[None])[0, :, num_before:]
    return Prediction(starts, poses, tuple(_horizon_errors(log, windows, poses, horizons)))


def _horizon_errors(log: BoatLog, windows: Array, poses: Array, horizons: Sequence[float]) -> Iterator[HorizonError]:
    """Yield errors of poses [W, N + 1, 3] at the measured poses nearest to horizons (s) that windows [W, 2] reach."""
    measured = cut_segments(log, windows)
    misses = interpolate_poses(poses, measured.pose_times) - measured.pose
    for horizon in horizons:
        away = np.where(np.isfinite(measured.pose[..., 0]), np.abs(measured.pose_times - horizon), np.inf)
        reached = (away.min(1, initial=np.inf) <= _MAX_TIME_DIFFERENCE) & (np.ptp(windows, axis=1) >= horizon - 1e-9)
        if reached.any():
            x, y, turn = np.take_along_axis(misses, away.argmin(1)[:, None, None], 1)[reached, 0].T
            degrees = np.angle(np.exp(1j * turn), deg=True)
            position, yaw = math.sqrt((x**2 + y**2).mean()), math.sqrt((degrees**2).mean())
            tracks = poses[reached, : round(horizon / TIME_STEP) + 1, :2]
            path = np.linalg.norm(np.diff(tracks, axis=1), axis=2).sum(1).mean()
            yield HorizonError(horizon, position, yaw, float(path))
