"""Statistics over runs and tasks, against the package rliable and by hand."""

import numpy as np
import pytest

from train_RL_agents.evaluation.aggregates import (
    estimate,
    improvement,
    interquartile_mean,
    paired_difference,
    profile,
    rates,
)

OURS = np.array([[9, 4], [7, 6], [10, 3], [8, 8], [6, 2]])
THEIRS = np.array([[5, 4], [9, 2], [6, 6], [4, 3]])
"""Successes of 10 episodes: runs by tasks."""


def counts(successes, episodes=10):
    return np.stack([successes, np.full_like(successes, episodes)], -1)


def test_rates_are_shares_of_the_episodes():
    assert rates(counts(OURS))[0].tolist() == [0.9, 0.4]


def test_the_rate_of_few_episodes_or_none():
    given = np.array([[[1, 1], [1, 2], [0, 0]]])
    assert rates(given).tolist() == [[1.0, 0.5, 0.0]]


def test_the_interquartile_mean_is_that_of_the_middle_half():
    assert interquartile_mean(np.arange(8.0)[None] / 8) == pytest.approx((2 + 3 + 4 + 5) / 32)
    assert interquartile_mean(np.array([[0.25]])) == 0.25


def test_ties_count_half():
    assert improvement(np.array([[0.5], [1.0]]), np.array([[0.5], [0.0]])) == 7 / 8


def test_a_profile_is_the_share_above_each_threshold():
    found = profile(np.array([[0.2, 0.6], [0.6, 1.0]]), np.array([0.0, 0.2, 0.6, 1.0]))
    assert found.tolist() == [1.0, 0.75, 0.25, 0.0]


def test_episodes_widen_the_interval_and_give_one_to_a_single_run():
    one = counts(OURS[:1])
    value, low, high = estimate(interquartile_mean, one, episodes=False)
    assert value == low == high == pytest.approx(0.65)
    _, low, high = estimate(interquartile_mean, one)
    assert low < 0.55 < 0.75 < high


def test_every_value_of_a_statistic_has_its_own_interval():
    thresholds = np.array([0.3, 0.5, 0.85])
    found = estimate(lambda scores: profile(scores, thresholds), counts(OURS), draws=40)
    for number, threshold in enumerate(thresholds):
        one = estimate(lambda scores, at=threshold: profile(scores, np.array([at])), counts(OURS),
                       draws=40)  # fmt: skip
        assert [each[number] for each in found] == [each[0] for each in one]


def test_differences_on_the_same_scenarios_cancel_their_difficulty():
    hard = np.random.default_rng(0).random(400) < 0.5
    ours = [np.where(hard, 0.0, 1.0)] * 2
    theirs = [np.where(hard, 0.0, 1.0) * (np.arange(400) >= 40)] * 3
    value, low, high = paired_difference(ours, theirs)
    lost = float((~hard[:40]).sum()) / 400
    assert value == pytest.approx(lost)
    assert high - low < 4 * 2 * np.sqrt(lost / 400)
    assert low < lost < high


def test_numbers_of_rliable_are_met():
    """rliable 1.2, 3,000 bootstrap samples."""
    for given, point, ends in ((OURS, 0.65, (0.517, 0.783)), (THEIRS, 0.475, (0.35, 0.6))):
        value, low, high = estimate(interquartile_mean, counts(given), episodes=False)
        assert value == pytest.approx(point)
        assert (low, high) == pytest.approx(ends, abs=0.03)
    value, low, high = estimate(improvement, counts(OURS), counts(THEIRS), episodes=False)
    assert value == pytest.approx(0.7)
    assert (low, high) == pytest.approx((0.4375, 0.925), abs=0.03)


def means_drawn(draws, episodes):
    """Mean scores of bootstrap samples of OURS, run by run and task by task."""
    coins, means = np.random.default_rng(0), []
    for _ in range(draws):
        chosen = coins.integers(5, size=(5, 2))
        share = np.array([[OURS[chosen[run, task], task] / 10 for task in range(2)]
                          for run in range(5)])  # fmt: skip
        if episodes:
            share = coins.binomial(10, share) / 10
        means.append(sum(map(sum, share.tolist())) / 10)
    return sorted(means)


@pytest.mark.parametrize("episodes", [True, False])
def test_intervals_leave_out_a_fortieth_of_the_samples_at_each_end(episodes):
    means = means_drawn(201, episodes)
    value, low, high = estimate(np.mean, counts(OURS), episodes=episodes, draws=201)
    assert (value, low, high) == pytest.approx((0.63, means[5], means[195]))


def test_an_interval_is_of_2000_samples():
    seen = []
    estimate(lambda scores: seen.append(scores.shape) or 0.0, counts(OURS))
    assert seen == [(5, 2)] * 2001


def test_differences_equal_scalar_code():
    ours, theirs = [[1, 0, 1, 1, 1]] * 3, [[0, 0, 1, 0, 1], [0, 1, 0, 0, 1]]
    coins, found = np.random.default_rng(0), []
    for _ in range(2000):
        scenarios = coins.integers(5, size=5).tolist()
        one, two = ([side[run] for run in coins.integers(len(side), size=len(side))]
                    for side in (ours, theirs))  # fmt: skip
        rates_ = [sum(run[k] for run in side for k in scenarios) / (5 * len(side))
                  for side in (one, two)]  # fmt: skip
        found.append(rates_[0] - rates_[1])
    sides = [[np.array(run, float) for run in side] for side in (ours, theirs)]
    value, low, high = paired_difference(*sides)
    assert value == pytest.approx(0.4)
    assert (low, high) == pytest.approx(tuple(np.percentile(found, [2.5, 97.5])))


@pytest.mark.slow
def test_rliable_computes_the_same():
    metrics = pytest.importorskip("rliable.metrics", reason="rliable is not installed")
    library = pytest.importorskip("rliable.library")
    scores = {"ours": rates(counts(OURS)), "theirs": rates(counts(THEIRS))}
    points, ends = library.get_interval_estimates(
        scores, lambda each: np.array([metrics.aggregate_iqm(each)]), reps=5000
    )
    for name, given in (("ours", OURS), ("theirs", THEIRS)):
        value, low, high = estimate(interquartile_mean, counts(given), episodes=False)
        assert value == pytest.approx(points[name][0])
        assert (low, high) == pytest.approx(ends[name][:, 0], abs=0.03)
    pairs = {"pair": (scores["ours"], scores["theirs"])}
    points, ends = library.get_interval_estimates(
        pairs, metrics.probability_of_improvement, reps=5000
    )
    value, low, high = estimate(improvement, counts(OURS), counts(THEIRS), episodes=False)
    assert value == pytest.approx(points["pair"])
    assert (low, high) == pytest.approx(ends["pair"][:, 0], abs=0.05)
    thresholds = np.linspace(0.0, 1.0, 11)
    shares, _ = library.create_performance_profile(scores, thresholds, reps=100)
    assert profile(scores["ours"], thresholds) == pytest.approx(shares["ours"])
