"""What generated code needs, and going on without it."""

from __future__ import annotations

import logging
import os
import subprocess
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

from train_RL_agents.utils.device import release_memory
from train_RL_agents.utils.errors import first_line

Made = TypeVar("Made")

_NOT_COMPILING = ("output_code.py", "utils.py")
"""Files of the compiler that generated code is called from."""
_DAMAGE = (ImportError, SyntaxError, NameError, AttributeError, EOFError)
"""What reading damaged code leads to."""


def quiet_compiler() -> None:
    """Leave out notices of the compiler that no user can act on, such as the one on CUDA_HOME."""
    for name in ("torch.utils.cpp_extension", "torch._inductor.codecache"):
        logging.getLogger(name).setLevel(logging.ERROR)


def cache_folder() -> Path:
    """Where generated code is kept."""
    named = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    user = os.environ.get("USER") or os.environ.get("LOGNAME") or str(os.getuid())
    return Path(named or Path(tempfile.gettempdir()) / f"torchinductor_{user}")


def compiler_problem() -> str:
    """Compile a line of C++ with OpenMP, as generated code for the CPU is; what is wrong, or ""."""
    compiler = os.environ.get("CXX", "g++")
    hint = "install one (Debian, Ubuntu: apt install g++; conda: conda install cxx-compiler)"
    with tempfile.TemporaryDirectory() as folder:
        command = [compiler, "-x", "c++", "-", "-shared", "-fPIC", "-fopenmp", "-o", f"{folder}/a"]
        try:
            done = subprocess.run(
                command, input="#include <omp.h>\n#include <cmath>\nint f() { return 1; }\n",
                capture_output=True, text=True, timeout=60,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            return f"there is no C++ compiler ({compiler}); {hint}"
    if done.returncode:
        said = next(iter(done.stderr.splitlines()), f"status {done.returncode}")
        return f"the C++ compiler {compiler} does not work ({said}); {hint}"
    return ""


def cache_problem() -> str:
    """Write to the cache of generated code; what is wrong, or ""."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x" * 4096)
            file.flush()
    except OSError as error:
        return (
            f"the cache of generated code, {folder}, cannot be written ({error.strerror}); set "
            "TORCHINDUCTOR_CACHE_DIR to a folder that can"
        )
    return ""


def compile_problem(error: BaseException) -> str:
    """Why code could not be generated, and what to do; "" if the error is about something else."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or not _from_compiler(error):
        return ""
    inner: BaseException = getattr(error, "inner_exception", error)
    found = compiler_problem() or cache_problem()
    if not found and isinstance(inner, (*_DAMAGE, OSError)):
        found = f"the cache of generated code, {cache_folder()}, is damaged; delete it"
    return found or f"the compiler failed ({first_line(inner)})"


def _from_compiler(error: BaseException) -> bool:
    """Whether an error arose while code was generated or loaded, not while it ran."""
    if isinstance(error, torch._dynamo.exc.TorchDynamoException):
        return True
    frames = [Path(each.filename) for each in traceback.extract_tb(error.__traceback__)]
    inductor = [path.name for path in frames if "_inductor" in path.parts]
    return bool(inductor) and inductor[-1] not in _NOT_COMPILING


def compiled_or_not(attempt: Callable[[bool], Made], say: Callable[[str], None]) -> Made:
    """Do something with generated code or, where that cannot be had, once more without it.

    Args:
        attempt: does it, given whether to compile.
        say: is told why that was not possible, in a sentence.
    """
    try:
        return attempt(True)
    except Exception as error:
        problem = compile_problem(error)
        if not problem:
            raise
    # Outside of the handler: the error holds what was made.
    torch.compiler.reset()
    release_memory()
    say(f"without generated code, which is slower: {problem}")
    return attempt(False)
