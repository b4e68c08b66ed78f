"""What several runs say together about a method: interquartile means, and who is better.

Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice, 2021. A score
is the success rate of a run on a task, which is a level or a group of a suite. Without the
variation of episodes, values and intervals are those of the package rliable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Counts = NDArray[Any]
"""Successes and episodes of N runs on M tasks, [N, M, 2]."""
DRAWS = 2000
"""Bootstrap samples."""


class Estimate(NamedTuple):
    """A value with the ends of its 95% interval."""

    value: Any
    low: Any
    high: Any


def rates(counts: Counts) -> Array:
    """Scores [N, M]."""
    return np.asarray(counts[..., 0] / np.maximum(counts[..., 1], 1), np.float64)


def interquartile_mean(scores: Array) -> float:
    """Mean of the middle half of all scores [N, M]."""
    ordered = np.sort(scores, axis=None)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def improvement(ours: Array, theirs: Array) -> float:
    """Probability that a run of ours [N, M] has a higher score on a task than one of theirs [K, M].

    The mean over tasks of the share of pairs of runs, ties counting half.
    """
    gap = ours[:, None] - theirs[None]
    return float(((gap > 0.0) + 0.5 * (gap == 0.0)).mean())


def profile(scores: Array, thresholds: Array) -> Array:
    """Share of the scores [N, M] above each threshold [T]."""
    return np.asarray((scores[..., None] > thresholds).mean((0, 1)), np.float64)


def estimate(
    statistic: Callable[..., Any], *groups: Counts, episodes: bool = True, draws: int = DRAWS
) -> Estimate:
    """A statistic of groups of runs with a stratified percentile bootstrap.

    Args:
        statistic: from the scores [N, M] of each group to a value or values [T].
        groups: counts of each.
        episodes: resample the episodes of every run, too, so that there is an interval also for a
            single run; else only runs are drawn, separately for every task.
        draws: bootstrap samples.
    """
    coins = np.random.default_rng(0)
    samples = [statistic(*(_resampled(each, coins, episodes) for each in groups))
               for _ in range(draws)]  # fmt: skip
    low, high = np.percentile(samples, [2.5, 97.5], axis=0)
    return Estimate(statistic(*map(rates, groups)), low, high)


def _resampled(counts: Counts, coins: np.random.Generator, episodes: bool) -> Array:
    rows = coins.integers(len(counts), size=counts.shape[:2])
    chosen = np.take_along_axis(counts, rows[..., None], axis=0)
    if not episodes:
        return rates(chosen)
    total = np.maximum(chosen[..., 1], 1)
    return np.asarray(coins.binomial(total, rates(chosen)) / total, np.float64)


def paired_difference(ours: Sequence[Array], theirs: Sequence[Array]) -> Estimate:
    """Difference of success rates of two groups of runs on the same scenarios.

    The bootstrap draws runs of each group, and scenarios for all of them together.

    Args:
        ours: successes [K] of each run.
        theirs: of the other group, on the same scenarios.
    """
    coins, sides = np.random.default_rng(0), [np.stack(each) for each in (ours, theirs)]

    def sample() -> float:
        columns = coins.integers(sides[0].shape[1], size=sides[0].shape[1])
        means = [each[coins.integers(len(each), size=len(each))].mean(0) for each in sides]
        return float((means[0] - means[1])[columns].mean())

    low, high = np.percentile([sample() for _ in range(DRAWS)], [2.5, 97.5])
    return Estimate(float(sides[0].mean() - sides[1].mean()), float(low), float(high))
