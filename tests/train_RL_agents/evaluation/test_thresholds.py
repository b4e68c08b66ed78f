"""Tests of the thresholds of a pass against the metrics of an entry."""

import pytest

from tests.train_RL_agents.entries import entry, result
from train_RL_agents.evaluation.frozen import FROZEN_SUITES
from train_RL_agents.evaluation.thresholds import THRESHOLDS, Threshold
from train_RL_agents.results.statistics import wilson_interval


@pytest.mark.parametrize(
    ("threshold", "value"),
    [
        (Threshold("", "currents", "success_rate", 0.9), (0.5, *wilson_interval(2, 4))),
        (Threshold("", "imazu", "no_collision", 0.9), (0.75, *wilson_interval(3, 4))),
        (Threshold("", "rules", "compliance", 0.9, "head-on"), (0.5, *wilson_interval(1, 2))),
        (Threshold("", "imazu", "all_kept", 0.9), (0.75, 0.5, 0.9)),
        (Threshold("", "currents", "astern", 0.9), (0.25, 0.25, 0.25)),
        (Threshold("", "currents", "avg_time", 0.9), (20.25, 20.25, 20.25)),
        # Of 2, 2, 1 and 1 of 2 vessels: 1.959964 standard errors of the mean 0.75.
        (Threshold("", "currents", "robot_success_rate", 0.9), (0.75, 0.75 - 0.282896, 1.0)),
        (Threshold("", "fresh", "success_rate", 0.9), None),
        (Threshold("", "currents", "compliance", 0.9), None),
        (Threshold("", "rules", "compliance", 0.9, "crossing"), None),
    ],
)
def test_metrics_come_with_their_intervals(threshold, value):
    assert threshold.estimate_in(entry()) == (value if value is None else pytest.approx(value))


def test_vessels_that_all_arrive_have_an_interval():
    measured = Threshold("", "currents", "robot_success_rate", 0.9).estimate_in(entry("ssss"))
    assert measured == pytest.approx((1.0, *wilson_interval(4, 4)))


def test_there_is_no_time_without_a_success():
    assert Threshold("", "currents", "avg_time", 9.0).estimate_in(entry(currents=result("ct"))) is None


def test_a_bound_may_be_an_upper_one():
    assert Threshold("", "a", "b", 0.5).is_reached_by(0.5) and not Threshold("", "a", "b", 0.5).is_reached_by(0.4)
    upper = Threshold("", "a", "b", 0.5, at_most=True)
    assert upper.is_reached_by(0.5) and upper.is_reached_by(0.4) and not upper.is_reached_by(0.6)


def test_what_a_policy_has_to_reach():
    bounds = {
        (threshold.suite, threshold.metric, threshold.group): threshold.bound
        for threshold in THRESHOLDS
        if not threshold.at_most
    }
    assert bounds == {
        ("fresh", "success_rate", "overall"): 0.98,
        ("rules", "compliance", "head-on"): 0.95,
        ("rules", "compliance", "crossing from starboard"): 0.95,
        ("rules", "compliance", "crossing from port"): 0.95,
        ("rules", "compliance", "overtaking"): 0.95,
        ("imazu", "no_collision", "overall"): 0.97,
        ("imazu", "all_kept", "overall"): 0.85,
        ("currents", "success_rate", "overall"): 0.94,
        ("crowd", "success_rate", "10 robots"): 0.97,
        ("crowd", "robot_success_rate", "10 robots"): 0.995,
        ("crowd", "success_rate", "20 robots"): 0.90,
        ("crowd", "robot_success_rate", "20 robots"): 0.99,
        ("crowd", "success_rate", "50 robots"): 0.50,
        ("crowd", "robot_success_rate", "50 robots"): 0.98,
        ("vessels", "success_rate", "overall"): 0.96,
        ("weather", "success_rate", "overall"): 0.95,
        ("noise", "success_rate", "noise x 4"): 0.97,
    }


def test_what_a_policy_must_not_exceed():
    bounds = {(threshold.suite, threshold.metric): threshold.bound for threshold in THRESHOLDS if threshold.at_most}
    assert bounds == {("fresh", "avg_time"): 23.0, ("fresh", "astern"): 0.03}


def test_thresholds_are_of_suites_of_the_benchmark():
    assert {threshold.suite for threshold in THRESHOLDS} <= FROZEN_SUITES.keys()
