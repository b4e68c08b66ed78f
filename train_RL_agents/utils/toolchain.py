"""Requirements of torch.compile: a C++ compiler and a cache of generated code; torch is not imported."""

import atexit
import getpass
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
"""Environment variable with the folder in which torch caches generated code."""


def cache_folder() -> Path:
    """Return the folder in which torch caches generated code, TORCHINDUCTOR_CACHE_DIR or torch's default."""
    named = os.environ.get(_CACHE_VARIABLE)
    return Path(named or Path(tempfile.gettempdir()) / f"torchinductor_{_user_name()}")


def _user_name() -> str:
    """Return the user name that torch's default cache folder contains; containers may have no account."""
    try:
        return getpass.getuser()
    except (KeyError, ImportError, OSError):
        return f"uid_{os.getuid()}" if hasattr(os, "getuid") else "unknown_user"


def compiler_problem() -> str:
    """Return why C++ with OpenMP, as in generated code for the CPU, cannot be compiled here; empty if it can."""
    compiler = os.environ.get("CXX", "g++")
    hint = "install one (Debian, Ubuntu: apt install g++; conda: conda install cxx-compiler)"
    with tempfile.TemporaryDirectory() as folder:
        command = [compiler, "-x", "c++", "-", "-shared", "-fPIC", "-fopenmp", "-o", f"{folder}/a"]
        try:
            result = subprocess.run(
                command,
                input="#include <omp.h>\n#include <cmath>\nint f() { return 1; }\n",
                capture_output=True,
                text=True,
                timeout=60,
            )
        except (OSError, subprocess.SubprocessError):
            return f"there is no C++ compiler ({compiler}); {hint}"
    if result.returncode:
        message = next(iter(result.stderr.splitlines()), f"status {result.returncode}")
        return f"the C++ compiler {compiler} does not work ({message}); {hint}"
    return ""


def cache_problem() -> str:
    """Return why the cache of generated code cannot be written; empty if it can."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x" * 4096)
            file.flush()
    except OSError as error:
        return (
            f"the cache of generated code, {folder}, cannot be written ({error.strerror}); set "
            f"{_CACHE_VARIABLE} to a folder that can"
        )
    return ""


def ensure_cache() -> str:
    """Use a temporary cache, which importing torch needs, if the configured one cannot be written; return why."""
    problem = cache_problem()
    if problem:
        os.environ[_CACHE_VARIABLE] = folder = tempfile.mkdtemp(prefix="marinenav_code_")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return problem
