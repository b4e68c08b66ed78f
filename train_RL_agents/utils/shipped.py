"""Configurations and policies that are shipped with the package, by name."""

from pathlib import Path, PureWindowsPath
from typing import Literal

from marinenav_env.support.validation import require
from train_RL_agents.utils.closest import did_you_mean

ShippedKind = Literal["configs", "pretrained"]

DEFAULT_SAVE_DIR = "runs"
PACKAGE_FOLDER = Path(__file__).parents[1]


def shipped_paths(kind: ShippedKind) -> dict[str, Path]:
    """Return the paths of the shipped configuration files, or the folders of the shipped policies, by their names."""
    # setup.py adds both folders to a wheel; in a checkout they are next to the packages.
    inside = PACKAGE_FOLDER / "shipped" / kind
    root = inside if inside.is_dir() else PACKAGE_FOLDER.parent / kind
    if kind == "pretrained":
        return {file.parent.name: file.parent for file in sorted(root.glob("*/policy.pt"))}
    files = sorted(file for file in root.rglob("*.json") if file.parent.name != "vessels")
    return {file.relative_to(root).with_suffix("").as_posix(): file for file in files}


def find_shipped(kind: ShippedKind, path: Path) -> Path:
    """Return an existing path unchanged, else the path of the shipped configuration or policy of that name.

    Names are such as ``iqn``, ``AC-IQN``, ``pretrained/iqn`` or, with a file, ``pretrained/iqn/policy.pt``.
    """
    if path.exists():
        return path
    paths, name = shipped_paths(kind), path.as_posix().removeprefix(f"{kind}/").removesuffix(".json")
    name = name.lower().replace("-", "_")
    folder, _, file = name.partition("/")
    inside = paths.get(folder, path) / file
    return paths.get(name, inside if inside.is_file() else path)


def require_config(path: Path, key: str = "config") -> Path:
    """Return the file of a configuration, given by its path or shipped name; raise a ConfigError if there is none."""
    file, names = find_shipped("configs", path), shipped_paths("configs")
    hint = did_you_mean(PureWindowsPath(path).stem, names) or f" or one of {', '.join(names)}"
    require(file.exists(), key, str(path), f"a JSON file{hint}")
    return file
