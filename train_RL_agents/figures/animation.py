"""Animations of episodes as MP4 and GIF."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from marinenav_env.support.extras import import_optional
from marinenav_env.support.files import require_overwritable
from marinenav_env.support.validation import ConfigError
from train_RL_agents.figures.drawing import EpisodeScene
from train_RL_agents.utils.errors import first_line
from train_RL_agents.utils.files import write_atomically

_MAX_GIF_RATE = 50.0
"""Largest number of pictures per second of a GIF; players show pictures of less than 0.02 s for 0.1 s."""


def require_ffmpeg() -> None:
    """Raise a ConfigError if ffmpeg, which writes videos, or a package is missing."""
    import_optional("imageio", "plot")
    try:
        import_optional("imageio_ffmpeg", "plot").get_ffmpeg_version()
    except (OSError, RuntimeError) as error:
        raise ConfigError(
            "ffmpeg, which writes videos, was not found: install it, or the package imageio-ffmpeg for this platform"
        ) from error


def write_animation(scene: EpisodeScene, folder: Path, name: str, speed: float) -> list[Path]:
    """Write an episode as MP4 and GIF, shown ``speed`` times as fast as it was, and return the two paths."""
    frames = map(scene.image, range(scene.view.frames))
    return write_frames(frames, speed / scene.view.dt, folder, name)


def write_frames(frames: Iterable[NDArray[np.uint8]], rate: float, folder: Path, name: str) -> list[Path]:
    """Write pictures [height, width, 3], ``rate`` per second, as MP4 and GIF, and return the two paths.

    The files appear when both are complete; a ConfigError says why they cannot be written.
    """
    require_ffmpeg()
    imageio, ffmpeg = import_optional("imageio.v2", "plot"), import_optional("imageio_ffmpeg", "plot")
    images = []
    try:
        with TemporaryDirectory(dir=folder) as temporary:
            mp4 = Path(temporary) / f"{name}.mp4"
            with imageio.get_writer(mp4, format="FFMPEG", fps=rate) as video:
                for image in frames:
                    video.append_data(image)
                    images.append(image)
            # ffmpeg reports no error if it could not write the end.
            ffmpeg.count_frames_and_secs(str(mp4))
            require_overwritable(folder / mp4.name)
            write_atomically(folder / f"{name}.gif", make_gif(images, rate))
            return [mp4.replace(folder / mp4.name), folder / f"{name}.gif"]
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"{folder / name}: cannot be written ({first_line(error)})") from error


def make_gif(images: Sequence[NDArray[np.uint8]], rate: float) -> bytes:
    """Return a repeating GIF of pictures [height, width, 3], of which it leaves some out above _MAX_GIF_RATE.

    A GIF states durations in hundredths of a second, so those of its pictures differ by one where that is needed.
    """
    pillow, seconds = import_optional("PIL.Image", "plot"), len(images) / rate
    count = max(1, min(len(images), int(_MAX_GIF_RATE * seconds)))
    ends = (np.arange(count + 1) * 100.0 * seconds / count).round().astype(int)
    chosen = np.linspace(0, len(images) - 1, count).round().astype(int)
    first, *others = (pillow.fromarray(images[number]) for number in chosen)
    content, durations = io.BytesIO(), (10 * np.diff(ends)).tolist()
    first.save(content, "GIF", save_all=True, append_images=others, duration=durations, loop=0)
    return content.getvalue()
