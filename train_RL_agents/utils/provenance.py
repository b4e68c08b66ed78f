"""Versions of the packages, and the revision of the program."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RECORDED_PACKAGES = ("marinenav", "torch", "torchrl", "tensordict", "numpy", "gymnasium", "tensorboard")


def software_versions() -> dict[str, str]:
    """Return the versions, as text, of Python (``python``), of the ``platform`` and of RECORDED_PACKAGES, by name."""
    result = {"python": platform.python_version(), "platform": platform.platform()}
    for name in RECORDED_PACKAGES:
        try:
            result[name] = version(name)
        except PackageNotFoundError:
            result[name] = "not installed"
    return result


def _git(*arguments: str) -> str:
    """Return the output of a git command in the folder of this file; empty if it fails."""
    try:
        options: dict[str, Any] = {"check": True, "encoding": "utf-8", "errors": "replace", "timeout": 10}
        result = subprocess.run(["git", *arguments], cwd=Path(__file__).parent, capture_output=True, **options)
    except (OSError, subprocess.SubprocessError):
        return ""
    return str(result.stdout)


def git_revision() -> tuple[str, str]:
    """Return the commit of the program's checkout (else "not a git checkout") and a patch of uncommitted changes."""
    # A virtual environment may be inside another checkout.
    if not _git("ls-files", Path(__file__).name):
        return "not a git checkout", ""
    return _git("rev-parse", "HEAD").strip(), _git("diff", "HEAD")
