"""Check what training needs on this machine, and say what to do."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import NamedTuple

from train_RL_agents.utils.errors import first_line

IMPORTS: tuple[str, ...] = ()
"""None: what is missing should be told, not end the command."""
_OLDEST = (3, 11)
_DISK, _MEMORY = 2e9, 2e9
"""Bytes below which a run may fail."""


class Finding(NamedTuple):
    """One thing that was checked."""

    name: str
    """What."""
    found: str
    """What was found."""
    advice: str = ""
    """What to do; empty if it is fine."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "path",
        metavar="DIR",
        type=Path,
        nargs="?",
        default=Path("runs"),
        help="where runs are to be written; runs by default",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command; 1 if something is to be done."""
    worst = 0
    for finding in findings(arguments.path):
        worst |= bool(finding.advice)
        mark = "FIX" if finding.advice else "ok"
        print(f"{mark:<3}  {finding.name}: {finding.found}", flush=True)
        if finding.advice:
            print(f"     -> {finding.advice}", flush=True)
    return worst


def findings(path: Path) -> Iterator[Finding]:
    """Check one thing after another.

    Args:
        path: where runs are to be written.
    """
    yield _interpreter()
    yield from _packages()
    yield _compiler()
    yield _gpu()
    yield from _room(path)


def _interpreter() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    oldest = ".".join(map(str, _OLDEST))
    return Finding("Python", found, "" if sys.version_info >= _OLDEST else f"use {oldest} or later")


def _packages() -> Iterator[Finding]:
    """Versions, whether they can be imported, and whether they belong together."""
    from train_RL_agents.utils.provenance import versions

    found = versions()
    for name in ("torch", "tensordict", "torchrl", "numpy", "gymnasium", "tensorboard"):
        advice = ""
        try:
            import_module(name)
        except Exception as error:  # packages that do not fit together may raise anything
            again = f"pip install --force-reinstall '{_requirement(name)}'"
            advice = f"{first_line(error)}; reinstall with: {again}"
        yield Finding(name, found[name], advice)
    pair = [found[name].split(".")[:2] for name in ("torchrl", "tensordict")]
    text = f"torchrl {found['torchrl']} with tensordict {found['tensordict']}"
    series = ".".join(pair[0])
    advice = f"pip install 'tensordict=={series}.*'" if pair[0] != pair[1] else ""
    yield Finding("pairing", text, advice)


def _requirement(package: str) -> str:
    """A package with the versions that fit."""
    with suppress(PackageNotFoundError):
        return next(each for each in requires("marinenav") or () if re.match(rf"{package}\b", each))
    return package


def _compiler() -> Finding:
    """A line of C++ is compiled."""
    from train_RL_agents.utils.toolchain import compiler_problem

    problem = compiler_problem()
    return Finding("C++ compiler", problem.partition(";")[0] or "compiles", problem.partition("; ")[2])


def _gpu() -> Finding:
    """A kernel is run."""
    try:
        torch = import_module("torch")
        if not torch.cuda.is_available():
            return Finding("GPU", "none that torch can use; runs are on the CPU")
        name = torch.cuda.get_device_name(0)
        fine = float(torch.ones(1000, device="cuda").sum()) == 1000.0
    except Exception as error:  # drivers may raise anything
        advice = "install a driver that fits, or train with --device cpu"
        return Finding("GPU", first_line(error), advice)
    return Finding("GPU", f"{name}, runs kernels", "" if fine else "its results are wrong")


def _room(path: Path) -> Iterator[Finding]:
    """Memory, disk and write access."""
    from train_RL_agents.utils.toolchain import cache_folder, cache_problem

    try:
        free = import_module("psutil").virtual_memory().available
        advice = "" if free >= _MEMORY else "end other programs, or set a smaller buffer_size"
        yield Finding("memory", f"{free / 1e9:.1f} GB free", advice)
    except ImportError:
        yield Finding("memory", "not known", "pip install psutil")
    there = next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
    free = shutil.disk_usage(there).free
    advice = "" if free >= _DISK else f"make room, or train with save_dir elsewhere than {path}"
    yield Finding("disk", f"{free / 1e9:.1f} GB free for {path}", advice)
    try:
        with tempfile.TemporaryFile(dir=there):
            yield Finding("runs", f"{path} can be written")
    except OSError as error:
        yield Finding("runs", f"{path} cannot be written ({error.strerror})", "train with save_dir=FOLDER that can")
    problem = cache_problem()
    yield Finding(
        "code cache", problem.partition(";")[0] or f"{cache_folder()} can be written", problem.partition("; ")[2]
    )
