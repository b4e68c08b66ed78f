"""Animations of episodes as MP4 and GIF."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from marinenav_env.extras import need
from marinenav_env.validation import ConfigError
from train_RL_agents.figures.drawing import Scene


def require_ffmpeg() -> None:
    """Make sure that videos can be written.

    Raises:
        ConfigError: when a package or the program is missing.
    """
    need("imageio", "plot")
    try:
        need("imageio_ffmpeg", "plot").get_ffmpeg_version()
    except (OSError, RuntimeError) as error:
        raise ConfigError(
            "ffmpeg, which writes videos, was not found: install it, or the package "
            "imageio-ffmpeg for this platform"
        ) from error


def write_animation(scene: Scene, folder: Path, name: str, speed: float) -> list[Path]:
    """Write an episode as MP4 and as GIF; both files appear when they are complete.

    Args:
        scene: what to show.
        folder: where; it must exist.
        name: of the files, without ending.
        speed: seconds shown in a second.

    Returns:
        The files.

    Raises:
        ConfigError: when they cannot be written.
    """
    require_ffmpeg()
    imageio = need("imageio.v2", "plot")
    rate = speed / scene.view.dt
    try:
        with TemporaryDirectory(dir=folder) as scratch:
            films = [Path(scratch) / f"{name}.mp4", Path(scratch) / f"{name}.gif"]
            with (
                imageio.get_writer(films[0], format="FFMPEG", fps=rate) as video,
                imageio.get_writer(films[1], mode="I", duration=1000.0 / rate, loop=0) as gif,
            ):
                for frame in range(scene.view.frames):
                    image = scene.image(frame)
                    video.append_data(image)
                    gif.append_data(image)
            return [film.replace(folder / film.name) for film in films]
    except OSError as error:
        raise ConfigError(f"{folder / name}: cannot be written ({error})") from error


__all__ = ["require_ffmpeg", "write_animation"]
