"""Compiled code of whole functions, kept in files, so that the next process neither traces nor lowers them again.

torch caches what its backend generates, but traces a function again in each process to find it, which takes most of the
start of a warm run. Here the result is kept whole, with the guards that say which arguments it is for; they are checked
in each call, as those of ``torch.compile`` are. They do not tell functions and classes apart. A file therefore
belongs to the sources of its package and those below, the versions of the libraries and the settings that its caller
names, and code with parts from elsewhere, such as a user's reward or a class derived from one of ours, is not kept.
"""

import hashlib
import inspect
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from types import MethodType
from typing import Any
from unittest.mock import patch

import torch
from tensordict import is_tensor_collection
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves

_LIBRARIES = ("torch", "torchrl", "tensordict", "numpy")
_folder: Path | None = None
_packages: tuple[str, ...] = ()
_make: Callable[["KeptFunction", Sequence[Any]], Any] | None = None


@contextmanager
def keep_code_in(
    folder: Path, *packages: str, make: Callable[["KeptFunction", Sequence[Any]], Any] | None = None
) -> Iterator[None]:
    """Keep compiled functions of packages in files in a folder in this context; each may call those named before it.

    ``make`` makes the code for arguments that no file has; it is ``KeptFunction.make`` by default.
    """
    global _folder, _packages, _make
    before = _folder, _packages, _make
    _folder, _packages, _make = folder if torch.__version__ >= "2.15" else None, packages, make
    try:
        yield
    finally:
        _folder, _packages, _make = before


@cache
def environment(packages: tuple[str, ...]) -> str:
    """Return what all code depends on: sources, versions, processor."""
    sources = hashlib.sha256()
    for root in (Path(str(import_module(package).__file__)).parent for package in packages):
        for path in sorted(root.rglob("*.py")):
            sources.update(f"{path.relative_to(root.parent)}\n".encode() + path.read_bytes())
    versions = [metadata.version(name) for name in _LIBRARIES]
    return repr((sources.hexdigest(), versions, platform.python_version(), torch.cpu.get_capabilities()))


def _describe(value: Any) -> Any:
    """Return what compiled code expects of an argument: layouts of tensors, and other values themselves."""
    if isinstance(value, Tensor):
        return tuple(value.shape), value.stride(), str(value.dtype), str(value.device), value.requires_grad
    if is_tensor_collection(value):
        names = sorted(value.keys(True, True), key=str)
        return type(value).__name__, [(name, _describe(value.get(name))) for name in names]
    return repr(value) if isinstance(value, bool | int | float | str | nn.Module | None) else type(value).__name__


def _packages_of(values: Any) -> set[str]:
    """Return the packages of the classes of objects, their fields and submodules, and of all that these derive from."""
    fields = [field for value in tree_leaves(values) for field in (value, *tree_leaves(getattr(value, "__dict__", {})))]
    parts = [part for field in fields for part in (field.modules() if isinstance(field, nn.Module) else [field])]
    return {kind.__module__.partition(".")[0] for part in parts for kind in type(part).__mro__}


class KeptFunction:
    """Compiled function whose first code comes from a file, or goes into one; further variants are compiled as usual.

    The closure of the function refers to the same objects in each process; ``settings`` say what decides which
    functions and classes it calls. The options are those of Inductor, and ``compiled`` compiles it as usual.
    """

    def __init__(
        self, function: Callable[..., Any], options: dict[str, Any], settings: str, compiled: Callable[..., Any]
    ) -> None:
        self._function, self._options, self._settings, self._compiled = function, options, settings, compiled
        self._receiver = (function.__self__,) if isinstance(function, MethodType) else ()
        self._plain: Any = function.__func__ if isinstance(function, MethodType) else function
        self._threads: int = options.get("cpp.threads", 0)
        """Number of threads that guards require of code for any number; 0 for code for the present number."""
        self._code: Any = None
        """Code from a file or for one; None before the first call, False if there is none."""

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        if _folder is None or self._code is False or not self._callable_packages() or torch.compiler.is_compiling():
            return self._compiled(*arguments)
        everything = *self._receiver, *arguments
        if self._code is None:
            # A class from elsewhere may override tomorrow what it inherits today.
            keeps = self._are_known(_packages_of((everything, self._closure())))
            with self._guarded_threads():
                self._code = keeps and (self.read(everything) or (_make or KeptFunction.make)(self, everything))
            return self(*arguments)
        with self._guarded_threads():
            fits = self._code.guard_check(*everything)
        return self._code.fn(*everything) if fits else self._compiled(*arguments)

    @contextmanager
    def _guarded_threads(self) -> Iterator[None]:
        """Have the number of threads in this context that guards require."""
        threads = torch.get_num_threads()
        torch.set_num_threads(self._threads or threads)
        try:
            yield
        finally:
            torch.set_num_threads(threads)

    def _path(self, arguments: Sequence[Any]) -> Path:
        leaves, tree = tree_flatten(arguments, is_leaf=is_tensor_collection)
        layout = [_describe(leaf) for leaf in leaves], str(tree), torch.get_num_threads(), torch.is_grad_enabled()
        name = f"{self._plain.__module__}.{self._plain.__qualname__}"
        options = {option: _describe(value) for option, value in self._options.items()}
        key = repr((environment(self._callable_packages()), name, options, self._settings, layout))
        assert _folder is not None
        return _folder / hashlib.sha256(key.encode()).hexdigest()

    def _callable_packages(self) -> tuple[str, ...]:
        """Packages that the function may call; none if it is from elsewhere."""
        package = self._plain.__module__.partition(".")[0]
        return _packages[: _packages.index(package) + 1] if package in _packages else ()

    def _are_known(self, packages: set[str]) -> bool:
        """Return whether the files of code depend on these packages."""
        return packages <= {*self._callable_packages(), *_LIBRARIES, *sys.stdlib_module_names}

    def _closure(self) -> dict[str, Any]:
        cells = self._plain.__closure__ or ()
        return dict(zip(self._plain.__code__.co_freevars, (cell.cell_contents for cell in cells), strict=True))

    def read(self, arguments: Sequence[Any]) -> Any:
        """Return the code for arguments from its file; None if there is none that can be used."""
        try:
            with self._path(arguments).open("rb") as file, torch._inductor.config.patch(self._options):
                code: Any = torch.compiler.load_compiled_function(
                    file, f_globals=self._plain.__globals__, external_data=self._closure()
                )
            return code if code.guard_check(*arguments) else None
        except Exception:  # a file of any content; the function is compiled instead
            return None

    def make(self, arguments: Sequence[Any]) -> Any:
        """Compile the function for arguments and write the code to its file; False if it is to be compiled as usual.

        A mark is left for code that cannot be kept, so that no further run tries.
        """
        path = self._path(arguments)
        mark = path.with_suffix(".mark")
        if mark.exists():
            return False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # torch reads the lines of a function for each of its calls, which takes a tenth of a compilation.
            lines = patch.object(inspect, "getsourcelines", cache(inspect.getsourcelines))
            with torch._dynamo.config.patch(enable_aot_compile=True), lines:
                options = self._options or None
                wrapper: Any = torch.compile(self._function, fullgraph=True, dynamic=False, options=options)
                code = wrapper.aot_compile((tuple(arguments[len(self._receiver) :]), {}))
            if self._are_known({source.module.partition(".")[0] for source in code.source_info().inlined_sources}):
                code.save_compiled_function(str(path), self._closure())
            else:
                mark.touch()
            return code
        except Exception:  # errors of the function itself are raised when it is compiled as usual
            with suppress(OSError):
                mark.touch()
            return False
