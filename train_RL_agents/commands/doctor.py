"""Check what training needs on this machine, and give advice."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from train_RL_agents.utils.errors import first_line

IMPORTS: tuple[str, ...] = ()
"""Modules to import before the command; none, because it reports missing packages and must not fail for them."""
_MIN_FREE_DISK, _MIN_FREE_MEMORY = 2e9, 2e9
"""Free disk space and free memory (bytes) below which a run may fail."""


class CheckResult(NamedTuple):
    """Result of one check of the machine."""

    name: str
    state: str
    advice: str = ""
    """What the user should do; empty if nothing."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``marinenav doctor`` to its parser."""
    parser.add_argument("path", metavar="DIR", type=Path, nargs="?", default=Path("runs"), help="folder of runs (runs)")


def run(arguments: argparse.Namespace) -> int:
    """Run ``marinenav doctor``, and return 1 if something needs to be done, else 0."""
    worst = 0
    for finding in run_checks(arguments.path):
        worst |= bool(finding.advice)
        mark = "FIX" if finding.advice else "ok"
        print(f"{mark:<3}  {finding.name}: {finding.state}", flush=True)
        if finding.advice:
            print(f"     -> {finding.advice}", flush=True)
    return worst


def run_checks(path: Path) -> Iterator[CheckResult]:
    """Yield the results of checks of packages, C++ compiler, GPU, memory, disk space and write access."""
    yield from _check_packages()
    yield _check_compiler()
    yield _check_gpu()
    yield from _check_capacity(path)


def _check_packages() -> Iterator[CheckResult]:
    """Yield the results of checks that packages can be imported."""
    from train_RL_agents.utils.provenance import software_versions

    installed = software_versions()
    for name in ("torch", "tensordict", "torchrl", "numpy", "gymnasium", "tensorboard"):
        advice = ""
        try:
            import_module(name)
        except Exception as error:  # packages that do not fit together may raise anything
            advice = f"{first_line(error)}; see pip check; bash tools/setup.sh installs what fits together"
        yield CheckResult(name, installed[name], advice)


def _check_compiler() -> CheckResult:
    """Check the C++ compiler by compiling a line of code, and return the result."""
    from train_RL_agents.utils.toolchain import compiler_problem

    problem = compiler_problem()
    return CheckResult("C++ compiler", problem.partition(";")[0] or "compiles", problem.partition("; ")[2])


def _check_gpu() -> CheckResult:
    """Check the GPU by running a kernel, and return the result."""
    try:
        torch = import_module("torch")
        if not torch.cuda.is_available():
            return CheckResult("GPU", "none that torch can use; runs are on the CPU")
        name = torch.cuda.get_device_name(0)
        is_correct = float(torch.ones(1000, device="cuda").sum()) == 1000.0
    except Exception as error:  # drivers may raise anything
        advice = "install a driver that fits, or train with --device cpu"
        return CheckResult("GPU", first_line(error), advice)
    return CheckResult("GPU", f"{name}, runs kernels", "" if is_correct else "its results are wrong")


def _check_capacity(path: Path) -> Iterator[CheckResult]:
    """Yield the results of checks of free memory, disk space, and write access to ``path`` and the code cache."""
    from train_RL_agents.utils.toolchain import cache_folder, cache_problem

    try:
        free = import_module("psutil").virtual_memory().available
        advice = "" if free >= _MIN_FREE_MEMORY else "end other programs, or set a smaller buffer_size"
        yield CheckResult("memory", f"{free / 1e9:.1f} GB free", advice)
    except ImportError:
        yield CheckResult("memory", "not known", "pip install psutil")
    folder = next(parent for parent in (path.absolute(), *path.absolute().parents) if parent.exists())
    free = shutil.disk_usage(folder).free
    advice = "" if free >= _MIN_FREE_DISK else f"make room, or train with save_dir elsewhere than {path}"
    yield CheckResult("disk", f"{free / 1e9:.1f} GB free for {path}", advice)
    try:
        with tempfile.TemporaryFile(dir=folder):
            yield CheckResult("runs", f"{path} can be written")
    except OSError as error:
        yield CheckResult("runs", f"{path} cannot be written ({error.strerror})", "train with save_dir=FOLDER that can")
    problem = cache_problem()
    yield CheckResult(
        "code cache", problem.partition(";")[0] or f"{cache_folder()} can be written", problem.partition("; ")[2]
    )
