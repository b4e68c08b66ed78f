"""Animations of episodes as MP4."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from marinenav_env.support.extras import import_optional
from marinenav_env.support.files import require_overwritable
from marinenav_env.support.validation import ConfigError
from train_RL_agents.figures.drawing import EpisodeScene
from train_RL_agents.utils.errors import first_line


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
    """Write an episode as MP4, shown ``speed`` times as fast as it was, and return a list with its path."""
    imageio, ffmpeg = import_optional("imageio.v2", "plot"), import_optional("imageio_ffmpeg", "plot")
    try:
        with TemporaryDirectory(dir=folder) as temporary:
            path = Path(temporary) / f"{name}.mp4"
            with imageio.get_writer(path, format="FFMPEG", fps=speed / scene.view.dt) as video:
                for frame in range(scene.view.frames):
                    video.append_data(scene.image(frame))
            # ffmpeg reports no error if it could not write the end.
            ffmpeg.count_frames_and_secs(str(path))
            require_overwritable(folder / path.name)
            return [path.replace(folder / path.name)]
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"{folder / name}: cannot be written ({first_line(error)})") from error
