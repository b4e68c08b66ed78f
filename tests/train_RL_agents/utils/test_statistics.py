"""Statistics of results, against scipy, published values and scalar code."""

import numpy as np
import pytest

from train_RL_agents.utils.statistics import (
    bootstrap,
    curve_estimate,
    estimate,
    interquartile_mean,
    paired_difference,
    poisson_interval,
    ratio_estimate,
    success_rates,
    wilson_interval,
)

SUCCESSES = np.array([[9, 4], [7, 6], [10, 3], [8, 8], [6, 2]])
"""Successes of 10 episodes: runs by tasks."""


@pytest.fixture(scope="module")
def stats():
    return pytest.importorskip("scipy.stats", reason="needs the extra dev")


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998), table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (5, 10, 0.2366, 0.7634),
        (10, 10, 0.7225, 1.0),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson_interval_against_published_values(count, total, low, high):
    assert wilson_interval(count, total) == pytest.approx((low, high), abs=5e-5)


def test_wilson_interval_ends_at_0_and_1_exactly():
    for total in range(1, 1000):
        low, high = wilson_interval(0, total)
        assert low == 0.0 < high < 1.0
        low, high = wilson_interval(total, total)
        assert 0.0 < low < 1.0 == high
        for count in {1, total // 2, total - 1} - {0, total}:
            low, high = wilson_interval(count, total)
            assert 0.0 < low < count / total < high < 1.0


@pytest.mark.parametrize(
    ("count", "low", "high"),
    # Garwood, Biometrika 28 (1936), table; for 0 it is -ln 0.025.
    [(0, 0.0, 3.689), (1, 0.0253, 5.572), (2, 0.242, 7.225), (5, 1.623, 11.668), (10, 4.795, 18.390)],
)
def test_poisson_interval_against_published_values(count, low, high):
    assert poisson_interval(count) == pytest.approx((low, high), abs=1e-3)


def test_a_ratio_of_ones_is_a_mean_with_its_standard_error(stats):
    values = np.random.default_rng(0).random(30)
    value, low, high = ratio_estimate(values, np.ones(30))
    error = stats.sem(values)
    assert value == pytest.approx(values.mean())
    ends = value - 1.959964 * error, value + 1.959964 * error
    assert (low, high) == pytest.approx(ends)


def test_a_single_episode_has_no_interval():
    assert ratio_estimate(np.array([3.0]), np.array([4.0])) == (0.75, None, None)


def test_intervals_leave_out_a_fortieth_of_the_samples_at_each_end():
    samples_in_turn = iter(range(201))
    found = bootstrap(7.0, lambda _, number: np.array([next(samples_in_turn) for _ in range(number)]), 201)
    assert found == (7.0, 5.0, 195.0)


def test_every_value_has_its_own_interval_and_those_without_samples_none():
    samples = np.stack([np.arange(41.0), np.full(41, np.nan), np.where(np.arange(41) < 1, np.nan, 10.0)], 1)
    _, low, high = bootstrap(None, lambda *_: samples, 41)
    np.testing.assert_array_equal(low, [1.0, np.nan, 10.0])
    np.testing.assert_array_equal(high, [39.0, np.nan, 10.0])


def counts(successes, episodes=10):
    return np.stack([successes, np.full_like(successes, episodes)], -1)


def test_the_rate_of_few_episodes_or_none():
    given = np.array([[[1, 1], [1, 2], [0, 0]]])
    assert success_rates(given).tolist() == [[1.0, 0.5, 0.0]]


def test_a_single_run_has_an_interval():
    value, low, high = estimate(interquartile_mean, counts(SUCCESSES[:1]))
    assert value == pytest.approx(0.65)
    assert low < 0.55 < 0.75 < high


def test_estimates_equal_scalar_code():
    """Means of bootstrap samples, run by run, task by task and episode by episode."""
    rng, means = np.random.default_rng(7), []
    for _ in range(2000):
        drawn = [int(SUCCESSES[run, task]) for task in range(2) for run in rng.integers(5, size=5)]
        means.append(sum(int(sum(rng.random(10) < count / 10)) for count in drawn) / 100)
    found = estimate(lambda scores: scores.mean((-2, -1)), counts(SUCCESSES))
    assert found == pytest.approx((0.63, *np.percentile(means, [2.5, 97.5])), abs=0.02)


def test_the_interquartile_mean_is_scipys(stats):
    scores = np.random.default_rng(0).random((2, 5, 8))
    assert interquartile_mean(scores) == pytest.approx([stats.trim_mean(each, 0.25, axis=None) for each in scores])


def test_the_band_of_several_runs_equals_scalar_code():
    rng = np.random.default_rng(0)
    values = [(rng.random((2, number)) < share).astype(float) for number, share in ((30, 0.4), (50, 0.9), (20, 0.6))]
    values[1][0, ::3] = np.nan
    samples = []
    for _ in range(2000):
        means = []
        for run in rng.integers(3, size=3):
            drawn = rng.integers(values[run].shape[1], size=values[run].shape[1])
            means.append([np.nanmean(row[drawn]) for row in values[run]])
        samples.append(np.mean(means, 0))
    low, high = np.percentile(samples, [2.5, 97.5], axis=0)
    found = curve_estimate(values)
    assert found.value == pytest.approx(np.mean([np.nanmean(each, 1) for each in values], 0))
    assert found.low == pytest.approx(low, abs=0.04)
    assert found.high == pytest.approx(high, abs=0.04)


def test_differences_of_groups_equal_scalar_code():
    rng = np.random.default_rng(0)
    first = [(rng.random(60) < share).astype(float) for share in (0.9, 0.7, 0.8)]
    second = [(rng.random(60) < share).astype(float) for share in (0.6, 0.4)]
    samples = []
    for _ in range(2000):
        scenarios = rng.integers(60, size=60)
        one, other = (
            np.mean([side[run][scenarios] for run in rng.integers(len(side), size=len(side))])
            for side in (first, second)
        )
        samples.append(one - other)
    found = paired_difference(first, second)
    assert found.value == pytest.approx(np.mean(first) - np.mean(second))
    ends = np.percentile(samples, [2.5, 97.5])
    assert (found.low, found.high) == pytest.approx(tuple(ends), abs=0.03)


def test_the_difference_of_two_runs_is_that_of_episodes_won_and_lost():
    first = np.array([1.0] * 120 + [0.0] * 80 + [1.0] * 300)
    second = np.array([0.0] * 120 + [1.0] * 380)
    groups, pairs = paired_difference([first], [second]), ratio_estimate(first - second, np.ones(500))
    assert groups == pytest.approx(pairs, abs=0.01)
