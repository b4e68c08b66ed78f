"""Fit of a boat's coefficients to a log, with intervals, and with verdicts on which coefficients the log determines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marinenav_env.config import VesselConfig
from marinenav_env.support.validation import require
from train_RL_agents.identification.coefficients import Coefficient, is_tied, with_values
from train_RL_agents.identification.log import BoatLog
from train_RL_agents.identification.segments import LENGTHS, cut, guess_initial, spans
from train_RL_agents.identification.shooting import Equations, Point, Problem, minimise, noise_of
from train_RL_agents.identification.simulation import STEP, Simulator, substeps_of

Array = NDArray[np.float64]
WIDEST = 1.0
"""Width of an interval, over the size of the coefficient, above which the log does not determine the coefficient."""
TOLD, TIED, KEPT = "told", "told together with others only", "kept"
"""Verdicts on a coefficient: determined by the log, determined only together with others, or kept as in the preset."""
_COARSE_GAIN, _GAIN, _COARSE, _FINE = 1.0, 0.02, 30, 15
"""Decrease of the loss per iteration below which coarse and fine searches end, and largest numbers of iterations of the
first search and of every other one."""
_LEAST_SEGMENTS, _WORSE = 4, 3.0
"""Smallest number of segments, and factor on the residuals above which longer segments are not used."""
_REPLICATES, _QUANTILES = 1000, (0.025, 0.975)
"""Number of bootstrap replicates, and the quantiles between which an interval lies."""


@dataclass(frozen=True)
class Estimate:
    """A coefficient after the fit."""

    coefficient: Coefficient
    """Coefficient with its scale and its bounds."""
    value: float
    """Fitted value, or that of the preset."""
    low: float
    """Lower end of the 95% interval."""
    high: float
    """Upper end of the 95% interval."""
    verdict: str
    """TOLD, TIED or KEPT."""

    @property
    def is_fitted(self) -> bool:
        """Return whether the value comes from the log."""
        return self.verdict != KEPT


@dataclass(frozen=True)
class Fit:
    """Boat that fits a log."""

    vessel: VesselConfig
    """Fitted boat."""
    estimates: tuple[Estimate, ...]
    """Coefficients after the fit, with intervals and verdicts."""
    current: tuple[float, float]
    """Velocity of the water to the north and to the east (m/s)."""
    current_width: float
    """Half of the width of the current's interval (m/s)."""
    noise: tuple[float, float]
    """Standard deviations of measured positions (m) and yaw (rad), which include errors of the model."""
    segments: int
    """Number of segments."""
    iterations: int
    """Number of iterations of all searches together."""


def fit(
    log: BoatLog,
    vessel: VesselConfig,
    coefficients: Sequence[Coefficient],
    end: float,
    report: Callable[[str], None] = lambda _: None,
) -> Fit:
    """Fit the coefficients of a boat to a log.

    Args:
        log: log of the boat.
        vessel: preset, which gives all other numbers.
        coefficients: coefficients that are fitted.
        end: time up to which the log is used (s).
        report: callback that receives sentences on the progress.

    Raises:
        ConfigError: when gaps leave too few segments.
    """
    names = [item.name for item in coefficients]
    simulator = Simulator(vessel, names, substeps_of(vessel))
    free = list(range(len(names)))
    start = np.array([_start(item) for item in coefficients]) / np.array([item.scale for item in coefficients])
    problem, point, first = _lengthen(log, simulator, coefficients, end, start, report)
    point, equations, second = minimise(problem, point, free, _GAIN, _FINE)
    kept = _eliminate(problem, equations, point, coefficients)
    third = 0
    if kept:
        remaining = [number for number in free if number not in kept]
        scaled = point.scaled.copy()
        scaled[kept] = problem.preset[kept]
        point, _, third = minimise(problem, Point(scaled, point.current, point.initial), remaining, _GAIN, _FINE)
        equations = problem.equations(point, free)
        report(f"{len(kept)} coefficients kept: {third} iterations")
    spread = _spread(problem, equations, point, free)
    ends = _ends(problem, point, spread)
    widths = [_width(item, *interval) for item, interval in zip(coefficients, ends, strict=True)]
    verdicts = [KEPT if number in kept else TOLD if widths[number] <= WIDEST else TIED for number in free]
    values = point.scaled * problem.scale
    values[kept] = [coefficients[number].preset for number in kept]
    estimates = tuple(
        Estimate(item, float(value), float(low), float(high), verdict)
        for item, value, (low, high), verdict in zip(coefficients, values, ends, verdicts, strict=True)
    )
    numbers = {item.coefficient.name: item.value for item in estimates if item.is_fitted}
    if "yDotR" in numbers and is_tied(vessel):
        numbers["nDotV"] = numbers["yDotR"]
    return Fit(
        with_values(vessel, numbers),
        estimates,
        (float(point.current[0]), float(point.current[1])),
        float(0.5 * (spread[1] - spread[0])[len(names) :].max()),
        (float(problem.noise[0]), float(problem.noise[2])),
        len(problem.segments.start),
        first + second + third,
    )


def _start(item: Coefficient) -> float:
    """Return the value that a search starts from: the preset's, but a lag of at least 0.2 s, as 0 has no derivative."""
    return max(item.preset, 0.2) if item.name == "lag" else item.preset


def _lengthen(
    log: BoatLog,
    simulator: Simulator,
    coefficients: Sequence[Coefficient],
    end: float,
    scaled: Array,
    report: Callable[[str], None],
) -> tuple[Problem, Point, int]:
    """Return the problem with the longest segments that the model fits, its solution, and the number of iterations.

    A search with short segments converges from far away; long segments contain more information.
    """
    current, iterations = np.zeros(2), 0
    best: tuple[Problem, Point] | None = None
    for seconds in LENGTHS:
        if best is not None and len(spans(log, 0.0, end, seconds)) < _LEAST_SEGMENTS:
            break
        problem = _problem(log, simulator, coefficients, end, seconds)
        if best is not None:
            problem.noise = best[0].noise
        point = Point(scaled, current, guess_initial(problem.segments))
        point, equations, done = minimise(
            problem, point, list(range(len(scaled))), _COARSE_GAIN, _COARSE if best is None else _FINE
        )
        iterations += done
        report(f"{len(problem.segments.start)} segments of up to {seconds:g} s: {done} iterations")
        noise = noise_of(problem, equations.residuals)
        if best is not None and bool((noise > _WORSE * best[0].noise).any()):
            report(f"the model does not fit so long segments: those of up to {0.5 * seconds:g} s are used")
            break
        problem.noise, scaled, current = noise, point.scaled, point.current
        best = problem, point
    if best is None:
        raise ValueError("no lengths of segments")
    return *best, iterations


def _problem(
    log: BoatLog, simulator: Simulator, coefficients: Sequence[Coefficient], end: float, seconds: float
) -> Problem:
    """Return the least-squares problem of a log up to the time ``end`` (s), in segments of up to ``seconds``.

    Raises:
        ConfigError: when gaps leave too few segments.
    """
    parts = spans(log, 0.0, end, seconds)
    about = f"at least {_LEAST_SEGMENTS} between gaps in the log"
    require(len(parts) >= _LEAST_SEGMENTS, f"segments of {seconds:g} s", len(parts), about)
    longest = max(high - low for low, high in parts)
    length = float(np.ceil(longest / STEP) * STEP)
    return Problem(simulator, coefficients, cut(log, parts, simulator.targets(log.commands), length))


# Intervals --------------------------------------------------------------------------------------


def _spread(problem: Problem, equations: Equations, point: Point, free: Sequence[int]) -> Array:
    """Return the ends [2, Q] of 95% intervals, relative to the estimates.

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
    matrix, gradient = equations.reduced()
    matrix, gradient = matrix[:, unknown[:, None], unknown], gradient[:, unknown]
    precision, offset = problem.precision[unknown], problem.offset(point)[unknown]
    segments = len(matrix)
    generator = np.random.default_rng(0)
    weights = generator.multinomial(segments, np.full(segments, 1.0 / segments), _REPLICATES).astype(np.float64)
    drawn = generator.standard_normal((_REPLICATES, len(precision))) / np.sqrt(precision)
    prior = precision * (offset - drawn)
    # At the estimates the total gradient is 0, except for kept coefficients, whose values do not minimise the loss.
    total = gradient.sum(0) + precision * offset
    left = np.einsum("bn,nij->bij", weights, matrix) + np.diag(precision)
    right = weights @ gradient + prior - total
    ends = np.quantile(-np.linalg.solve(left, right[..., None])[..., 0], _QUANTILES, axis=0)
    inverse = np.linalg.inv(matrix.sum(0) + np.diag(precision))
    # Approximate quantile of Student's distribution, with as many degrees of freedom as there are segments, less one.
    width = (1.96 + 2.4 / max(segments - 1, 1)) * np.sqrt(np.diag(inverse))
    few = np.sqrt(segments / max(segments - 1.0, 1.0)) * (1.0 + 0.45 / max(segments - 1, 1))
    spread = np.zeros((2, count + 2))
    spread[:, unknown] = np.minimum(few * ends[0], -width), np.maximum(few * ends[1], width)
    return spread


def _ends(problem: Problem, point: Point, spread: Array) -> Array:
    """Return the ends [K, 2] of the coefficients' intervals in their units, clipped to their bounds."""
    count = len(problem.scale)
    ends = (point.scaled + spread[:, :count]).clip(problem.low, problem.high) * problem.scale
    return np.asarray(ends.T)


def _width(item: Coefficient, low: float, high: float) -> float:
    """Return the width of an interval over the size of the coefficient; see WIDEST."""
    size = max(abs(0.5 * (low + high)), abs(item.preset), item.reference, 1e-12)
    return (high - low) / size


def _eliminate(problem: Problem, equations: Equations, point: Point, coefficients: Sequence[Coefficient]) -> list[int]:
    """Return the indices of the coefficients that keep the preset's value.

    Of the coefficients that the log does not determine, the one with the widest interval is kept first; then the log
    may determine others, which it determined only together with that one.
    """
    kept: list[int] = []
    while True:
        free = [number for number in range(len(coefficients)) if number not in kept]
        ends = _ends(problem, point, _spread(problem, equations, point, free))
        widths = {number: _width(coefficients[number], *ends[number]) for number in free}
        worst = max(free, key=lambda number: widths[number], default=None)
        if worst is None or widths[worst] <= WIDEST:
            return kept
        kept.append(worst)
