"""Films: how many frames are written, and what happens when they cannot be."""

import io
import resource

import numpy as np
import pytest

from marinenav_env import ConfigError
from tests.train_RL_agents.recorded import first_frames, small_recording
from train_RL_agents.figures import animation, drawing
from train_RL_agents.figures.episode_view import view_episode

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("matplotlib")


def view_of(index):
    return view_episode(small_recording(), index + 1)


def test_film_and_gif_have_every_frame(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    from imageio import v2

    view = first_frames(view_of(0), 4)
    films = animation.write_animation(drawing.EpisodeScene(view, 0), tmp_path, "film", speed=5.0)
    assert [film.name for film in films] == ["film.mp4", "film.gif"]
    assert sorted(tmp_path.iterdir()) == sorted(films)  # nothing else is left
    with v2.get_reader(films[0]) as video:
        assert sum(1 for _ in video) == view.frames
        assert video.get_meta_data()["size"] == (1280, 720)
        assert video.get_meta_data()["fps"] == 10.0
    with v2.get_reader(films[1]) as gif:
        assert len(gif) == view.frames


@pytest.mark.parametrize("rate", [0.2, 30.0, 80.0])
def test_a_gif_lasts_as_long_as_its_frames(rate):
    images = [np.full((8, 8, 3), 6 * number, np.uint8) for number in range(41)]
    durations, shades = [], []
    with Image.open(io.BytesIO(animation.make_gif(images, rate))) as gif:
        for frame in range(gif.n_frames):
            gif.seek(frame)
            durations.append(gif.info["duration"])
            shades.append(gif.convert("RGB").getpixel((0, 0))[0])
    assert sum(durations) == pytest.approx(1000.0 * 41 / rate, abs=5.0)
    # Players show frames of less than 20 ms for 100 ms.
    assert min(durations) >= 20 and max(durations) - min(durations) <= 10
    assert shades == sorted(set(shades)) and (shades[0], shades[-1]) == (0, 240)
    assert len(shades) == 41 if rate <= 50.0 else len(shades) == int(41 * 50 / rate)


@pytest.mark.parametrize("limit", [0, 3000])
def test_a_film_that_does_not_fit_gives_one_sentence(tmp_path, capfd, limit):
    pytest.importorskip("imageio_ffmpeg")
    view = first_frames(view_of(0), 4)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with pytest.raises(ConfigError, match=r"film(\.gif)?: cannot be written \(") as caught:
            animation.write_animation(drawing.EpisodeScene(view, 0), tmp_path, "film", speed=5.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(str(caught.value)) < 400 + len(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""
