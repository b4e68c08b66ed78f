"""Paired comparison on the same scenarios."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from train_RL_agents.utils.rows import Episodes, paired_differences, stored_arrays
from train_RL_agents.utils.statistics import poisson_interval


def episodes(success, level=None):
    flags = torch.tensor(success, dtype=torch.bool)
    ones = torch.ones(len(flags))
    level = torch.zeros(len(flags), dtype=torch.int64) if level is None else torch.tensor(level)
    return Episodes(level, flags, ~flags, ones, flags.float(), ones, ones, ones)


def overall_difference(first, other):
    return paired_differences(first, other, ())["overall"]


def test_pairs_matter():
    """Of two policies with the same rates, the interval is narrow where they agree."""
    half = [True, False] * 20
    same = overall_difference(episodes(half), episodes(half))
    assert (same["difference"], same["difference_low"], same["difference_high"]) == (0.0, 0.0, 0.0)
    opposite = overall_difference(episodes(half), episodes(half[1:] + half[:1]))
    assert opposite["difference"] == 0.0
    assert opposite["difference_low"] < -0.2 < 0.2 < opposite["difference_high"]
    assert (opposite["won"], opposite["lost"]) == (20, 20)


def test_intervals_are_those_of_multinomial_samples():
    """Of 10,000 samples of 500 episodes, 120 won and 80 lost."""
    drawn = np.random.default_rng(0).multinomial(500, [0.24, 0.16, 0.6], 10_000).tolist()
    first = episodes([False] * 120 + [True] * 380)
    other = episodes([True] * 120 + [False] * 80 + [True] * 300)
    found = overall_difference(first, other)
    ends = np.quantile([(won - lost) / 500 for won, lost, _ in drawn], (0.025, 0.975))
    assert (found["difference_low"], found["difference_high"]) == pytest.approx(tuple(ends), abs=0.002)
    assert (found["won"], found["lost"], found["difference"]) == (120, 80, 0.08)


def test_by_group():
    first = episodes([True, True, False, False], [0, 0, 2, 2])
    other = episodes([True, False, True, True], [0, 0, 2, 2])
    table = paired_differences(first, other, ("a", "b", "c"))
    assert list(table) == ["a", "c", "overall"]
    assert [row["difference"] for row in table.values()] == [-0.5, 1.0, 0.25]
    assert list(paired_differences(first, other, ())) == ["overall"]


def test_hours_per_collision():
    """Three episodes of two vessels for an hour and a half an hour each; one collides."""
    time = torch.tensor([3600.0, 1800.0, 1800.0], dtype=torch.float64)
    flags = torch.tensor([True, False, True])
    two = torch.full((3,), 2)
    rows = Episodes(torch.tensor([0, 0, 2]), flags, ~flags, two, two, time, time, time)
    low, high = poisson_interval(1)
    names = ("vessel_hours", "collisions", *(f"hours_per_collision{end}" for end in ("", "_low", "_high")))
    assert rows.exposure() == pytest.approx(dict(zip(names, (4.0, 1, 4.0, 4.0 / high, 4.0 / low), strict=True)))
    none = rows.exposure(2)
    assert none["hours_per_collision_low"] == pytest.approx(1.0 / -math.log(0.025))
    assert (none["hours_per_collision"], none["hours_per_collision_high"], none["collisions"]) == (None, None, 0)
    metrics = rows.metrics(("a", "b", "c"))
    assert metrics == {
        "a": rows.report(0) | rows.exposure(0),
        "c": rows.report(2) | rows.exposure(2),
        "overall": rows.report() | rows.exposure(),
    }
    assert rows.metrics(()) == {"overall": metrics["overall"]}


def test_groundings_are_stored_where_there_is_land():
    open_water = episodes([True, False])
    harbour = replace(open_water, grounding=~open_water.success)
    assert "groundings" not in stored_arrays([open_water])
    assert stored_arrays([harbour, harbour])["groundings"].tolist() == [[False, True]] * 2
