"""Versions of the packages, and the revision of the program."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("marinenav", "torch", "torchrl", "tensordict", "numpy", "gymnasium", "tensorboard")
"""Distributions whose versions are written down with a run."""


def versions() -> dict[str, str]:
    """Return the versions of everything that a run depends on."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _git(*arguments: str) -> str:
    """Return the output of git for the checkout that this file is in; empty if it is in none."""
    try:
        result = subprocess.run(
            ["git", *arguments],
            cwd=Path(__file__).parent,
            capture_output=True,
            check=True,
            encoding="utf-8",
            errors="replace",
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return result.stdout


def revision() -> tuple[str, str]:
    """Return the program's git revision, and a patch of what differs from it."""
    # A virtual environment may lie inside the checkout of something else.
    if not _git("ls-files", Path(__file__).name):
        return "not a git checkout", ""
    return _git("rev-parse", "HEAD").strip(), _git("diff", "HEAD")
