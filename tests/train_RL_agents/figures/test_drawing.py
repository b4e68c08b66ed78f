"""Pictures: what is drawn where, and how many frames are written."""

import math
import sys
from dataclasses import replace

import numpy as np
import pytest

from marinenav_env import ConfigError
from tests.train_RL_agents.recorded import (
    CROSSING_PAIR,
    HEAD_ON_PAIR,
    first_frames,
    small_recording,
)
from train_RL_agents.figures import animation, drawing
from train_RL_agents.figures.episode_view import NO_RULE, view_episode, zone_in_world

matplotlib = pytest.importorskip("matplotlib")
pytest.importorskip("imageio_ffmpeg")


def view_of(index, quantiles=True):
    return view_episode(small_recording(quantiles), index + 1)


def patches(artists, kind):
    return [each for each in artists if type(each).__name__ == kind]


def axes_of(view):
    axes = drawing.new_figure(4, 4).add_axes((0, 0, 1, 1))
    drawing.draw_map(axes, view, drawing.map_limits(view))
    return axes


# Shapes


def test_hull_has_the_size_and_heading_of_the_vessel():
    pose, size = np.array([10.0, 20.0, math.pi / 2]), np.array([5.0, 2.5])
    outline = drawing.hull_outline(pose, size)
    bow = outline[0]
    assert bow == pytest.approx([10.0, 22.5])  # it points east, which is along y
    assert outline.max(0) - outline.min(0) == pytest.approx([2.5, 5.0])
    assert outline.mean(0) == pytest.approx([10.0, 20.0], abs=0.6)


def test_starboard_is_to_the_right_of_the_bow():
    pose = np.array([0.0, 0.0, 0.0])
    ahead, starboard = drawing.on_page(drawing.from_body(pose, np.array([[1.0, 0], [0, 1.0]])))
    assert ahead == pytest.approx([0.0, 1.0])  # north is up
    assert starboard == pytest.approx([1.0, 0.0])  # east is right


def test_limits_hold_the_map_and_every_track():
    view = view_of(5)  # runs off the map
    x_low, x_high, y_low, y_high = drawing.map_limits(view)
    assert min(x_low, y_low) < 0.0
    assert x_high >= max(55.0, view.goals[0, 0])
    assert y_high >= max(55.0, view.goals[0, 1])


def test_colours_and_styles_are_unique_for_many_vessels():
    axes, view = axes_of(view_of(0)), view_of(0)
    many = replace(view, poses=np.repeat(view.poses, 21, 1))
    tracks = [drawing.draw_track(axes, many, vessel, 3)[0] for vessel in range(42)]
    assert len({(track.get_color(), str(track._unscaled_dash_pattern)) for track in tracks}) == 42


# Maps


def test_map_shows_obstacles_goals_and_currents_to_scale():
    view = view_of(7)
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


def test_still_water_is_not_drawn():
    assert not axes_of(view_of(0)).images


def test_current_turns_around_its_core():
    flow = drawing.current_field(view_of(7), np.float32([35.0, 30.0]), np.float32([20.0, 26.0]))
    # The direction to a clockwise core, turned from x towards y: west of north, north of east.
    assert np.stack(flow, -1)[0] == pytest.approx([0.0, -9.4 / (2 * math.pi * 5)], abs=1e-4)
    assert np.stack(flow, -1)[1] == pytest.approx([9.4 / (2 * math.pi * 6), 0.0], abs=1e-4)


def test_vessel_is_drawn_at_its_pose_and_pale_after_its_end():
    view = view_of(0)
    axes = axes_of(view)
    artists = drawing.draw_vessel(axes, view, 0, 3)
    hull = patches(artists, "Polygon")[0]
    expected = drawing.on_page(drawing.hull_outline(view.poses[3, 0], view.hulls[0]))
    assert hull.get_xy()[:5] == pytest.approx(expected)
    assert hull.get_alpha() == 1.0
    track = patches(artists, "Line2D")[0].get_xydata()
    assert track == pytest.approx(view.poses[:4, 0, 1::-1])
    assert len(patches(artists, "FancyArrowPatch")) == 2
    after = drawing.draw_vessel(axes, view, 0, view.frames - 1)
    assert patches(after, "Polygon")[0].get_alpha() < 1.0
    assert not patches(after, "FancyArrowPatch")


def test_collided_vessels_are_marked():
    view = view_of(HEAD_ON_PAIR)
    axes = axes_of(view)
    texts = [drawing.draw_vessel(axes, view, vessel, view.frames - 1) for vessel in range(3)]
    marks = [patches(each, "Text")[0].get_text() for each in texts]
    assert marks == ["1×", "2×", "3"]


def test_perception_and_zone_of_the_chosen_vessel():
    view = view_of(CROSSING_PAIR)
    axes = axes_of(view)
    frame, vessel = np.argwhere(view.rule != NO_RULE)[0]
    perceived = drawing.draw_perception(axes, view, vessel, frame)
    reach, seen = patches(perceived, "Circle")
    assert reach.radius == view.ranges[vessel]
    px, py, vx, vy, radius = view.objects[frame, vessel, 0]
    assert (*seen.center, seen.radius) == pytest.approx((py, px, radius))
    assert len(patches(perceived, "FancyArrowPatch")) == int(math.hypot(vx, vy) > 0.3)
    zone = drawing.draw_zone(axes, view, vessel, frame)
    outline = drawing.on_page(zone_in_world(view, vessel, frame))
    assert patches(zone, "Polygon")[0].get_xy()[:-1] == pytest.approx(outline)
    assert drawing.draw_zone(axes, view, 1 - vessel, view.frames - 1) == []
    text = drawing.status(view, vessel, frame)
    assert "crossing" in text
    assert f"turn {math.degrees(view.turn[frame, vessel]):.0f}°" in text


# Scenes, films and overviews


def test_scene_draws_the_same_frame_whatever_was_drawn_before():
    view = view_of(CROSSING_PAIR)
    forwards, jumping = drawing.Scene(view, 0), drawing.Scene(view, 0)
    for frame in (0, 5, 2):
        forwards.image(frame)
    one, other = forwards.image(7), jumping.image(7)
    assert one.shape == (720, 1280, 3)
    assert np.array_equal(one, other)
    assert not np.array_equal(one, forwards.image(8))
    # A number for each panel: thrust, speed with distance, return.
    assert forwards.returns is not None
    assert forwards.text.get_text() == drawing.status(view, 0, 8)


def test_scene_without_quantiles_has_no_panel_for_them():
    scene = drawing.Scene(view_of(0, quantiles=False), 1)
    assert scene.returns is None
    assert scene.image(2).std() > 10.0


@pytest.mark.parametrize("vessel", [-1, 2])
def test_a_vessel_that_is_not_there_is_refused(vessel):
    with pytest.raises(ConfigError, match=rf"--vessel={vessel + 1}: must be from 1 to 2"):
        drawing.Scene(view_of(0), vessel)


def test_film_and_gif_have_every_frame(tmp_path):
    from imageio import v2

    view = first_frames(view_of(0), 4)
    films = animation.write_animation(drawing.Scene(view, 0), tmp_path, "film", speed=5.0)
    assert [film.name for film in films] == ["film.mp4", "film.gif"]
    assert sorted(tmp_path.iterdir()) == sorted(films)  # nothing else is left
    with v2.get_reader(films[0]) as video:
        assert sum(1 for _ in video) == view.frames
        assert video.get_meta_data()["size"] == (1280, 720)
        assert video.get_meta_data()["fps"] == 10.0
    with v2.get_reader(films[1]) as gif:
        assert len(gif) == view.frames


def test_stills_show_the_frame_asked_for(tmp_path):
    from imageio import v2

    scene = drawing.Scene(view_of(0), 0)
    scene.image(1)  # a film before does not matter
    stills = [tmp_path / "first.png", tmp_path / "later.png"]
    for frame, path in zip((0, 4), stills, strict=True):
        scene.save(frame, path)
    first, later = (v2.imread(each) for each in stills)
    assert first.shape == later.shape == (1080, 1920, 4)
    assert not np.array_equal(first, later)
    assert "t = 2.0 s" in scene.title.get_text()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_overview_has_one_panel_for_each_episode(tmp_path, count):
    figure = drawing.draw_overview([view_of(index) for index in range(count)])
    assert len(figure.axes) == count
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [view_of(index).title for index in range(count)]
    drawing.save_figure(figure, tmp_path / "overview.png")
    assert (tmp_path / "overview.png").stat().st_size > 1000


def test_overview_of_too_many_is_refused():
    with pytest.raises(ConfigError, match="from 1 to 24 episodes"):
        drawing.draw_overview([view_of(0)] * 25)


# What is missing


def test_a_missing_library_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match=r"matplotlib is not installed.*pip install 'marinenav\["):
        drawing.draw_overview([view_of(0)])


def test_missing_ffmpeg_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="ffmpeg, which writes videos, was not found"):
        animation.require_ffmpeg()


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    figure = drawing.new_figure(2, 2)
    with pytest.raises(ConfigError, match="must be a file that ends in"):
        drawing.save_figure(figure, tmp_path / "picture.nonsense")
    with pytest.raises(ConfigError, match="cannot be written"):
        drawing.save_figure(figure, tmp_path / "missing" / "picture.png")
