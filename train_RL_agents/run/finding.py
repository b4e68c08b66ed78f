"""Runs and policies by what a user calls them: a path, a shipped name, ``latest``."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from marinenav_env.support.validation import ConfigError, require
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.utils.closest import did_you_mean
from train_RL_agents.utils.shipped import find_shipped, shipped

CONFIG = "trial_config.json"
"""The file that makes a folder a run."""
LATEST = "latest"
"""The newest run of the folder before it, as in ``runs/latest``; alone, of ``runs``."""
_LISTED = 4
"""Runs that a message names."""


POLICIES, EVALUATIONS = "checkpoints/policy_*.pt", "evaluations.npz"
"""Files of a run that a command may need."""
_NEEDED = {POLICIES: "a policy", EVALUATIONS: "an evaluation"}


def meant(path: Path, needed: str = "") -> Path:
    """Return the path that a user means: one that exists, a run for LATEST, or what is shipped.

    Args:
        path: as the user wrote it.
        needed: files that a run for LATEST has (POLICIES or EVALUATIONS); the newest run with some
            is meant, or the newest of all.

    Returns:
        The path as given if there is nothing of that name.

    Raises:
        ConfigError: when the newest run of a folder without such runs is meant.
    """
    if path.name != LATEST or path.exists():
        return find_shipped("pretrained", path)
    folder = path.parent if path.parent != Path() else Path(TrainConfig.save_dir)
    runs = runs_below(folder)
    if not runs:
        hint = "" if folder.is_dir() else alike(folder / LATEST)
        looks = hint or "; FOLDER/latest looks elsewhere"
        raise ConfigError(f"{path}: there is no run in {folder}{looks}")
    found = next((run for run in runs if not needed or any(run.glob(needed))), None)
    if found is None:
        raise ConfigError(f"{path}: no run in {folder} has {_NEEDED[needed]} yet; the newest is {runs[0]}")
    return found


def proposal(path: Path, names: Iterable[str]) -> str:
    """Return the end of a sentence about a path that is not there: a path or name that was meant.

    Args:
        path: see alike.
        names: what might be named instead of a path.
    """
    near = alike(path)
    return near if "did you mean" in near else did_you_mean(path.name, names) or near


def alike(path: Path) -> str:
    """Return the end of a sentence about a path that is not there: a name like it, or what is.

    Args:
        path: of which some folder exists, perhaps the present one.
    """
    folder, missing = path.parent, [path.name]
    while not folder.is_dir() and folder != folder.parent:
        folder, missing = folder.parent, [folder.name, *missing]
    if not folder.is_dir():
        return ""
    try:
        there = sorted(each.name for each in folder.iterdir() if not each.name.startswith("."))
    except PermissionError:  # such as one that holds the folders of all users
        return ""
    # Alone it is of another folder.
    runs = runs_below(Path(TrainConfig.save_dir) if folder == Path() else folder)
    names = [LATEST, *there] if len(missing) == 1 and runs else there
    close = difflib.get_close_matches(missing[0], names, 2)
    found = [str(folder.joinpath(name, *missing[1:])) for name in close]
    found = [each for each in found if Path(each).exists() or Path(each).name == LATEST]
    if found:
        return f"; did you mean {' or '.join(found)}?"
    if folder == folder.parent:  # the present one or the root, which may hold anything
        return f"; the newest run is {runs[0]}" if runs else ""
    more = ", ..." if len(there) > _LISTED else ""
    return f"; {folder} holds {', '.join(there[:_LISTED]) or 'nothing'}{more}"


def runs_below(folder: Path) -> list[Path]:
    """The run folders in a training folder, or in a folder of such; the newest first.

    A run is as old as the last checkpoint, or else as the run itself.
    """
    found = [file.parent for pattern in ("seed_*", "*/seed_*") for file in folder.glob(f"{pattern}/{CONFIG}")]

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
    given, path = path, meant(path)
    # A run may hold a file of that name, too.
    if not (path / CONFIG).is_file() and path in shipped("pretrained").values():
        name = path.name
        raise ConfigError(
            f"{key}={str(given)!r}: is a policy that is shipped, not a run; "
            f"load_model={name} starts a new run from its weights"
        )
    runs = [path] if (path / CONFIG).is_file() else runs_below(path)
    if path.is_dir() and not runs:
        holds = "there is no run in it" if any(path.iterdir()) else "it is empty"
        raise ConfigError(f"{key}={str(path)!r}: must be {allowed}; {holds}")
    hint = "" if path.exists() else proposal(path, shipped("pretrained"))
    require(len(runs) > 0, key, str(path), f"{allowed}{hint}")
    names = sorted(str(run.relative_to(path)) for run in runs[:_LISTED] if run != path)
    more = ", ..." if len(runs) > _LISTED else ""
    allowed = f"a single run, one of {names}{more} in it, or {path / LATEST} for the newest"
    require(len(runs) == 1, key, str(path), allowed)
    return runs[0]
