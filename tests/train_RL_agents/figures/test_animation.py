"""Films: how many frames are written, and what happens when they cannot be."""

import resource

import pytest

from marinenav_env import ConfigError
from tests.train_RL_agents.recorded import first_frames, small_recording
from train_RL_agents.figures import animation, drawing
from train_RL_agents.figures.episode_view import view_episode

pytest.importorskip("matplotlib")


def view_of(index):
    return view_episode(small_recording(), index + 1)


def test_a_film_has_every_frame(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    from imageio import v2

    view = first_frames(view_of(0), 4)
    films = animation.write_animation(drawing.EpisodeScene(view, 0), tmp_path, "film", speed=5.0)
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
        with pytest.raises(ConfigError, match=r"film: cannot be written \(") as caught:
            animation.write_animation(drawing.EpisodeScene(view, 0), tmp_path, "film", speed=5.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(str(caught.value)) < 400 + len(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""
