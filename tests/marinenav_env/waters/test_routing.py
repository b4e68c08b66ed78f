"""Routes keep their clearance, and are nearly as short as those of a visibility graph."""

import heapq

import numpy as np
import pytest

pytest.importorskip("shapely", reason="needs the extra test")
import shapely

from marinenav_env import ConfigError
from marinenav_env.config import MAX_WAYPOINTS
from marinenav_env.waters.charts import Chart, read_chart
from marinenav_env.waters.routing import WaterMap
from tests.marinenav_env.waters.helpers import WINDOWS, line_of, window_path

CLEARANCE = 3.0
BAY = [[80.0, 0.0, 80.0, 100.0], [60.0, 50.0, 10.0, 50.0], [10.0, 50.0, 60.0, 50.0]]
"""A coast with land to the north of x = 80 m, and in the water a wall from south to north (m)."""


def chart_of(*shores, width=100.0, height=100.0):
    return Chart("test", width, height, np.array(shores, float).reshape(-1, 4), (), (0.0, 0.0), 0.0, "")


class Visibility:
    """Shortest ways by a visibility graph of the corners of the open water, and Dijkstra's method."""

    def __init__(self, chart):
        window = shapely.box(0, 0, chart.width, chart.height).buffer(-CLEARANCE, join_style="mitre")
        self.water = window.difference(line_of(chart.shores).buffer(CLEARANCE, quad_segs=4))
        self.nodes = shapely.get_coordinates(self.water)
        self.water = self.water.buffer(1e-6)
        shapely.prepare(self.water)
        first, second = np.triu_indices(len(self.nodes), 1)
        self.edges = self._lengths(self.nodes[first], self.nodes[second])
        self.edges = [(a, b, each) for a, b, each in zip(first, second, self.edges, strict=True) if each < np.inf]

    def _lengths(self, starts, ends):
        ways = shapely.linestrings(np.stack(np.broadcast_arrays(starts, ends), -2))
        return np.where(shapely.covers(self.water, ways), shapely.length(ways), np.inf)

    def shortest(self, start, goal):
        nodes = np.concatenate([self.nodes, [start, goal]])
        lengths = {index: [] for index in range(len(nodes))}
        edges = [*self.edges, (len(nodes) - 1, len(nodes) - 2, self._lengths(start, goal[None])[0])]
        for end, point in ((len(nodes) - 2, start), (len(nodes) - 1, goal)):
            edges += [(end, index, each) for index, each in enumerate(self._lengths(point, self.nodes))]
        for a, b, length in edges:
            lengths[a].append((b, length))
            lengths[b].append((a, length))
        best, queue = {}, [(0.0, len(nodes) - 2)]
        while queue:
            length, node = heapq.heappop(queue)
            if node not in best:
                best[node] = length
                for other, more in lengths[node]:
                    heapq.heappush(queue, (length + more, other))
        return best[len(nodes) - 1]


@pytest.fixture(scope="module", params=WINDOWS)
def found(request):
    """A window, its chart, and passages in its water."""
    chart = read_chart(window_path(request.param), most_segments=256)
    return chart, WaterMap(chart, CLEARANCE).passages(64, seed=0, min_distance=60.0)


@pytest.mark.heavy
def test_passages_keep_their_clearance_from_land_and_from_the_edge(found):
    chart, passages = found
    shores = line_of(chart.shores)
    inside = shapely.box(0, 0, chart.width, chart.height).buffer(-CLEARANCE + 1e-6, join_style="mitre")
    for start, waypoints in zip(passages.start, passages.waypoints, strict=True):
        way = shapely.LineString([start, *waypoints])
        assert way.distance(shores) >= CLEARANCE - 1e-5
        assert inside.covers(way)


@pytest.mark.heavy
def test_passages_have_goals_headings_and_lengths_of_their_routes(found):
    _, passages = found
    assert passages.waypoints.shape == (64, MAX_WAYPOINTS, 2)
    np.testing.assert_array_equal(passages.waypoints[:, -1], passages.goal)
    points = np.concatenate([passages.start[:, None], passages.waypoints], 1)
    legs = np.diff(points, axis=1)
    np.testing.assert_allclose(np.hypot(legs[..., 0], legs[..., 1]).sum(1), passages.length)
    np.testing.assert_allclose(np.arctan2(legs[:, 0, 1], legs[:, 0, 0]), passages.heading)
    assert (passages.length >= 60.0).all()
    assert len(np.unique(passages.goal, axis=0)) >= 16


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["island", "marina"])
def test_routes_are_within_five_percent_of_the_shortest(name):
    chart = read_chart(window_path(name), most_segments=16 if name == "island" else 32)
    passages, oracle = WaterMap(chart, CLEARANCE).passages(40, seed=1, min_distance=60.0), Visibility(chart)
    expected = [oracle.shortest(start, goal) for start, goal in zip(passages.start, passages.goal, strict=True)]
    ratios = passages.length / expected
    assert ratios.min() > 0.99  # the corners of the oracle are four straight pieces each
    assert ratios.max() < 1.05


def test_a_route_leads_around_a_wall():
    waypoints, length = WaterMap(chart_of(*BAY), CLEARANCE).route((30.0, 40.0), (30.0, 60.0))
    assert waypoints[-1].tolist() == [30.0, 60.0]
    assert waypoints[:-1, 0].max() < 10.0 < 2 * CLEARANCE + waypoints[:-1, 0].min()
    # Around the end of the wall, (20, 10) m away: two tangents of a circle, and the arc between them.
    away = np.hypot(20.0, 10.0)
    turn = 2.0 * (np.pi - np.arctan2(10.0, 20.0) - np.arccos(CLEARANCE / away))
    shortest = 2.0 * np.sqrt(away**2 - CLEARANCE**2) + CLEARANCE * turn
    assert shortest < length < 1.05 * shortest


def test_a_route_in_open_water_is_straight():
    waypoints, length = WaterMap(chart_of(), CLEARANCE).route((10.0, 10.0), (40.0, 50.0))
    assert waypoints.tolist() == [[40.0, 50.0]]
    assert length == 50.0


def test_the_seed_determines_the_passages():
    water = WaterMap(chart_of(*BAY), CLEARANCE)
    first, again, other = (water.passages(8, seed) for seed in (3, 3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first.start, other.start)


ACROSS = [[100.0, 50.0, 0.0, 50.0], [0.0, 50.0, 100.0, 50.0]]


@pytest.mark.parametrize(
    ("shores", "clearance", "call", "words"),
    [
        (BAY, 0.0, None, "clearance=0.0: must be a number of metres of at least 0.01"),
        (BAY, 60.0, None, "no water is 60 m from land"),
        (BAY, 3.0, lambda water: water.route((90.0, 50.0), (30.0, 60.0)), "the start [90.0, 50.0] is not 3 m from"),
        (BAY, 3.0, lambda water: water.route((30.0, 40.0), (30.0, 52.0)), "the goal [30.0, 52.0] is not 3 m from land"),
        (BAY, 3.0, lambda water: water.route((30.0, 40.0), (300.0, 60.0)), "the goal [300.0, 60.0] is not"),
        (BAY, 3.0, lambda water: water.route((np.nan, 40.0), (30.0, 60.0)), "the start [nan, 40.0] is not"),
        (ACROSS, 3.0, lambda water: water.route((30.0, 30.0), (30.0, 70.0)), "no water of this clearance connects"),
        (BAY, 3.0, lambda water: water.passages(0, 1), "count=0: must be a whole number of at least 1"),
        (BAY, 3.0, lambda water: water.passages(4, 1, 900.0), "no 4 passages of 900 m with a clearance of 3 m"),
    ],
)
def test_what_has_no_way_is_refused_in_one_sentence(shores, clearance, call, words):
    with pytest.raises(ConfigError) as error:
        call(WaterMap(chart_of(*shores), clearance)) if call else WaterMap(chart_of(*shores), clearance)
    assert words in str(error.value)


@pytest.mark.heavy
def test_a_way_of_too_many_waypoints_is_refused():
    walls = [[0.0, 10.0 * n, 80.0, 10.0 * n] if n % 2 else [20.0, 10.0 * n, 100.0, 10.0 * n] for n in range(1, 10)]
    maze = chart_of(*walls, *(wall[2:] + wall[:2] for wall in walls))
    with pytest.raises(ConfigError, match=r"needs .* waypoints, more than 8"):
        WaterMap(maze, 2.0).route((50.0, 5.0), (50.0, 95.0))
    assert (WaterMap(maze, 2.0).passages(20, 0).length > 0.0).all()
