"""Random charts are charts of every kind, with room for vessels, and follow from their seeds."""

import numpy as np
import pytest

from marinenav_env import ConfigError
from marinenav_env.waters.generator import KINDS, random_chart
from marinenav_env.waters.routing import WaterMap
from marinenav_env.waters.shapes import crossing_pairs


@pytest.mark.parametrize("seed", range(12))
def test_random_charts_have_land_water_and_few_segments(seed):
    chart = random_chart(seed, 150.0, 48)
    assert 0 < len(chart.shores) <= 48
    assert (chart.width, chart.height) == (150.0, 150.0)
    assert ((chart.shores >= 0.0) & (chart.shores <= 150.0)).all()
    assert len(crossing_pairs(chart.shores)) == 0
    distance = chart.sample(40)[1]
    assert 0.4 <= (distance > 0.0).mean() < 1.0


@pytest.mark.parametrize("seed", range(4))
def test_there_are_passages_in_random_charts(seed):
    passages = WaterMap(random_chart(seed, 150.0), 3.0).passages(8, seed, min_distance=50.0)
    assert (passages.length >= 50.0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_chart_follows_from_its_seed_and_kind(kind):
    first, again, other = (random_chart(seed, kind=kind) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.shores, again.shores)
    assert first.text() == again.text() != other.text()
    assert first.name == f"{kind} 5"


@pytest.mark.heavy
def test_all_kinds_are_drawn_and_differ_in_their_sides():
    names = {random_chart(seed).name.split()[0] for seed in (0, 1, 4, 11, 21)}
    assert names == set(KINDS)
    edge = {
        kind: np.mean([np.any((random_chart(seed, kind=kind).shores % 200.0) == 0.0) for seed in range(3)])
        for kind in KINDS
    }
    assert edge["coast"] == edge["channel"] == edge["bay"] == edge["marina"] == 1.0 > edge["islands"]


def test_marinas_have_long_parallel_piers():
    for seed in range(6):
        shores = random_chart(seed, kind="marina").shores.round(2)
        sides = {tuple(row) for row in shores}
        walls = np.array([row for row in shores if (*row[2:], *row[:2]) in sides])  # water on both sides
        along = (walls[:, 2:] - walls[:, :2]) @ [1.0, 1.0j]
        long = along[np.abs(along) > 20.0] ** 2  # squared, both sides of a wall have the same direction
        parallel = np.abs(np.angle(long[:, None] / long)) < 0.02
        assert parallel.sum(1).max() >= 4  # two piers


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"seed": -1}, "seed=-1: must be"),
        ({"seed": 0, "kind": "fjord"}, "kind='fjord': must be one of coast, channel, bay, islands, marina"),
        ({"seed": 0, "most_segments": 2}, "no random waters of kind .* have at most 2 segments"),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments, words):
    with pytest.raises(ConfigError, match=words):
        random_chart(**arguments)
