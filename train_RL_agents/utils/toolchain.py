"""Requirements of torch.compile: a C++ compiler and a cache of generated code; torch is not imported."""

from __future__ import annotations

import atexit
import contextlib
import getpass
import hashlib
import os
import re
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

_CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
"""Environment variable with the folder in which torch caches generated code."""
_CHECKSUM_SUFFIX = ".marinenav-sha256"
"""Suffix that the name of a library's checksum file adds to that of the library."""
_SHA256_PATTERN = re.compile("[0-9a-f]{64}")
"""Pattern of the content of a checksum file."""


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


def move_to_cache(output: Path, library: Path) -> None:
    """Move the output file of a compiler to its path in the cache; a shared library gets a file with its checksum.

    Args:
        output: path of the output.
        library: path in the cache.
    """
    if library.suffix != ".so":
        output.replace(library)
        return
    digest, checksum = _sha256(output), library.with_name(library.name + _CHECKSUM_SUFFIX)
    checksum.unlink(missing_ok=True)
    output.replace(library)
    with contextlib.suppress(OSError):  # the library can be used without its checksum
        temporary = checksum.with_name(f".{checksum.name}.{secrets.token_hex(4)}.tmp")
        temporary.write_text(digest)
        temporary.replace(checksum)


def delete_damaged_libraries() -> None:
    """Delete libraries in the cache that differ from their checksums, because they would crash the process.

    Deleted libraries are compiled again when needed. Libraries without a checksum are kept.
    """
    for folder, _, names in os.walk(cache_folder()):  # skips folders that vanish in the meantime
        for name in names:
            if name.endswith(f".so{_CHECKSUM_SUFFIX}"):
                with contextlib.suppress(OSError, UnicodeDecodeError):
                    _delete_if_damaged(Path(folder, name))


def _delete_if_damaged(checksum: Path) -> None:
    """Delete the library that a checksum file belongs to, if the two differ."""
    library, digest = (
        checksum.with_name(checksum.name.removesuffix(_CHECKSUM_SUFFIX)),
        checksum.read_text(),
    )
    damaged = _SHA256_PATTERN.fullmatch(digest) and _sha256(library) != digest
    # Another process may have replaced the library, with another checksum.
    if damaged and checksum.read_text() == digest:
        library.unlink()


def _sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def ensure_cache() -> str:
    """Use a temporary cache if the configured one cannot be written; otherwise delete its damaged libraries.

    torch needs a cache that can be written to be imported.

    Returns:
        Why the configured cache cannot be written; "" if it can.
    """
    problem = cache_problem()
    if problem:
        os.environ[_CACHE_VARIABLE] = folder = tempfile.mkdtemp(prefix="marinenav_code_")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    else:
        delete_damaged_libraries()
    return problem
