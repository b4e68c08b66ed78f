"""Search for runs and policies by path, shipped name or ``latest``."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path, PureWindowsPath

from marinenav_env.support.validation import ConfigError, require
from train_RL_agents.utils.closest import did_you_mean
from train_RL_agents.utils.files import read_json
from train_RL_agents.utils.shipped import DEFAULT_SAVE_DIR, find_shipped, shipped_paths

CONFIG_FILE = "trial_config.json"
MANIFEST_FILE, VERSIONS_FILE = "manifest.json", "versions.json"
"""Names of the list of policies in a run's checkpoints, and of the file with versions; both have a ``time``."""
LATEST = "latest"
"""Name that stands for the newest run of a folder, as in ``runs/latest``; without a folder, of ``save_dir``."""
_MAX_LISTED = 4
BLIND_PREFIX = "blind:"
"""Prefix of the names of policies and baselines that are made to observe no objects."""
POLICY_PATTERN = "checkpoints/policy_*.pt"
EVALUATIONS_PATTERN = "evaluations.npz"
_PATTERN_NAMES = {POLICY_PATTERN: "a policy", EVALUATIONS_PATTERN: "an evaluation"}


def resolve_path(path: Path, needed: str = "") -> Path:
    """Return the path that a user's input stands for: an existing path, the newest run, or a shipped policy.

    The newest run must have a file of the pattern ``needed``, POLICY_PATTERN or EVALUATIONS_PATTERN, if that is given.
    """
    if path.name != LATEST or path.exists():
        return find_shipped("pretrained", path)
    folder = path.parent if path.parent != Path() else Path(DEFAULT_SAVE_DIR)
    runs = find_runs_below(folder)
    if not runs:
        raise ConfigError(f"{path}: there is no run in {folder}; FOLDER/latest looks elsewhere")
    newest = next((run for run in runs if not needed or any(run.glob(needed))), None)
    if newest is None:
        raise ConfigError(f"{path}: no run in {folder} has {_PATTERN_NAMES[needed]} yet; the newest is {runs[0]}")
    return newest


def locate_policy(name: str, baselines: Collection[str]) -> Path | None:
    """Return the path of a policy, or None for the name of a baseline; either may have the prefix ``blind:``."""
    plain = name.removeprefix(BLIND_PREFIX)
    path = resolve_path(Path(plain), POLICY_PATTERN)
    if path.exists():
        return path
    if plain in baselines:
        return None
    names = shipped_paths("pretrained")
    near = did_you_mean(PureWindowsPath(path).name, [*baselines, *names, LATEST])
    if len(path.parts) > 1:  # a path, not a name
        raise ConfigError(f"{plain}: there is no such run folder or policy file{near}")
    kinds = f"a checkpoint nor a baseline ({', '.join(baselines)})" if baselines else "a checkpoint"
    raise ConfigError(f"{plain}: neither {kinds} nor a policy that is shipped ({', '.join(names)}){near}")


def find_runs_below(folder: Path) -> list[Path]:
    """Return the run folders in a training folder, or in a folder of them; that with the newest policy first."""
    runs = [file.parent for pattern in ("seed_*", "*/seed_*") for file in folder.glob(f"{pattern}/{CONFIG_FILE}")]
    return sorted(runs, key=lambda run: (_time_of(run), str(run)), reverse=True)


def _time_of(run: Path) -> float:
    """Return the time that a run's files record (s since 1970), as copies of files have other times."""
    for name in (f"checkpoints/{MANIFEST_FILE}", VERSIONS_FILE):
        with suppress(OSError, ValueError, KeyError, TypeError):  # missing, damaged, or of an earlier version
            return float(read_json(run / name)["time"])
    return (run / CONFIG_FILE).stat().st_mtime


def single_run(path: Path, key: str = "run", allowed: str = "a run folder, or latest") -> Path:
    """Return the run folder (seed_N) of a path: the path itself, or the only run inside."""
    argument, path = path, resolve_path(path)
    is_policy = path in shipped_paths("pretrained").values() or (path.suffix == ".pt" and path.is_file())
    # A run folder may have the name of a shipped policy.
    if not (path / CONFIG_FILE).is_file() and is_policy:
        raise ConfigError(
            f"{key}={str(argument)!r}: is a policy, not a run; load_model={argument} starts a new run from its weights"
        )
    runs = [path] if (path / CONFIG_FILE).is_file() else find_runs_below(path)
    hint = "" if path.exists() else did_you_mean(path.name, shipped_paths("pretrained"))
    require(len(runs) > 0, key, str(path), f"{allowed}{hint}")
    names = sorted(str(run.relative_to(path)) for run in runs[:_MAX_LISTED] if run != path)
    more = ", ..." if len(runs) > _MAX_LISTED else ""
    allowed = f"a single run, one of {names}{more} in it, or {path / LATEST} for the newest"
    require(len(runs) == 1, key, str(path), allowed)
    return runs[0]
