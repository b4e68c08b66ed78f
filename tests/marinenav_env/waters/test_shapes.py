"""Distances and unions equal shapely's."""

import numpy as np
import pytest

pytest.importorskip("shapely", reason="needs the extra test")
import shapely

from marinenav_env import ConfigError
from marinenav_env.waters.shapes import clip, crossing_pairs, signed_distance, unite, ways_are_clear
from tests.marinenav_env.waters.helpers import land_of, line_of

SIZE = (100.0, 80.0)
SQUARE = np.array([[20.0, 20.0], [60.0, 20.0], [60.0, 60.0], [20.0, 60.0]])
HOLE = np.array([[30.0, 30.0], [30.0, 50.0], [50.0, 50.0], [50.0, 30.0]])


def star(seed, middle, corners=11, low=6.0, high=18.0):
    """A ring around a point that does not cross itself, with corners on a grid of 1 cm."""
    drawn = np.random.default_rng(seed)
    angles = (np.arange(corners) + 0.4 * drawn.random(corners)) * 2.0 * np.pi / corners
    radii = drawn.uniform(low, high, corners)
    return np.round(middle + np.stack([np.cos(angles), np.sin(angles)], -1) * radii[:, None], 2)


def shifted(x, y):
    return SQUARE + np.array([x, y])


def segments_of(network):
    return network.nodes[network.edges].reshape(-1, 4)


def shores_of(network):
    """Segments [S, 4] of a network, walls twice."""
    segments = segments_of(network)
    return np.concatenate([segments, segments[network.is_wall][:, [2, 3, 0, 1]]])


def points(count=2000, seed=0):
    return np.random.default_rng(seed).random((count, 2)) * SIZE


def oracle_distance(land, places):
    sign = np.where(shapely.contains_xy(land, places), -1.0, 1.0)
    return sign * shapely.distance(land.boundary, shapely.points(places))


@pytest.mark.parametrize("seed", range(5))
def test_signed_distances_equal_those_of_shapely(seed):
    areas = [[star(seed, (30.0, 30.0)), star(seed + 50, (30.0, 30.0), low=2.0, high=5.0)], [star(seed + 9, (75, 45))]]
    shores = shores_of(unite(areas, [], SIZE))
    np.testing.assert_allclose(
        signed_distance(points(), shores), oracle_distance(land_of(areas), points()), rtol=0.0, atol=1e-6
    )


def test_points_on_shores_and_at_corners_are_at_no_distance_and_beyond_a_corner_the_side_is_right():
    shores = shores_of(unite([[SQUARE, HOLE]], [], SIZE))
    on_it = np.concatenate([SQUARE, HOLE, [[20.0, 40.0], [41.0, 30.0]]])
    np.testing.assert_array_equal(signed_distance(on_it, shores), 0.0)
    beyond = [[19.0, 19.0], [61.0, 61.0], [29.0, 29.0], [31.0, 31.0]]
    np.testing.assert_allclose(signed_distance(np.array(beyond), shores), [2**0.5, 2**0.5, -(2**0.5), 1.0])


def test_without_shores_everything_is_far_from_land():
    none = np.zeros((0, 4))
    assert np.isinf(signed_distance(points(3), none)).all()
    assert ways_are_clear(points(3), points(3, 1), none, 9.0).all()


@pytest.mark.parametrize("seed", range(8))
def test_the_boundary_of_overlapping_areas_is_that_of_their_union(seed):
    drawn = np.random.default_rng(seed)
    areas = [[star(seed * 20 + number, drawn.uniform((-5, -5), (105, 85)))] for number in range(9)]
    network = unite(areas, [], SIZE)
    assert network.is_closed(SIZE)
    assert not network.is_wall.any()
    ours = line_of(segments_of(network))
    theirs = land_of(areas).boundary.intersection(shapely.box(0.001, 0.001, SIZE[0] - 0.001, SIZE[1] - 0.001))
    assert ours.length == pytest.approx(theirs.length, abs=0.2)
    assert shapely.hausdorff_distance(ours, theirs, 0.05) < 0.01
    distance, expected = signed_distance(points(), shores_of(network)), oracle_distance(land_of(areas), points())
    # The parts of land outside of the window are no longer there to be near.
    assert (np.sign(distance) == np.sign(expected))[np.abs(expected) > 0.002].all()


@pytest.mark.parametrize(
    "ring",
    [
        SQUARE,
        SQUARE[::-1],
        np.concatenate([SQUARE, SQUARE[:1]]),
        np.repeat(SQUARE, 3, axis=0),
        np.concatenate([SQUARE[:2], [[40.0, 20.0], [60.0, 20.0]], SQUARE[2:]]),
        np.concatenate([SQUARE[:1], [[20.0, 10.0], [20.0, 20.0]], SQUARE[1:]]),
    ],
    ids=["anticlockwise", "clockwise", "closed", "repeated points", "back and forth", "spike"],
)
def test_any_way_of_writing_a_ring_gives_the_same_land(ring):
    network = unite([[ring]], [], SIZE)
    assert line_of(segments_of(network)).length == pytest.approx(160.0)
    np.testing.assert_allclose(
        signed_distance(points(), shores_of(network)), oracle_distance(shapely.Polygon(SQUARE), points()), atol=1e-6
    )


SHARED = {
    "the same twice": ([[SQUARE], [SQUARE]], 160.0),
    "neighbours": ([[SQUARE], [shifted(40.0, 0.0)]], 200.0),
    "one inside another": ([[SQUARE], [HOLE]], 160.0),
    "a hole that is filled": ([[SQUARE, HOLE], [HOLE]], 160.0),
    "an island in a lake": ([[SQUARE, HOLE], [0.5 * HOLE + (20.0, 20.0)]], 280.0),
    "corners that touch, cut by the window": ([[SQUARE], [shifted(40.0, 40.0)]], 160.0 + 60.0),
    "a pier at an edge": ([[SQUARE], [np.array([[60.0, 25.0], [70.0, 25.0], [70.0, 35.0], [60.0, 35.0]])]], 180.0),
    "a ring that crosses itself": (
        [[np.array([[20.0, 20.0], [60.0, 60.0], [60.0, 20.0], [20.0, 60.0]])]],
        80.0 + 2 * 40 * 2**0.5,
    ),
    "a ring of two points": ([[SQUARE[:2]]], 0.0),
    "a ring of one point": ([[SQUARE[[0, 0, 0]]]], 0.0),
    "an empty ring": ([[np.zeros((0, 2))], [SQUARE]], 160.0),
    "a gap below the grid": ([[SQUARE], [shifted(40.004, 0.0)]], 200.0),
}
"""Areas, and the length of the shores of their union."""


@pytest.mark.parametrize(("areas", "length"), SHARED.values(), ids=SHARED)
def test_shared_edges_vanish_and_what_is_nothing_is_nothing(areas, length):
    network = unite(areas, [], SIZE)
    assert line_of(segments_of(network)).length == pytest.approx(length, abs=0.03)
    assert network.is_closed(SIZE)


def test_of_lines_remains_what_lies_in_the_water():
    lines = [np.array([[10.0, 40.0], [70.0, 40.0]]), SQUARE, np.array([[40.0, 60.0], [40.0, 120.0]])]
    network = unite([[SQUARE]], lines, SIZE)
    walls = segments_of(network)[network.is_wall]
    assert line_of(walls).length == pytest.approx(10.0 + 10.0 + 20.0)
    ends = np.array([[15.0, 41.0], [15.0, 39.0], [65.0, 39.0], [9.0, 40.0], [30.0, 40.0]])
    np.testing.assert_allclose(signed_distance(ends, shores_of(network)), [1.0, 1.0, 1.0, 1.0, -10.0])
    lengths = sorted(len(line) for line, is_wall in network.chains() if is_wall)
    assert lengths == [2, 2, 2]
    assert sum(len(line) - 1 for line, _ in network.chains()) == len(network.edges)


def test_a_coast_that_crosses_the_window_ends_at_its_edge_and_has_no_shore_there():
    land = np.array([[-50.0, -50.0], [30.0, -50.0], [50.0, 150.0], [-50.0, 150.0]])
    (network,) = (unite([[land]], [], SIZE),)
    ((line, is_wall),) = network.chains()
    assert not is_wall
    assert set(line[[0, -1], 1]) == {0.0, SIZE[1]}
    distance = signed_distance(points(), shores_of(network))
    assert (np.sign(distance) == np.sign(oracle_distance(shapely.Polygon(land), points()))).all()


def test_clipped_segments_are_those_parts_inside():
    drawn = np.random.default_rng(3).uniform(-60, 160, (400, 4))
    ours, theirs = line_of(clip(drawn, SIZE)), line_of(drawn).intersection(shapely.box(0, 0, *SIZE))
    assert ours.length == pytest.approx(theirs.length)
    along = np.array([[0.0, 10.0, 0.0, 90.0], [-5.0, 80.0, 200.0, 80.0], [0.02, 5.0, 0.01, 50.0]])
    assert len(clip(along, SIZE)) == 0


@pytest.mark.parametrize("distance", [0.01, 3.0, 20.0])
def test_ways_are_clear_that_are_as_far_away_by_shapely(distance):
    ways, shores = (np.random.default_rng(seed).uniform(0, 100, (100, 4)) for seed in (1, 2))
    found = ways_are_clear(ways[:, :2], ways[:, 2:], shores[:4], distance)
    expected = np.array([line_of(way[None]).distance(line_of(shores[:4])) >= distance for way in ways])
    assert (found == expected).all()
    assert 5 < found.sum() < 95


def test_ways_that_are_just_as_far_are_clear():
    shores = np.array([[0.0, 10.0, 50.0, 10.0]])
    points = np.array([[0.0, 7.0], [50.0, 7.0]])
    assert ways_are_clear(points[:1], points[1:], shores, 3.0).all()
    assert not ways_are_clear(points[:1], points[1:], shores, 3.1).any()


def test_crossing_pairs_are_found_and_touching_ones_are_none():
    segments = np.array([[0.0, 0, 10, 10], [0, 10, 10, 0], [10, 10, 20, 0], [30, 0, 40, 0], [5, 5, 5, 0]])
    assert crossing_pairs(segments).tolist() == [[0, 1]]


def test_more_lines_than_can_be_compared_are_refused():
    lines = np.random.default_rng(0).uniform(0, 80, (9000, 2, 2))
    with pytest.raises(ConfigError, match="too many lines for one map"):
        unite([], list(lines), SIZE)
