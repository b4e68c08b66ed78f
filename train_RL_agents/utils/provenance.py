"""Versions of the packages, and the revision of the program."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("marinenav", "torch", "torchrl", "tensordict", "numpy", "gymnasium", "tensorboard")
"""Distributions whose versions are recorded with a run."""


def versions() -> dict[str, str]:
    """Return the versions of Python, the platform and PACKAGES by name, as text."""
    result = {"python": platform.python_version(), "platform": platform.platform()}
    for name in PACKAGES:
        try:
            result[name] = version(name)
        except PackageNotFoundError:
            result[name] = "not installed"
    return result


def _git(*arguments: str) -> str:
    """Return the output of git for the checkout of this file; empty if there is none."""
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
    """Return the program's git revision and a patch of uncommitted changes, which is empty without a checkout."""
    # A virtual environment may be inside another checkout.
    if not _git("ls-files", Path(__file__).name):
        return "not a git checkout", ""
    return _git("rev-parse", "HEAD").strip(), _git("diff", "HEAD")
