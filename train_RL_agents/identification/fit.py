"""Fit of a boat's coefficients to a log, with intervals, and with verdicts on which coefficients the log determines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marinenav_env.config import VesselConfig
from marinenav_env.support.validation import require
from train_RL_agents.identification.coefficients import Coefficient, has_symmetric_mass, with_coefficients
from train_RL_agents.identification.log import BoatLog
from train_RL_agents.identification.segments import SEGMENT_SECONDS, cut_segments, divide_log, guess_initial_states
from train_RL_agents.identification.shooting import (
    HUBER_THRESHOLD,
    FitProblem,
    NormalEquations,
    Unknowns,
    estimate_noise,
    minimise,
)
from train_RL_agents.identification.simulation import TIME_STEP, Simulator, num_substeps

Array = NDArray[np.float64]
MAX_RELATIVE_WIDTH = 1.0
"""Width of an interval, over the size of the coefficient, above which the log does not determine the coefficient."""
DETERMINED = "told"
"""Verdict on a coefficient that the log determines."""
JOINTLY_DETERMINED = "told together with others only"
"""Verdict on a coefficient that the log determines only together with others."""
AT_BOUND = "at the end of its range"
"""Verdict on a coefficient whose value is one of its bounds, which the log does not determine."""
UNCERTAIN = "fitted, but the boat moves otherwise than the model"
"""Verdict on a coefficient of a model whose residuals are not those of noise, so that its interval may miss."""
MAX_AUTOCORRELATION = 0.1
"""Correlation of consecutive residuals above which they are not those of noise alone."""
PRESET_KEPT = "kept"
"""Verdict on a coefficient that the log does not determine, so that it has the preset's value."""
_COARSE_TOLERANCE, _FINE_TOLERANCE = 1.0, 0.02
"""Decreases of the loss per iteration below which coarse and fine searches end."""
_MAX_COARSE_ITERATIONS, _MAX_FINE_ITERATIONS = 30, 15
"""Largest numbers of iterations of the first search, and of every other one."""
_MIN_SEGMENTS = 4
"""Smallest number of segments of a log that are fitted."""
_MAX_NOISE_RATIO = 3.0
"""Ratio of the estimated noise to that of shorter segments above which longer segments are not used."""
_NEAR_BOUND = 1e-3
"""Distance from a bound, over the scale of a coefficient, up to which a value is at it."""
_BOOTSTRAP_REPLICATES = 1000
_INTERVAL_QUANTILES = (0.025, 0.975)
"""Quantiles of the bootstrap replicates between which an interval lies."""


@dataclass(frozen=True)
class Estimate:
    """Value of a coefficient after the fit, with a 95% interval and a verdict."""

    coefficient: Coefficient
    """Coefficient with its scale and its bounds."""
    value: float
    """Fitted value, or that of the preset."""
    low: float
    """Lower end of the 95% interval."""
    high: float
    """Upper end of the 95% interval."""
    verdict: str
    """Verdict of the log: DETERMINED, JOINTLY_DETERMINED, AT_BOUND, UNCERTAIN or PRESET_KEPT."""

    @property
    def is_fitted(self) -> bool:
        """Return whether the value comes from the log."""
        return self.verdict != PRESET_KEPT


@dataclass(frozen=True)
class Fit:
    """Result of a fit: the boat whose motion fits a log best."""

    vessel: VesselConfig
    """Fitted boat."""
    estimates: tuple[Estimate, ...]
    """Coefficients after the fit, with intervals and verdicts."""
    current: tuple[float, float]
    """Velocity of the water to the north and to the east (m/s)."""
    current_width: float
    """Half of the width of the 95% interval of the current, of its wider component (m/s)."""
    noise: tuple[float, float]
    """Standard deviations of measured positions (m) and yaw (rad), which include errors of the model."""
    num_segments: int
    """Number of segments of the log in the last search."""
    num_iterations: int
    """Number of iterations of all searches together."""


def fit(
    log: BoatLog,
    vessel: VesselConfig,
    coefficients: Sequence[Coefficient],
    end_time: float,
    report: Callable[[str], None] = lambda _: None,
) -> Fit:
    """Fit the coefficients of a boat to a log.

    Args:
        log: log of the boat.
        vessel: preset, which gives all other numbers.
        coefficients: coefficients that are fitted.
        end_time: time up to which the log is used (s).
        report: callback that receives sentences on the progress.

    Raises:
        ConfigError: when gaps leave too few segments.
    """
    names = [item.name for item in coefficients]
    simulator = Simulator(vessel, names, num_substeps(vessel))
    free = list(range(len(names)))
    start = np.array([_start_value(item) for item in coefficients]) / np.array([item.scale for item in coefficients])
    problem, point, first = _fit_longer_segments(log, simulator, coefficients, end_time, start, report)
    point, equations, second = minimise(problem, point, free, _FINE_TOLERANCE, _MAX_FINE_ITERATIONS)
    kept = _choose_kept(problem, equations, point, coefficients)
    third = 0
    if kept:
        remaining = [number for number in free if number not in kept]
        scaled = point.coefficients.copy()
        scaled[kept] = problem.preset[kept]
        point, _, third = minimise(
            problem, Unknowns(scaled, point.current, point.initial), remaining, _FINE_TOLERANCE, _MAX_FINE_ITERATIONS
        )
        equations = problem.equations(point, free)
        report(f"{len(kept)} coefficients kept: {third} iterations")
    spread = _interval_offsets(problem, equations, point, free)
    ends = _interval_ends(problem, point, spread)
    widths = [_relative_width(item, *interval) for item, interval in zip(coefficients, ends, strict=True)]
    at_bound = np.minimum(point.coefficients - problem.low, problem.high - point.coefficients) < _NEAR_BOUND
    is_noise = autocorrelation(equations.residuals) <= MAX_AUTOCORRELATION
    verdicts = [
        PRESET_KEPT
        if number in kept
        else AT_BOUND
        if at_bound[number]
        else JOINTLY_DETERMINED
        if widths[number] > MAX_RELATIVE_WIDTH
        else DETERMINED
        if is_noise
        else UNCERTAIN
        for number in free
    ]
    values = point.coefficients * problem.scale
    values[kept] = [coefficients[number].preset for number in kept]
    estimates = tuple(
        Estimate(item, float(value), float(low), float(high), verdict)
        for item, value, (low, high), verdict in zip(coefficients, values, ends, verdicts, strict=True)
    )
    numbers = {item.coefficient.name: item.value for item in estimates if item.is_fitted}
    if "yDotR" in numbers and has_symmetric_mass(vessel):
        numbers["nDotV"] = numbers["yDotR"]
    return Fit(
        with_coefficients(vessel, numbers),
        estimates,
        (float(point.current[0]), float(point.current[1])),
        float(0.5 * (spread[1] - spread[0])[len(names) :].max()),
        (float(problem.noise[0]), float(problem.noise[2])),
        len(problem.segments.start_times),
        first + second + third,
    )


def autocorrelation(residuals: Array) -> float:
    """Return the correlation of consecutive residuals [E, M, 3], in standard deviations, without outliers' excess."""
    cut = residuals.clip(-HUBER_THRESHOLD, HUBER_THRESHOLD)
    return float((cut[:, 1:] * cut[:, :-1]).sum() / max(float((cut**2).sum()), 1e-12))


def _start_value(item: Coefficient) -> float:
    """Return the value that a search starts from: the preset's, but at least 0.2 s for the lag of actuators."""
    return max(item.preset, 0.2) if item.name == "lag" else item.preset


def _fit_longer_segments(
    log: BoatLog,
    simulator: Simulator,
    coefficients: Sequence[Coefficient],
    end_time: float,
    scaled: Array,
    report: Callable[[str], None],
) -> tuple[FitProblem, Unknowns, int]:
    """Return the problem with the longest segments that the model fits, its solution, and the number of iterations.

    A search with short segments converges from far away; long segments contain more information. The search starts from
    the coefficients ``scaled`` [K], divided by their scales.
    """
    current, iterations = np.zeros(2), 0
    best: tuple[FitProblem, Unknowns] | None = None
    for seconds in SEGMENT_SECONDS:
        if best is not None and len(divide_log(log, end_time, seconds)) < _MIN_SEGMENTS:
            break
        problem = _make_problem(log, simulator, coefficients, end_time, seconds)
        if best is not None:
            problem.noise = best[0].noise
        point = Unknowns(scaled, current, guess_initial_states(problem.segments))
        point, equations, done = minimise(
            problem,
            point,
            list(range(len(scaled))),
            _COARSE_TOLERANCE,
            _MAX_COARSE_ITERATIONS if best is None else _MAX_FINE_ITERATIONS,
        )
        iterations += done
        report(f"{len(problem.segments.start_times)} segments of up to {seconds:g} s: {done} iterations")
        noise = estimate_noise(problem, equations.residuals)
        if best is not None and bool((noise > _MAX_NOISE_RATIO * best[0].noise).any()):
            report(f"the model does not fit so long segments: those of up to {0.5 * seconds:g} s are used")
            break
        problem.noise, scaled, current = noise, point.coefficients, point.current
        best = problem, point
    if best is None:
        raise ValueError("no lengths of segments")
    return *best, iterations


def _make_problem(
    log: BoatLog, simulator: Simulator, coefficients: Sequence[Coefficient], end_time: float, seconds: float
) -> FitProblem:
    """Return the least-squares problem of a log up to the time ``end_time`` (s), in segments of up to ``seconds``.

    Raises:
        ConfigError: when gaps leave too few segments.
    """
    parts = divide_log(log, end_time, seconds)
    about = f"at least {_MIN_SEGMENTS} between gaps in the log"
    require(len(parts) >= _MIN_SEGMENTS, f"segments of {seconds:g} s", len(parts), about)
    longest = max(high - low for low, high in parts)
    length = float(np.ceil(longest / TIME_STEP) * TIME_STEP)
    targets = simulator.steady_states(log.commands)
    return FitProblem(simulator, coefficients, cut_segments(log, parts, targets, simulator.angle_rate, length))


# Intervals --------------------------------------------------------------------------------------


def _interval_offsets(problem: FitProblem, equations: NormalEquations, point: Unknowns, free: Sequence[int]) -> Array:
    """Return the ends [2, Q] of 95% intervals of the scaled coefficients and the current, minus the estimates.

    A bootstrap replicate draws segments with replacement, and the mean of the prior from the prior itself; so intervals
    cover errors of the model that differ between segments, and coefficients that the preset determines. They are at
    least as wide as the intervals that follow from the noise alone.

    Args:
        problem: problem that the fit has solved.
        equations: normal equations at the estimates.
        point: estimates.
        free: indices of the coefficients that are not known; the intervals of the others have no width.
    """
    count = len(problem.scale)
    unknown = np.array([*free, count, count + 1], dtype=np.int64)
    matrix, gradient = equations.eliminate_states()
    matrix, gradient = matrix[:, unknown[:, None], unknown], gradient[:, unknown]
    precision, offset = problem.prior_precision[unknown], problem.prior_offset(point)[unknown]
    segments = len(matrix)
    generator = np.random.default_rng(0)
    weights = generator.multinomial(segments, np.full(segments, 1.0 / segments), _BOOTSTRAP_REPLICATES).astype(
        np.float64
    )
    drawn = generator.standard_normal((_BOOTSTRAP_REPLICATES, len(precision))) / np.sqrt(precision)
    prior = precision * (offset - drawn)
    # At the estimates the total gradient is 0, except for kept coefficients, whose values do not minimise the loss.
    total = gradient.sum(0) + precision * offset
    left = np.einsum("bn,nij->bij", weights, matrix) + np.diag(precision)
    right = weights @ gradient + prior - total
    ends = np.quantile(-np.linalg.solve(left, right[..., None])[..., 0], _INTERVAL_QUANTILES, axis=0)
    inverse = np.linalg.inv(matrix.sum(0) + np.diag(precision))
    # Approximate quantile of Student's distribution, with as many degrees of freedom as there are segments, less one.
    width = (1.96 + 2.4 / max(segments - 1, 1)) * np.sqrt(np.diag(inverse))
    few = np.sqrt(segments / max(segments - 1.0, 1.0)) * (1.0 + 0.45 / max(segments - 1, 1))
    spread = np.zeros((2, count + 2))
    spread[:, unknown] = np.minimum(few * ends[0], -width), np.maximum(few * ends[1], width)
    return spread


def _interval_ends(problem: FitProblem, point: Unknowns, spread: Array) -> Array:
    """Return the clipped ends [K, 2] of the coefficients' intervals in their units; ``spread`` is [2, Q] and scaled."""
    count = len(problem.scale)
    ends = (point.coefficients + spread[:, :count]).clip(problem.low, problem.high) * problem.scale
    return np.asarray(ends.T)


def _relative_width(item: Coefficient, low: float, high: float) -> float:
    """Return the width of an interval divided by the size of the coefficient."""
    size = max(abs(0.5 * (low + high)), abs(item.preset), item.reference_size, 1e-12)
    return (high - low) / size


def _choose_kept(
    problem: FitProblem, equations: NormalEquations, point: Unknowns, coefficients: Sequence[Coefficient]
) -> list[int]:
    """Return the indices of the coefficients that keep the preset's value.

    Of the coefficients that the log does not determine, the one with the widest interval is kept first; then the log
    may determine others, which it determined only together with that one.
    """
    kept: list[int] = []
    while True:
        free = [number for number in range(len(coefficients)) if number not in kept]
        ends = _interval_ends(problem, point, _interval_offsets(problem, equations, point, free))
        widths = {number: _relative_width(coefficients[number], *ends[number]) for number in free}
        worst = max(free, key=lambda number: widths[number], default=None)
        if worst is None or widths[worst] <= MAX_RELATIVE_WIDTH:
            return kept
        kept.append(worst)
