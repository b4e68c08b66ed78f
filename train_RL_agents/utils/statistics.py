"""Statistics of results: shares, means and differences, each with its 95% interval.

The interquartile mean of several runs is that of Agarwal et al., Deep Reinforcement Learning at the Edge of the
Statistical Precipice, 2021. A score is the success rate of a run on a task, which is a level or a group of a suite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Counts = NDArray[Any]
"""Numbers of successes and of all episodes of N runs on M tasks, [N, M, 2]."""
Z_95 = 1.959964
"""97.5% quantile of the standard normal distribution, for central intervals of 95%."""
BOOTSTRAP_SAMPLES = 2000
CURVE_BOOTSTRAP_SAMPLES = 500
"""Number of bootstrap samples where every point of a curve has an interval."""
_BLOCK_SIZE = 250
"""Largest number of bootstrap samples that are drawn together, to limit memory."""


class Estimate(NamedTuple):
    """A value with the ends of its 95% interval, which are None, or both the value, if it has no interval."""

    value: Any
    low: Any
    high: Any

    def entries(self, name: str) -> dict[str, Any]:
        """Return the value under a name, and the ends of its interval with ``_low`` and ``_high`` after the name."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


# Shares, means and ratios -----------------------------------------------------------------------


def wilson_interval(count: int, total: int) -> tuple[float, float]:
    """Return the 95% confidence interval of count / total (Wilson, JASA 1927); (0, 1) for a total of 0."""
    if total == 0:
        return 0.0, 1.0
    share, z = count / total, Z_95
    centre = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    half *= z / (1 + z * z / total)
    # The ends are exact where they are 0 or 1, without rounding errors.
    return (0.0 if count == 0 else centre - half), (1.0 if count == total else centre + half)


def share_estimate(count: int, total: int) -> Estimate:
    """Estimate a share with Wilson's interval; all is None for a total of 0."""
    return Estimate(count / total, *wilson_interval(count, total)) if total else Estimate(None, None, None)


@lru_cache(maxsize=1024)
def poisson_interval(count: int) -> tuple[float, float]:
    """Return the exact 95% confidence interval of the mean of a Poisson variable (Garwood, Biometrika 1936)."""
    from scipy.special import gammaincinv

    low = float(gammaincinv(count, 0.025)) if count else 0.0
    return low, float(gammaincinv(count + 1, 0.975))


def hours_per(event: str, hours: float, count: int) -> dict[str, float | None]:
    """Return ``hours_per_EVENT`` with the ends of its exact 95% Poisson interval, ``_low`` and ``_high``, or None."""
    low, high = poisson_interval(count)
    estimate = Estimate(hours / count, hours / high, hours / low) if count else Estimate(None, hours / high, None)
    return estimate.entries(f"hours_per_{event}")


def ratio_estimate(values: Array, counts: Array) -> Estimate:
    """Estimate a ratio of sums over independent episodes, with a normal interval; its ends are None for one episode."""
    ratio, number = float(values.sum() / counts.sum()), len(values)
    if number == 1:
        return Estimate(ratio, None, None)
    rest = float(((values - ratio * counts) ** 2).sum()) * number / (number - 1)
    half = Z_95 * math.sqrt(rest) / float(counts.sum())
    return Estimate(ratio, ratio - half, ratio + half)


# The bootstrap ----------------------------------------------------------------------------------


def bootstrap(
    value: Any, sample: Callable[[np.random.Generator, int], Array], draws: int = BOOTSTRAP_SAMPLES
) -> Estimate:
    """Estimate the 95% interval of a statistic, a number or [T], by percentiles of its resampled values.

    ``sample`` returns a number B of these, [B] or [B, T]; nan where a sample has no value.
    """
    rng = np.random.default_rng(0)
    sizes = [min(_BLOCK_SIZE, draws - done) for done in range(0, draws, _BLOCK_SIZE)]
    samples = np.concatenate([sample(rng, size) for size in sizes])
    empty = np.isnan(samples).all(0)
    ends = np.nanpercentile(np.where(empty, 0.0, samples), [2.5, 97.5], axis=0)
    low, high = np.where(empty, np.nan, ends)
    return Estimate(value, low, high)


# Several runs -----------------------------------------------------------------------------------


def success_rates(counts: Counts) -> Array:
    """Return the success rates [..., N, M] of N runs on M tasks, from their Counts [..., N, M, 2]."""
    return np.asarray(counts[..., 0] / np.maximum(counts[..., 1], 1), np.float64)


def interquartile_mean(scores: Array) -> Any:
    """Return the mean [...] of the middle half of all scores [..., N, M] of N runs on M tasks."""
    ordered = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    number = ordered.shape[-1]
    return ordered[..., number // 4 : number - number // 4].mean(-1)


def estimate(statistic: Callable[[Array], Any], counts: Counts) -> Estimate:
    """Estimate a statistic of the scores [..., N, M] of runs with a stratified bootstrap.

    For every task runs are drawn, and their episodes, so that there is an interval even for a single run.
    """

    def sample(rng: np.random.Generator, number: int) -> Array:
        rows = rng.integers(len(counts), size=(number, *counts.shape[:2]))
        chosen = np.take_along_axis(counts[None], rows[..., None], axis=1)
        total = np.maximum(chosen[..., 1], 1)
        return np.asarray(statistic(rng.binomial(total, success_rates(chosen)) / total))

    return bootstrap(statistic(success_rates(counts)), sample)


def curve_estimate(values: Sequence[Array]) -> Estimate:
    """Estimate the mean over runs of the means over episodes at every point of a curve.

    The bootstrap draws runs and, within each, episodes, so that a single run has an interval, too. An episode is drawn
    for all points at once.
    """
    counted = [(~np.isnan(run)).astype(np.float64) for run in values]
    filled = [np.nan_to_num(run) for run in values]

    def sample(rng: np.random.Generator, number: int) -> Array:
        chosen = rng.integers(len(values), size=(number, len(values)))
        means = np.empty((*chosen.shape, len(values[0])))
        for run, episodes in enumerate(run.shape[1] for run in values):
            places = chosen == run
            even = np.full(episodes, 1.0 / episodes)
            # How often each episode is drawn, [drawn, K].
            weights = rng.multinomial(episodes, even, int(places.sum())).astype(np.float64)
            means[places] = _ratio_or_nan(weights @ filled[run].T, weights @ counted[run].T)
        return _mean_without_nan(means, 1)

    mean = _mean_without_nan(np.stack([_mean_without_nan(run, 1) for run in values]), 0)
    return bootstrap(mean, sample, CURVE_BOOTSTRAP_SAMPLES)


def _mean_without_nan(values: Array, axis: int) -> Array:
    """Return the mean along an axis of the values that are not nan; nan where there are none."""
    counted = ~np.isnan(values)
    return _ratio_or_nan(np.where(counted, values, 0.0).sum(axis), counted.sum(axis))


def _ratio_or_nan(total: Array, count: Array) -> Array:
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


# Pairs on the same scenarios --------------------------------------------------------------------


def paired_difference(first: Sequence[Array], second: Sequence[Array]) -> Estimate:
    """Estimate the difference of success rates, or of returns, of two groups of runs on the same scenarios.

    The bootstrap draws runs of each group, and scenarios for all runs together.
    """
    sides = [np.stack(runs) for runs in (first, second)]
    scenarios = sides[0].shape[1]

    def sample(rng: np.random.Generator, number: int) -> Array:
        columns = rng.integers(scenarios, size=(number, scenarios))
        first, other = (runs[rng.integers(len(runs), size=(number, len(runs)))].mean(1) for runs in sides)
        return np.asarray(np.take_along_axis(first - other, columns, axis=1).mean(1))

    return bootstrap(float(sides[0].mean() - sides[1].mean()), sample)
