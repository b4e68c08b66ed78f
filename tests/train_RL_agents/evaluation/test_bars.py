"""What counts as a pass: figures of an entry and their bounds."""

import pytest

from tests.train_RL_agents.entries import entry, result
from train_RL_agents.evaluation.bars import BARS, Bar
from train_RL_agents.evaluation.episodes import wilson_interval
from train_RL_agents.evaluation.frozen import FROZEN


@pytest.mark.parametrize(
    ("bar", "value"),
    [
        (Bar("", "currents", "success_rate", 0.9), (0.5, *wilson_interval(2, 4))),
        (Bar("", "imazu", "no_collision", 0.9), (0.75, *wilson_interval(3, 4))),
        (Bar("", "rules", "compliance", 0.9, "head-on"), (0.5, *wilson_interval(1, 2))),
        (Bar("", "imazu", "all_kept", 0.9), (0.75, 0.5, 0.9)),
        (Bar("", "currents", "astern", 0.9), (0.25, 0.25, 0.25)),
        (Bar("", "currents", "avg_time", 0.9), (20.25, 20.25, 20.25)),
        (Bar("", "fresh", "success_rate", 0.9), None),
        (Bar("", "currents", "compliance", 0.9), None),
        (Bar("", "rules", "compliance", 0.9, "crossing"), None),
    ],
)
def test_figures_come_with_their_intervals(bar, value):
    assert bar.measured(entry()) == (value if value is None else pytest.approx(value))


def test_there_is_no_time_without_a_success():
    assert Bar("", "currents", "avg_time", 9.0).measured(entry(currents=result("ct"))) is None


def test_a_bound_may_be_an_upper_one():
    assert Bar("", "a", "b", 0.5).passed(0.5) and not Bar("", "a", "b", 0.5).passed(0.4)
    assert not Bar("", "a", "b", 0.5, at_most=True).passed(0.6)


def test_bars_are_of_suites_of_the_benchmark():
    assert {bar.suite for bar in BARS} <= FROZEN.keys()
