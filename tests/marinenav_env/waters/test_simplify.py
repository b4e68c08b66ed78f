"""Lines lose points as with Douglas and Peucker, and the error is what shapely measures."""

import numpy as np
import pytest

pytest.importorskip("shapely", reason="needs the extra test")
import shapely

from marinenav_env.waters.shapes import crossing_pairs, unite
from marinenav_env.waters.simplify import significance, simplify
from tests.marinenav_env.waters.helpers import line_of
from tests.marinenav_env.waters.test_shapes import SIZE, star


def wavy(seed, points=80):
    drawn = np.random.default_rng(seed)
    return np.stack([np.linspace(0, 100, points), 40 + np.cumsum(drawn.normal(0, 0.7, points))], -1).round(2)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tolerance", [0.3, 1.0, 4.0])
def test_points_that_shapely_keeps_are_kept(seed, tolerance):
    line = wavy(seed)
    kept = line[significance(line) > tolerance]
    expected = shapely.simplify(shapely.LineString(line), tolerance, preserve_topology=False)
    np.testing.assert_array_equal(kept, shapely.get_coordinates(expected))


@pytest.mark.parametrize("most", [5, 20, 60])
def test_the_error_is_the_distance_between_lines_and_no_smaller_one_would_do(most):
    line = wavy(1)
    segments, error = simplify([(line, False)], most, 0.0, 50.0)
    measured = shapely.hausdorff_distance(line_of(segments), shapely.LineString(line), 0.01)
    assert most - 1 <= len(segments) <= most
    assert measured == pytest.approx(error, abs=0.02)


def test_walls_count_twice_and_have_both_directions():
    segments, _ = simplify([(wavy(2), True)], 20, 0.0, 50.0)
    half = len(segments) // 2
    assert 18 <= len(segments) <= 20
    np.testing.assert_array_equal(segments[:half], segments[half:][:, [2, 3, 0, 1]])


def test_no_island_vanishes_and_open_ends_stay():
    ring = star(0, (50.0, 50.0), low=0.5, high=1.0)
    island = np.concatenate([ring, ring[:1]])
    segments, _ = simplify([(island, False), (wavy(0), False)], 1, 0.0, 50.0)
    assert len(segments) == 4
    assert shapely.Polygon(segments[:3, :2]).area > 0.1
    assert segments[3].tolist() == [*wavy(0)[0], *wavy(0)[-1]]


def test_what_cannot_have_few_segments_within_the_error_has_more():
    segments, error = simplify([(wavy(3), False)], 4, 0.0, 0.5)
    assert len(segments) > 4
    assert error <= 0.5 + 0.005


def test_simplified_lines_do_not_cross():
    # A bay with a thin pier: the straight line across the bay would cut the pier.
    bay = np.array([[0.0, 10.0], [40.0, 10.0], [45.0, 4.0], [50.0, 10.0], [100.0, 10.0]])
    pier = np.array([[46.0, 30.0], [45.0, 6.0]])
    segments, error = simplify([(bay, False), (pier, True)], 16, 7.0, 8.0)
    assert len(crossing_pairs(segments)) == 0
    assert error < 6.0


@pytest.mark.parametrize("seed", range(4))
def test_simplified_unions_keep_their_land_within_the_error(seed):
    drawn = np.random.default_rng(seed)
    areas = [[star(seed * 20 + number, drawn.uniform((10, 10), (90, 70)))] for number in range(6)]
    chains = list(unite(areas, [], SIZE).chains())
    whole = line_of(np.concatenate([np.concatenate([c[:-1], c[1:]], -1) for c, _ in chains]))
    segments, error = simplify(chains, 40, 0.0, 20.0)
    assert len(segments) <= 40
    assert shapely.hausdorff_distance(line_of(segments), whole, 0.01) <= error + 0.01
    assert len(crossing_pairs(segments)) == 0
