"""When a run is said to have become slower."""

import pytest

from train_RL_agents.utils.slowdown import SlowdownDetector


@pytest.mark.parametrize(
    ("rates", "noticed"),
    [
        ([100.0] * 20, []),
        ([100.0] * 5 + [40.0] * 9, []),  # slower, but not three times
        ([100.0] * 5 + [20.0] * 2 + [100.0] * 9, []),  # for a moment
        ([100.0] * 5 + [20.0] * 9, [7]),
        ([100.0] * 9 + [20.0] * 5 + [90.0] * 3 + [30.0] * 5, [11, 19]),  # and once more
        ([20.0] * 5 + [100.0] * 9, []),  # faster
        ([100.0, 900.0, 100.0, 1.0, 100.0] + [30.0] * 4, [7]),  # the median counts
    ],
)
def test_a_slowdown_is_noticed_once_it_lasts(rates, noticed):
    slowdown = SlowdownDetector()
    lines = [slowdown.add_rate(each) for each in rates]
    assert [number for number, line in enumerate(lines) if line] == noticed
