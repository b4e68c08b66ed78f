"""Animations of episodes as MP4 and GIF."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from marinenav_env.validation import ConfigError
from train_RL_agents.figures.drawing import Scene, require_plotting


def require_ffmpeg() -> None:
    """Make sure that videos can be written.

    Raises:
        ConfigError: when a package or the program is missing.
    """
    require_plotting("imageio")
    require_plotting("imageio_ffmpeg")
    import imageio_ffmpeg

    try:
        imageio_ffmpeg.get_ffmpeg_version()
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
    from imageio import v2

    imageio: Any = v2
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


def write_frames(scene: Scene, folder: Path, name: str, frames: list[int]) -> list[Path]:
    """Write still pictures.

    Args:
        scene: what to show.
        folder: where; it must exist.
        name: of the files, to which the number of the frame is added.
        frames: from 0.

    Returns:
        The files.

    Raises:
        ConfigError: when they cannot be written.
    """
    paths = [folder / f"{name}_frame_{frame:04}.png" for frame in frames]
    for frame, path in zip(frames, paths, strict=True):
        scene.save(frame, path)
    return paths


__all__ = ["require_ffmpeg", "write_animation", "write_frames"]
