"""Pictures: what is drawn where, and how many frames are written."""

import math
import resource
import sys

import numpy as np
import pytest

from marinenav_env import ConfigError
from marinenav_env.pictures.drawing import to_page
from tests.marinenav_env.pictures.helpers import axes_of, patches
from tests.refusals import refusal
from tests.train_RL_agents.figures.helpers import CROSSING_PAIR, first_frames, small_recording
from train_RL_agents.figures import drawing
from train_RL_agents.figures.episode_view import NO_RULE, view_episode, zone_in_world

matplotlib = pytest.importorskip("matplotlib")
pytest.importorskip("imageio")


def view_of(index, quantiles=True):
    return view_episode(small_recording(quantiles), index + 1)


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
    outline = to_page(zone_in_world(view, vessel, frame))
    assert patches(zone, "Polygon")[0].get_xy()[:-1] == pytest.approx(outline)
    assert drawing.draw_zone(axes, view, 1 - vessel, view.frames - 1) == []
    text = drawing.status_text(view, vessel, frame)
    assert "crossing" in text
    assert f"turn {math.degrees(view.turn[frame, vessel]):.0f}°" in text


def test_scene_draws_the_same_frame_whatever_was_drawn_before():
    view = view_of(CROSSING_PAIR)
    forwards, jumping = drawing.EpisodeScene(view, 0), drawing.EpisodeScene(view, 0)
    for frame in (0, 5, 2):
        forwards.image(frame)
    one, other = forwards.image(7), jumping.image(7)
    assert one.shape == (720, 1280, 3)
    assert np.array_equal(one, other)
    assert not np.array_equal(one, forwards.image(8))
    # A number for each panel: thrust, speed with distance, return.
    assert forwards.returns is not None
    assert forwards.text.get_text() == drawing.status_text(view, 0, 8)


def test_scene_without_quantiles_has_no_panel_for_them():
    scene = drawing.EpisodeScene(view_of(0, quantiles=False), 1)
    assert scene.returns is None
    assert scene.image(2).std() > 10.0


def test_stills_show_the_frame_asked_for(tmp_path):
    from imageio import v2

    scene = drawing.EpisodeScene(view_of(0), 0)
    scene.image(1)  # a film before does not matter
    stills = [tmp_path / "first.png", tmp_path / "later.png"]
    for frame, path in zip((0, 4), stills, strict=True):
        scene.save_frame(frame, path)
    first, later = (v2.imread(each) for each in stills)
    assert first.shape == later.shape == (1080, 1920, 4)
    assert not np.array_equal(first, later)
    assert "t = 2.0 s" in scene.title.get_text()


@pytest.mark.parametrize("count", [1, 5])
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


def test_a_missing_library_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match=r"matplotlib is not installed.*pip install 'marinenav\["):
        drawing.draw_overview([view_of(0)])


def test_a_film_has_every_frame(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    from imageio import v2

    view = first_frames(view_of(0), 4)
    films = drawing.write_animation(drawing.EpisodeScene(view, 0), tmp_path, "film", speed=5.0)
    assert list(tmp_path.iterdir()) == films == [tmp_path / "film.mp4"]  # nothing else is left
    with v2.get_reader(films[0]) as video:
        assert sum(1 for _ in video) == view.frames
        assert video.get_meta_data()["size"] == (1280, 720)
        assert video.get_meta_data()["fps"] == 10.0


@pytest.mark.parametrize("limit", [0, 3000])
def test_a_film_that_does_not_fit_gives_one_sentence(tmp_path, capfd, limit):
    pytest.importorskip("imageio_ffmpeg")
    view = first_frames(view_of(0), 4)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        message = refusal(drawing.write_animation, drawing.EpisodeScene(view, 0), tmp_path, "film", speed=5.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "film: cannot be written (" in message and len(message) < 400 + len(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""
