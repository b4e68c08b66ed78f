"""Configurations and policies that come with the package, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

Kind = Literal["configs", "pretrained"]

PACKAGE = Path(__file__).parents[1]
"""The folder of the package."""


def shipped(kind: Kind) -> dict[str, Path]:
    """Return the files of the package: configurations, or folders of policies, by name."""
    # setup.py puts both folders into a wheel; in a checkout they lie beside the packages.
    inside = PACKAGE / "shipped" / kind
    root = inside if inside.is_dir() else PACKAGE.parent / kind
    if kind == "pretrained":
        return {file.parent.name: file.parent for file in sorted(root.glob("*/policy.pt"))}
    files = sorted(root.rglob("*.json"))
    return {file.relative_to(root).with_suffix("").as_posix(): file for file in files}


def find_shipped(kind: Kind, given: Path) -> Path:
    """Return the path that a user means: one that exists, else what is shipped under that name.

    Args:
        kind: what is looked for.
        given: a path, or a name such as ``iqn``, ``AC-IQN`` or ``pretrained/iqn``; of a policy's
            folder also a file, as in ``pretrained/iqn/policy.pt``.

    Returns:
        The path as given if there is nothing of that name.
    """
    if given.exists():
        return given
    known, name = shipped(kind), given.as_posix().removeprefix(f"{kind}/").removesuffix(".json")
    name = name.lower().replace("-", "_")
    folder, _, file = name.partition("/")
    inside = known.get(folder, given) / file
    return known.get(name, inside if inside.is_file() else given)
