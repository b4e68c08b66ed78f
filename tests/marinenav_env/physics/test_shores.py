"""Shores: against shapely on windows of charts and at corners, and against the oracle."""

import math

import pytest
import torch

from marinenav_env.physics.shores import (
    ABSENT_SHORE,
    SHORE_SLOTS,
    Segments,
    crossing,
    hidden_pairs,
    nearest_shores,
    ray_distance,
    shore_clearance,
)
from marinenav_env.waters.charts import read_chart
from tests.marinenav_env.helpers import DATA
from tests.oracle import shores as oracle

WINDOWS = ("miami_channel_300", "miami_island_300", "miami_marina_300")
SQUARE = [
    (10.0, 10.0),
    (10.0, 20.0),
    (20.0, 20.0),
    (20.0, 10.0),
]  # x is north: from its south-west corner, anticlockwise


def ring(corners):
    """The sides of a polygon."""
    return [[*a, *b] for a, b in zip(corners, [*corners[1:], corners[0]], strict=True)]


def clearance(points, shores):
    """The signed distances of points from the shores of one environment."""
    place, land = (torch.tensor([values], dtype=torch.float64) for values in (points, shores))
    return shore_clearance(place, land)[0].tolist()


def drawn(seed, segments, robots=3, size=60.0):
    """Random poses [1, robots, 3] and segments [1, segments, 4]."""
    generator = torch.Generator().manual_seed(seed)
    places = torch.rand(1, robots, 3, generator=generator, dtype=torch.float64) * size
    begin = torch.rand(1, segments, 2, generator=generator, dtype=torch.float64) * size
    along = 10.0 * torch.randn(1, segments, 2, generator=generator, dtype=torch.float64)
    return places, torch.cat((begin, begin + along), -1)


@pytest.mark.parametrize("name", WINDOWS)
def test_distances_equal_shapelys_on_windows_of_charts(name):
    shapely = pytest.importorskip("shapely")
    chart = read_chart(DATA / "waters" / f"{name}.json", most_segments=256)
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(1, 3000, 2, generator=generator, dtype=torch.float64) * chart.width
    lines = shapely.MultiLineString([[each[:2], each[2:]] for each in chart.shores])
    expected = shapely.distance(shapely.points(points[0].numpy()), lines)
    found = shore_clearance(points, torch.as_tensor(chart.shores)[None])[0]
    assert found.abs().numpy() == pytest.approx(expected, abs=1e-6)
    assert 0.05 < (found < 0.0).double().mean() < 0.95


def test_sides_equal_shapelys_for_an_island_with_a_lake():
    shapely = pytest.importorskip("shapely")
    outer, lake = [(5.0, 5.0), (8.0, 40.0), (45.0, 50.0), (30.0, 20.0), (50.0, 6.0)], SQUARE[::-1]
    land = shapely.Polygon(outer, [lake])
    generator = torch.Generator().manual_seed(1)
    points = 60.0 * torch.rand(4000, 2, generator=generator, dtype=torch.float64)
    inside = shapely.contains(land, shapely.points(points.numpy()))
    found = clearance(points.tolist(), ring(outer) + ring(lake))
    assert [value < 0.0 for value in found] == inside.tolist()
    assert [abs(value) for value in found] == pytest.approx(
        shapely.distance(land.boundary, shapely.points(points.numpy())).tolist(), abs=1e-9
    )


def test_both_sides_of_a_pier_and_its_ends_are_water():
    pier = [[0.0, 0.0, 10.0, 3.0], [10.0, 3.0, 0.0, 0.0]]
    generator = torch.Generator().manual_seed(2)
    points = (20.0 * torch.rand(500, 2, generator=generator, dtype=torch.float64) - 5.0).tolist()
    assert clearance(points, pier) == pytest.approx([oracle.distance(point, pier[0]) for point in points])


def test_land_is_on_the_left_of_an_open_coast():
    coast = [[0.0, 10.0, 20.0, 10.0], [20.0, 10.0, 30.0, 20.0]]  # northwards: the west is land
    assert clearance([(10.0, 5.0), (10.0, 16.0), (20.0, 3.0)], coast) == pytest.approx([-5.0, 6.0, -7.0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("segments", [16, 64, 256])
def test_the_nearest_segments_equal_the_oracle(segments, dtype):
    poses, shores = drawn(segments, segments)
    shores[:, -3:] = ABSENT_SHORE
    near = nearest_shores(poses.to(dtype), shores.to(dtype))
    distances = near.squares().sqrt()[..., 0]
    for robot, (x, y, _) in enumerate(poses[0].tolist()):
        expected = [oracle.distance((x, y), each) for each in oracle.nearest((x, y), shores[0].tolist(), SHORE_SLOTS)]
        assert distances[:, robot].tolist() == pytest.approx(expected, abs=1e-2 if dtype == torch.float32 else 1e-9)


def test_few_segments_fill_the_slots_with_absent_ones():
    poses, shores = drawn(0, 16)
    shores[:, 2:] = ABSENT_SHORE
    assert (nearest_shores(poses, shores).squares()[2:] > 1e11).all()


def test_crossings_equal_the_oracle():
    poses, shores = drawn(3, SHORE_SLOTS, robots=40)
    places = poses[0, :, :2].tolist()
    near = Segments.seen_from(poses[..., 0].T, poses[..., 1].T, shores)
    to_x, to_y = (poses[..., axis].T[:, None] - poses[..., axis].T for axis in (0, 1))
    found = crossing(near, to_x, to_y)[..., 0] < 0.0
    for robot, own in enumerate(places):
        expected = [any(oracle.crosses(own, other, each) for each in shores[0].tolist()) for other in places]
        assert found[:, robot].tolist() == expected
    assert 0.1 < found.double().mean() < 0.95
    assert torch.equal(hidden_pairs(poses, shores)[..., 0], found.T)


def test_rays_equal_the_oracle():
    poses, shores = drawn(4, 30, robots=20)
    angles = torch.linspace(-math.pi, math.pi, 33, dtype=torch.float64)[:, None, None]
    x, y = poses[..., 0].T, poses[..., 1].T
    beams = angles + torch.zeros_like(x)
    found = ray_distance(x, y, beams.cos(), beams.sin(), shores)[..., 0]
    for robot, (north, east, _) in enumerate(poses[0].tolist()):
        for beam, angle in enumerate(angles.flatten().tolist()):
            expected = min(oracle.ray((north, east), angle, each) for each in shores[0].tolist())
            assert found[beam, robot].item() == pytest.approx(expected, abs=1e-6)
