"""Fallback from compiled code to eager mode."""

import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

from train_RL_agents.utils.device import release_memory
from train_RL_agents.utils.errors import first_line
from train_RL_agents.utils.toolchain import cache_folder, cache_problem, compiler_problem

Result = TypeVar("Result")

_COMPILER_PACKAGES = ("torch._dynamo", "torch._inductor")
_RUNTIME_FILES = ("output_code.py", "utils.py")
"""Files of Inductor that call generated code; errors raised by that code are not errors of compilation."""
_DAMAGED_CODE_ERRORS = (ImportError, SyntaxError, NameError, AttributeError, EOFError)
_MAX_LINE_LENGTH = 200
"""Largest number of characters shown of a line of compiler output, from its end; the start only names files."""


def silence_compiler_logs() -> None:
    """Hide notices of the compiler that no user can act on, such as the one on CUDA_HOME."""
    for name in ("torch.utils.cpp_extension", "torch._inductor.codecache"):
        logging.getLogger(name).setLevel(logging.ERROR)


def compile_problem(error: BaseException) -> str:
    """Return why code could not be compiled, and what to do; "" if the error did not arise from compilation."""
    if isinstance(error, CompilationStoppedError):
        return "it was stopped"
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or not _is_compile_error(error):
        return ""
    inner: BaseException = getattr(error, "inner_exception", error)
    found = compiler_problem() or cache_problem()
    # PyTorch raises this message for generated code that is not valid Python.
    unreadable = str(inner).startswith("Failed to import")
    if not found and (unreadable or isinstance(inner, (*_DAMAGED_CODE_ERRORS, OSError))):
        found = f"the cache of generated code, {cache_folder()}, is damaged; delete it"
    return found or _compiler_error_text(inner)


def _compiler_error_text(error: BaseException) -> str:
    """Describe the error of a compiler that ran, with the first error line of its output, for a message."""
    output = str(getattr(error, "output", "")).splitlines()
    said = next((f": {line[-_MAX_LINE_LENGTH:].strip()}" for line in output if "error:" in line), "")
    return f"the compiler failed ({first_line(error)}{said})"


class CompilationStoppedError(KeyboardInterrupt):
    """Interrupt that is raised when a stop of the run is requested while code is compiled."""


def _is_compile_error(error: BaseException) -> bool:
    """Return whether an error arose while code was generated or loaded, not while it ran."""
    if any(kind.__module__.startswith(_COMPILER_PACKAGES) for kind in type(error).__mro__):
        return True
    frames = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    inductor = [path.name for path in frames if "_inductor" in path.parts]
    return bool(inductor) and inductor[-1] not in _RUNTIME_FILES


def not_compiled_message(problem: str) -> str:
    """Return the message that the program runs without compiled code because of a problem, described as text."""
    return f"without generated code, which is slower: {problem}"


def call_with_compile_fallback(attempt: Callable[[bool], Result], log: Callable[[str], None]) -> Result:
    """Return the result of a function with compilation or, if code cannot be compiled, of a second call without it."""
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
