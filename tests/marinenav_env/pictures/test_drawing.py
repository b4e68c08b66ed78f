"""Pictures of vessels in their world: what is drawn where."""

import math

import numpy as np
import pytest

from marinenav_env.pictures import drawing
from tests.marinenav_env.pictures.helpers import axes_of, patches

pytest.importorskip("matplotlib", reason="needs the extra plot")


def voyage(cores=()):
    """Two vessels; the first runs off the map and ends by a collision."""
    time = np.arange(6, dtype=np.float32)
    first = np.stack((50.0 + 2.0 * time, 30.0 + time, 0.3 + 0.1 * time), -1)
    second = np.stack((10.0 - 3.0 * time, 20.0 + 0.0 * time, 0.0 * time), -1)
    collided = np.zeros((6, 2), np.bool_)
    collided[5, 0] = True
    return drawing.VesselTracks(
        poses=np.stack((first, second), 1),
        thrust=np.full((6, 2, 2), 400.0, np.float32),
        active=~collided,
        collided=collided,
        goals=np.float32([[58.0, 12.0], [40.0, 50.0]]),
        hulls=np.float32([[5.0, 2.5], [5.0, 2.5]]),
        obstacles=np.float32([[20.0, 40.0, 1.5]]),
        cores=np.float32(cores).reshape(-1, 4),
        map_size=(55.0, 55.0),
        shores=np.float32([[0.0, 10.0, 10.0, 0.0], [0.0, 0.0, 0.0, 10.0], [10.0, 0.0, 0.0, 0.0]]),
    )


WITH_CORE = voyage([[30.0, 20.0, 9.4, 0.5]])


def test_hull_has_the_size_and_heading_of_the_vessel():
    pose, size = np.array([10.0, 20.0, math.pi / 2]), np.array([5.0, 2.5])
    outline = drawing.hull_outline(pose, size)
    bow = outline[0]
    assert bow == pytest.approx([10.0, 22.5])  # it points east, which is along y
    assert outline.max(0) - outline.min(0) == pytest.approx([2.5, 5.0])
    assert outline.mean(0) == pytest.approx([10.0, 20.0], abs=0.6)


def test_map_shows_obstacles_goals_and_currents_to_scale():
    view = WITH_CORE
    axes = axes_of(view)
    disc = patches(axes.patches, "Circle")[0]
    assert (disc.center, disc.radius) == ((40.0, 20.0), 1.5)
    assert [line.get_marker() for line in axes.lines].count("*") == view.vessels
    assert len(axes.images) == 1
    assert axes.get_aspect() == 1.0
    # The water is fastest around the core, and its arrows turn with it.
    speed = axes.images[0].get_array()
    row, column = np.unravel_index(np.argmax(speed), speed.shape)
    left, right, low, high = axes.images[0].get_extent()
    assert low + (high - low) * row / 199 == pytest.approx(30.0, abs=1.0)
    assert left + (right - left) * column / 199 == pytest.approx(20.0, abs=1.0)


def test_current_turns_around_its_core():
    flow = drawing.current_field(WITH_CORE, np.float32([35.0, 30.0]), np.float32([20.0, 26.0]))
    # The direction to a clockwise core, turned from x towards y: west of north, north of east.
    assert np.stack(flow, -1)[0] == pytest.approx([0.0, -9.4 / (2 * math.pi * 5)], abs=1e-4)
    assert np.stack(flow, -1)[1] == pytest.approx([9.4 / (2 * math.pi * 6), 0.0], abs=1e-4)


def test_vessel_is_drawn_at_its_pose_and_pale_after_its_end():
    view = voyage()
    axes = axes_of(view)
    artists = drawing.draw_vessel(axes, view, 0, 3)
    hull = patches(artists, "Polygon")[0]
    expected = drawing.to_page(drawing.hull_outline(view.poses[3, 0], view.hulls[0]))
    assert hull.get_xy()[:5] == pytest.approx(expected)
    assert hull.get_alpha() == 1.0
    track = patches(artists, "Line2D")[0].get_xydata()
    assert track == pytest.approx(view.poses[:4, 0, 1::-1])
    assert len(patches(artists, "FancyArrowPatch")) == 2
    after = drawing.draw_vessel(axes, view, 0, view.frames - 1)
    assert patches(after, "Polygon")[0].get_alpha() < 1.0
    assert not patches(after, "FancyArrowPatch")


def test_collided_vessels_are_marked():
    view = voyage()
    axes = axes_of(view)
    texts = [drawing.draw_vessel(axes, view, vessel, view.frames - 1) for vessel in range(2)]
    marks = [patches(each, "Text")[0].get_text() for each in texts]
    assert marks == ["1×", "2"]
