"""Runs and policies by what a user calls them: a path, a shipped name, ``latest``."""

from __future__ import annotations

from pathlib import Path

from marinenav_env.validation import ConfigError, require
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.utils.closest import did_you_mean
from train_RL_agents.utils.shipped import find_shipped, shipped

CONFIG = "trial_config.json"
"""The file that makes a folder a run."""
LATEST = "latest"
"""The newest run of the folder before it, as in ``runs/latest``; alone, of ``runs``."""
_LISTED = 4
"""Runs that a message names."""


def meant(path: Path) -> Path:
    """The path that a user means: one that exists, the newest run for LATEST, or what is shipped.

    Returns:
        The path as given if there is nothing of that name.

    Raises:
        ConfigError: when the newest run of a folder without runs is meant.
    """
    if path.name != LATEST or path.exists():
        return find_shipped("pretrained", path)
    folder = path.parent if path.parent != Path() else Path(TrainConfig.save_dir)
    runs = runs_below(folder)
    if not runs:
        raise ConfigError(f"{path}: there is no run in {folder}; FOLDER/latest looks elsewhere")
    return runs[0]


def runs_below(folder: Path) -> list[Path]:
    """The run folders in a training folder, or in a folder of such; the newest first.

    A run is as old as the last checkpoint, or else as the run itself.
    """
    found = [file.parent for pattern in ("seed_*", "*/seed_*")
             for file in folder.glob(f"{pattern}/{CONFIG}")]  # fmt: skip

    def age(run: Path) -> tuple[float, str]:
        written = (run / CONFIG, run / "checkpoints")
        return max(each.stat().st_mtime for each in written if each.exists()), str(run)

    return sorted(found, key=age, reverse=True)


def single_run(path: Path, key: str = "run", allowed: str = "a run folder") -> Path:
    """The run folder (seed_N) that a path means: itself, or the only one inside.

    Args:
        path: a run folder, a folder with one, or LATEST.
        key: what the path is called in messages.
        allowed: what it might be.

    Raises:
        ConfigError: when there is none, or more than one.
    """
    path = meant(path)
    runs = [path] if (path / CONFIG).is_file() else runs_below(path)
    hint = "" if path.exists() else did_you_mean(path.name, shipped("pretrained"))
    require(len(runs) > 0, key, str(path), f"{allowed}{hint}")
    names = sorted(str(run.relative_to(path)) for run in runs[:_LISTED] if run != path)
    more = ", ..." if len(runs) > _LISTED else ""
    allowed = f"a single run, one of {names}{more} in it, or {path / LATEST} for the newest"
    require(len(runs) == 1, key, str(path), allowed)
    return runs[0]
