"""Fit of a boat's coefficients to a log, with intervals, and with verdicts on which coefficients the log determines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marinenav_env.config import VesselConfig
from marinenav_env.support.validation import require
from marinenav_env.vessels import UNITS_BY_SETTING
from train_RL_agents.identification.coefficients import Coefficient
from train_RL_agents.identification.log import BoatLog
from train_RL_agents.identification.shooting import (
    FIRST_NOISE,
    HUBER_THRESHOLD,
    SEGMENT_SECONDS,
    Linearised,
    Nuisance,
    ShootingProblem,
    cut_segments,
    divide_log,
    estimate_noise,
    guess_initial_states,
)
from train_RL_agents.identification.simulation import Simulator, num_substeps

Array = NDArray[np.float64]
DETERMINED = "determined"
"""Verdict on a coefficient that the log determines."""
JOINTLY_DETERMINED = "determined together with others only"
"""Verdict on a coefficient that the log determines only together with others."""
AT_BOUND = "at the end of its range"
"""Verdict on a coefficient whose value is one of its bounds, which the log does not determine."""
UNCERTAIN = "fitted, but the boat moves otherwise than the model"
"""Verdict on a coefficient of a model whose residuals are not those of noise, so that its interval may miss."""
PRESET_KEPT = "not determined: as in the preset"
"""Verdict on a coefficient that the log does not determine, so that it has the preset's value."""
MAX_AUTOCORRELATION = 0.1
"""Correlation of consecutive residuals above which they are not those of noise alone."""
_MAX_RELATIVE_WIDTH = 1.0
"""Width of an interval, over the size of the coefficient, above which the log does not determine the coefficient."""
_MAX_NOISE_RATIO = 3.0
"""Ratio of the estimated noise to that of shorter segments above which longer segments are not used."""
_COARSE_TOLERANCE, _FINE_TOLERANCE = 5e-3, 1e-3
"""Tolerances of the searches with assumed and with estimated noise."""
_EXACT = 1e-6
"""Damping of the states when intervals are computed."""
_MIN_SEGMENTS = 4
"""Smallest number of segments of a log that are fitted."""
_NEAR_BOUND = 1e-3
"""Distance from a bound, over the scale of a coefficient, up to which a value is at it."""
_BOOTSTRAP_REPLICATES = 1000
_INTERVAL_QUANTILES = (0.025, 0.975)
"""Quantiles of the bootstrap replicates between which an interval lies."""


@dataclass(frozen=True)
class Estimate:
    """Value of a coefficient after the fit, with a 95% interval and a verdict."""

    coefficient: Coefficient
    value: float
    """Fitted value, or that of the preset."""
    low: float
    high: float
    verdict: str
    """Verdict of the log: DETERMINED, JOINTLY_DETERMINED, AT_BOUND, UNCERTAIN or PRESET_KEPT."""

    @property
    def row(self) -> dict[str, Any]:
        """Return the estimate as a row of a table."""
        item = self.coefficient
        about = {"coefficient": item.name, "unit": UNITS_BY_SETTING[item.name], "preset": item.preset}
        return about | {"value": self.value, "low": self.low, "high": self.high, "verdict": self.verdict}

    @property
    def is_fitted(self) -> bool:
        """Return whether the value comes from the log."""
        return self.verdict != PRESET_KEPT

    @property
    def is_undetermined(self) -> bool:
        """Return whether other manoeuvres would determine the value."""
        return self.verdict not in (DETERMINED, UNCERTAIN)


@dataclass(frozen=True)
class Fit:
    """Result of a fit: estimates of the coefficients of the boat whose motion fits a log best."""

    estimates: tuple[Estimate, ...]
    nuisance: Nuisance
    nuisance_width: Nuisance
    """Half of the widths of their 95% intervals."""
    noise: tuple[float, float]
    """Standard deviations of measured positions (m) and yaw (rad), which include errors of the model."""
    num_segments: int


def fit(
    log: BoatLog,
    vessel: VesselConfig,
    coefficients: Sequence[Coefficient],
    end_time: float,
    report: Callable[[str], None] = lambda _: None,
) -> Fit:
    """Fit coefficients of a boat, which has a preset, to a log up to a time (s); ``report`` receives the progress."""
    count, everything = len(coefficients), range(len(coefficients))
    problem, best = _fit_longer_segments(log, vessel, coefficients, end_time, report)
    best = problem.solve(best.shared, best.states, everything, _FINE_TOLERANCE)
    kept = _choose_kept(problem, problem.linearise(best.shared, best.states, damping=_EXACT))
    if kept:
        shared = best.shared.copy()
        shared[kept] -= problem.prior_offset(shared)[kept]
        free = [number for number in everything if number not in kept]
        best = problem.solve(shared, best.states_at(shared), free, _FINE_TOLERANCE)
        report(f"{len(kept)} coefficients keep the values of {vessel.name}")
    exact = problem.linearise(best.shared, best.states, damping=_EXACT)
    spread = _interval_offsets(problem, exact, everything)
    ends = _interval_ends(problem, best, spread)
    verdicts = _verdicts(problem, best, ends, kept)
    estimates = tuple(
        Estimate(
            item, item.preset if verdict == PRESET_KEPT else float(share * item.scale), float(low), float(high), verdict
        )
        for item, share, (low, high), verdict in zip(coefficients, best.shared[:count], ends, verdicts, strict=True)
    )
    nuisance, width = best.shared[count:], 0.5 * (spread[1] - spread[0])[count:]
    noise = float(problem.noise[0]), float(problem.noise[2])
    return Fit(estimates, Nuisance(*nuisance.tolist()), Nuisance(*width.tolist()), noise, len(best.states))


def autocorrelation(errors: Array) -> float:
    """Return the correlation of consecutive errors [E, M, 3], in standard deviations, without outliers' excess."""
    cut = errors.clip(-HUBER_THRESHOLD, HUBER_THRESHOLD)
    return float((cut[:, 1:] * cut[:, :-1]).sum() / max(float((cut**2).sum()), 1e-12))


def _fit_longer_segments(
    log: BoatLog,
    vessel: VesselConfig,
    coefficients: Sequence[Coefficient],
    end_time: float,
    report: Callable[[str], None],
) -> tuple[ShootingProblem, Linearised]:
    """Return the problem with the longest segments that the model fits, and its solution.

    A search with short segments converges from far away; long segments contain more information.
    """
    simulator = Simulator(vessel, [item.name for item in coefficients], num_substeps(vessel))
    solved: tuple[ShootingProblem, Linearised] | None = None
    for seconds in SEGMENT_SECONDS:
        parts = divide_log(log, end_time, seconds)
        if solved is not None and len(parts) < _MIN_SEGMENTS:
            break
        about = f"at least {_MIN_SEGMENTS} between gaps in the log"
        require(len(parts) >= _MIN_SEGMENTS, f"segments of {seconds:g} s", len(parts), about)
        segments = cut_segments(log, parts, max(high - low for low, high in parts))
        noise = FIRST_NOISE if solved is None else solved[0].noise
        problem = ShootingProblem(simulator, coefficients, segments, noise)
        # A lag of 0 tells nothing of how a larger one would do.
        first = [max(item.preset, 0.2) if item.name == "lag" else item.preset for item in coefficients]
        shared = problem.scaled(first, Nuisance(yaw_offset=log.yaw_offset)) if solved is None else solved[1].shared
        states = guess_initial_states(segments, float(shared[-1]))
        best = problem.solve(shared, states, range(len(coefficients)), _COARSE_TOLERANCE)
        report(f"fitted {len(parts)} segments of up to {seconds:g} s")
        noise = estimate_noise(problem, best.residuals)
        if solved is not None and bool((noise > _MAX_NOISE_RATIO * solved[0].noise).any()):
            report("the model does not fit so long segments: the shorter ones are used")
            break
        solved = replace(problem, noise=noise), best
    if solved is None:
        raise ValueError("no lengths of segments")
    return solved


# Intervals and verdicts -------------------------------------------------------------------------


def _interval_offsets(problem: ShootingProblem, best: Linearised, free: Sequence[int]) -> Array:
    """Return the ends [2, Q] of 95% intervals of the shared unknowns, minus the estimates.

    A bootstrap replicate draws segments with replacement, and the mean of the prior from the prior itself; so intervals
    cover errors of the model that differ between segments, and coefficients that the preset determines. They are at
    least as wide as the intervals that follow from the noise alone. Only coefficients that are ``free`` are unknown.
    """
    unknown = np.array([*free, *range(len(problem.coefficients), len(best.shared))])
    matrix, gradient = best.information
    matrix, gradient, segments = matrix[:, unknown[:, None], unknown], gradient[:, unknown], len(best.states)
    precision = problem.prior_std[unknown] ** -2
    generator = np.random.default_rng(0)
    weights = generator.multinomial(segments, np.full(segments, 1.0 / segments), _BOOTSTRAP_REPLICATES) * 1.0
    drawn = generator.standard_normal((_BOOTSTRAP_REPLICATES, len(unknown))) * np.sqrt(precision)
    # At the estimates the total gradient is 0, except for kept coefficients, whose values do not minimise the loss.
    right = weights @ gradient - gradient.sum(0) - drawn
    left = np.einsum("bn,nij->bij", weights, matrix) + np.diag(precision)
    ends = np.quantile(-np.linalg.solve(left, right[..., None])[..., 0], _INTERVAL_QUANTILES, axis=0)
    inverse = np.linalg.inv(matrix.sum(0) + np.diag(precision))
    # Approximate quantile of Student's distribution, with as many degrees of freedom as there are segments, less one.
    width = (1.96 + 2.4 / max(segments - 1, 1)) * np.sqrt(np.diag(inverse))
    few = np.sqrt(segments / max(segments - 1.0, 1.0)) * (1.0 + 0.45 / max(segments - 1, 1))
    spread = np.zeros((2, len(best.shared)))
    spread[:, unknown] = np.minimum(few * ends[0], -width), np.maximum(few * ends[1], width)
    return spread


def _interval_ends(problem: ShootingProblem, best: Linearised, spread: Array) -> Array:
    """Return the clipped ends [K, 2] of the coefficients' intervals in their units; ``spread`` is [2, Q] and scaled."""
    ends = (best.shared + spread).clip(*problem.bounds).T[: len(problem.coefficients)]
    return np.asarray(ends * np.array([[item.scale] for item in problem.coefficients]))


def _relative_width(item: Coefficient, low: float, high: float) -> float:
    """Return the width of an interval divided by the size of the coefficient."""
    return (high - low) / max(abs(0.5 * (low + high)), abs(item.preset), item.reference_size, 1e-12)


def _choose_kept(problem: ShootingProblem, best: Linearised) -> list[int]:
    """Return the indices of the coefficients that keep the preset's value.

    Of the coefficients that the log does not determine, the one with the widest interval is kept first; then the log
    may determine others, which it determined only together with that one.
    """
    kept: list[int] = []
    while True:
        free = [number for number in range(len(problem.coefficients)) if number not in kept]
        ends = _interval_ends(problem, best, _interval_offsets(problem, best, free))
        widths = {number: _relative_width(problem.coefficients[number], *ends[number]) for number in free}
        worst = max(free, key=lambda number: widths[number], default=None)
        if worst is None or widths[worst] <= _MAX_RELATIVE_WIDTH:
            return kept
        kept.append(worst)


def _verdicts(problem: ShootingProblem, best: Linearised, ends: Array, kept: Sequence[int]) -> list[str]:
    """Return the verdicts [K] of the log on coefficients whose intervals have the ends [K, 2]."""
    low, high = problem.bounds
    is_kept = np.isin(np.arange(len(ends)), kept)
    is_at_bound = (np.minimum(best.shared - low, high - best.shared) < _NEAR_BOUND)[: len(ends)]
    widths = [_relative_width(item, *pair) for item, pair in zip(problem.coefficients, ends, strict=True)]
    is_noise = autocorrelation(best.residuals.reshape(len(best.states), -1, 3)) <= MAX_AUTOCORRELATION
    conditions = is_kept, is_at_bound, np.array(widths) > _MAX_RELATIVE_WIDTH
    verdicts = PRESET_KEPT, AT_BOUND, JOINTLY_DETERMINED
    return [str(name) for name in np.select(conditions, verdicts, DETERMINED if is_noise else UNCERTAIN)]
