"""Fallback from compiled code to eager mode, and control of the C++ compilers."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import secrets
import shlex
import signal
import subprocess
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from tempfile import gettempdir
from typing import TypeVar

import torch

from train_RL_agents.utils.device import release_memory
from train_RL_agents.utils.errors import first_line
from train_RL_agents.utils.files import TEMPORARY
from train_RL_agents.utils.toolchain import (
    cache_folder,
    cache_problem,
    compiler_problem,
    put_in_cache,
)

Made = TypeVar("Made")

_COMPILER = ("torch._dynamo", "torch._inductor")
"""Packages of the compiler, in which the classes of its errors are defined."""
_NOT_COMPILING = ("output_code.py", "utils.py")
"""Files of the compiler that call generated code; errors below them are not errors of compilation."""
_TRITON = ("build", "compiler")
"""Modules of Triton that raise its errors of compilation."""
_DAMAGE = (ImportError, SyntaxError, NameError, AttributeError, EOFError)
"""Errors that are raised when damaged generated code is read."""
_FULL = os.strerror(errno.ENOSPC)
_LONGEST = 200
"""Number of characters at the end of a line of compiler output that are shown; the start only names files."""


def quiet_compiler() -> None:
    """Hide notices of the compiler that no user can act on, such as the one on CUDA_HOME."""
    for name in ("torch.utils.cpp_extension", "torch._inductor.codecache"):
        logging.getLogger(name).setLevel(logging.ERROR)


def compile_problem(error: BaseException) -> str:
    """Return why code could not be generated, and what to do; "" if the error has another cause."""
    if isinstance(error, StoppedCompilingError):
        return "it was stopped"
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or not _from_compiler(error):
        return ""
    inner: BaseException = getattr(error, "inner_exception", error)
    found = compiler_problem() or cache_problem()
    # PyTorch raises this message for generated code that is not valid Python.
    unreadable = str(inner).startswith("Failed to import")
    if not found and (unreadable or isinstance(inner, (*_DAMAGE, OSError))):
        found = f"the cache of generated code, {cache_folder()}, is damaged; delete it"
    return found or _compiler_failed(inner)


def _compiler_failed(error: BaseException) -> str:
    """Return the error of a compiler that ran, as a sentence."""
    output = str(getattr(error, "output", ""))
    if _FULL in output:
        return f"no space is left for generated code in {cache_folder()} or {gettempdir()}"
    said = next((f": {line[-_LONGEST:].strip()}" for line in output.splitlines() if "error:" in line), "")
    return f"the compiler failed ({first_line(error)}{said})"


# Compilers as processes --------------------------------------------------------------------------


class StoppedCompilingError(KeyboardInterrupt):
    """Raised when a stop is requested while code is compiled."""


_compilers: set[subprocess.Popen[bytes]] = set()
_ended = threading.Event()


def shield_compilers() -> None:
    """Shield C++ compilers from signals of the terminal, and the cache from incomplete libraries.

    Every compiler runs in a session of its own, and its output is moved into place when it is complete.
    """
    from torch._inductor import cpp_builder

    _ended.clear()
    if hasattr(cpp_builder, "_run_compile_cmd") and hasattr(os, "killpg"):  # not on Windows
        cpp_builder._run_compile_cmd = _run_compile_cmd


def end_compilers() -> None:
    """Kill all compilers of this process, and those that start later."""
    _ended.set()
    for process in list(_compilers):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _run_compile_cmd(cmd_line: str, cwd: str) -> None:
    """Run a C++ compiler; replaces the function of this name in torch._inductor.cpp_builder."""
    from torch._inductor.exc import CppCompileError

    command, target = shlex.split(cmd_line), None
    if "-o" in command[:-1]:
        at = command.index("-o") + 1
        target = Path(cwd, command[at])
        command[at] = str(target.with_name(f".{target.name}.{secrets.token_hex(4)}{TEMPORARY}"))
    try:
        with subprocess.Popen(
            command,
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            _compilers.add(process)
            if _ended.is_set():
                end_compilers()
            output = process.communicate()[0]
        _compilers.discard(process)
        if process.returncode:
            said = output.decode(errors="replace") or f"status {process.returncode}"
            raise CppCompileError(command, said)
        if target is not None:
            put_in_cache(Path(command[at]), target)
    finally:
        if target is not None:
            Path(command[at]).unlink(missing_ok=True)


def _from_compiler(error: BaseException) -> bool:
    """Return whether an error arose while code was generated or loaded, not while it ran."""
    if any(kind.__module__.startswith(_COMPILER) for kind in type(error).__mro__):
        return True
    frames = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    inductor = [path.name for path in frames if "_inductor" in path.parts]
    if inductor:
        return inductor[-1] not in _NOT_COMPILING
    # A kernel that is written in Triton is compiled when it is first called.
    return bool(frames) and "triton" in frames[-1].parts and frames[-1].stem in _TRITON


def not_compiled_message(problem: str) -> str:
    """Return a message that code is not compiled, and why."""
    return f"without generated code, which is slower: {problem}"


def compiled_or_not(attempt: Callable[[bool], Made], log: Callable[[str], None]) -> Made:
    """Call a function with compilation or, where code cannot be compiled, once more without it.

    Args:
        attempt: function to call; its argument says whether to compile.
        log: function that prints the reason, as a sentence, if code cannot be compiled.
    """
    try:
        return attempt(True)
    except Exception as error:
        problem = compile_problem(error)
        if not problem:
            raise
    # Outside the handler, because the exception keeps the objects of the failed attempt alive.
    torch.compiler.reset()
    release_memory()
    log(not_compiled_message(problem))
    return attempt(False)
