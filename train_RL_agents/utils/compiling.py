"""Going on without generated code."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

from train_RL_agents.utils.device import release_memory
from train_RL_agents.utils.errors import first_line
from train_RL_agents.utils.toolchain import cache_folder, cache_problem, compiler_problem

Made = TypeVar("Made")

_NOT_COMPILING = ("output_code.py", "utils.py")
"""Files of the compiler that generated code is called from."""
_DAMAGE = (ImportError, SyntaxError, NameError, AttributeError, EOFError)
"""What reading damaged code leads to."""


def quiet_compiler() -> None:
    """Leave out notices of the compiler that no user can act on, such as the one on CUDA_HOME."""
    for name in ("torch.utils.cpp_extension", "torch._inductor.codecache"):
        logging.getLogger(name).setLevel(logging.ERROR)


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
