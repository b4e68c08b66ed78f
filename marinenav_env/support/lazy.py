"""Names of a package that are imported on first use, because importing torch takes seconds and help needs none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar

Value = TypeVar("Value")


def lazy_exports(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that exports names of its modules, given as the module of each name.

    The function raises AttributeError for a name that is not exported.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return get


class LazyRegistry(Mapping[str, Value]):
    """Values of a package's modules by name, in order; a module is imported when its value is first used.

    Args:
        package: name of the package.
        references: module in the package and name of the value, as ``module:Name``, by name in the registry.
    """

    def __init__(self, package: str, references: Mapping[str, str]) -> None:
        self._package, self._references = package, dict(references)

    def __getitem__(self, name: str) -> Value:
        module, _, value = self._references[name].partition(":")
        found: Value = getattr(import_module(f"{self._package}.{module}"), value)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._references

    def __iter__(self) -> Iterator[str]:
        return iter(self._references)

    def __len__(self) -> int:
        return len(self._references)
