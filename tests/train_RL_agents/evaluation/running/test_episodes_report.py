"""Metrics of evaluated episodes: of all, by level, and restored."""

import math

import pytest
import torch

from train_RL_agents.utils.rows import Episodes, nonfinite_to_none
from train_RL_agents.utils.statistics import wilson_interval

close = pytest.approx


def made_up():
    """Four episodes of two levels."""
    return Episodes(
        level=torch.tensor([0, 0, 0, 2]),
        success=torch.tensor([True, False, True, False]),
        collision=torch.tensor([False, True, False, False]),
        robots=torch.tensor([3, 3, 3, 5]),
        robots_arrived=torch.tensor([3, 1, 3, 4]),
        time=torch.tensor([10.0, 99.0, 20.0, 99.0], dtype=torch.float64),
        energy=torch.tensor([1.0, 99.0, 3.0, 99.0], dtype=torch.float64),
        returns=torch.tensor([4.0, 3.0, 2.0, 1.0], dtype=torch.float64),
    )


def test_report_by_hand():
    counts = {"success": 2, "collision": 1, "timeout": 1}
    rates = {f"{name}_rate": count / 4 for name, count in counts.items()}
    ends = {name: wilson_interval(count, 4) for name, count in counts.items()}
    assert made_up().report() == {
        "episodes": 4,
        **rates,
        **{f"{name}_low": low for name, (low, _) in ends.items()},
        **{f"{name}_high": high for name, (_, high) in ends.items()},
        "robot_success_rate": close(11 / 14),
        "avg_time": 15.0,
        "avg_energy": 2.0,
        "avg_return": 2.5,
    }


def test_metrics_that_are_not_finite_are_none():
    given = {"a": math.nan, "b": [math.inf, 1.5, 2], "c": (-math.inf, "x", {"d": True})}
    assert nonfinite_to_none(given) == {"a": None, "b": [None, 1.5, 2], "c": [None, "x", {"d": True}]}


def test_table_by_level():
    table = made_up().table()
    assert list(table) == ["level 1", "level 3", "overall"]
    first = {"episodes": 3, "success_rate": close(2 / 3), "collision_rate": close(1 / 3), "timeout_rate": 0.0}
    assert table["level 1"] | first == table["level 1"]
    # No episode is successful.
    third = {"timeout_rate": 1.0, "avg_return": 1.0, "avg_time": None, "avg_energy": None}
    assert table["level 3"] | third == table["level 3"] and table["overall"]["episodes"] == 4


@pytest.mark.parametrize(
    "damage",
    [
        {"time": torch.zeros(4)},
        {"success": torch.zeros(4, dtype=torch.int64)},
        {"level": torch.zeros(4)},
        {"robots": torch.ones(4, 1, dtype=torch.int64)},
    ],
)
def test_tensors_of_other_types_or_shapes_are_refused(damage):
    (name,) = damage
    with pytest.raises(ValueError, match=f"{name} is [12]-dimensional"):
        Episodes.from_state_dict(made_up().state_dict() | damage)
