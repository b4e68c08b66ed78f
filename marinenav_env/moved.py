"""Import paths of earlier versions, in which these modules were not in subpackages.

``import marinenav_env.validation`` imports ``marinenav_env.support.validation``, the same module.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

ROOMS = {
    "benchmarl_task": "interfaces",
    "colregs": "rules",
    "contact": "physics",
    "current": "physics",
    "dynamics": "physics",
    "endings": "rules",
    "entries": "sensing",
    "gymnasium_env": "interfaces",
    "observation": "sensing",
    "perception": "sensing",
    "pettingzoo_env": "interfaces",
    "philox": "runtime",
    "plugins": "support",
    "range_scan": "sensing",
    "reset_pool": "stepping",
    "reward": "rules",
    "sb3_vec_env": "interfaces",
    "scenario": "scenarios",
    "scenario_file": "scenarios",
    "validation": "support",
    "world": "stepping",
}
"""Subpackages of these modules by name."""


class _Moved(MetaPathFinder, Loader):
    """Finder that loads a module from its new path when it is imported by an earlier one."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return a specification for an earlier path; None for every other name."""
        package, _, module = name.rpartition(".")
        is_moved = package == __package__ and module in ROOMS
        return ModuleSpec(name, self) if is_moved else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module by its new path and return it."""
        package, _, name = spec.name.rpartition(".")
        module = import_module(f"{package}.{ROOMS[name]}.{name}")
        spec.loader_state = module.__spec__  # the import system replaces it
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the specification of the module, which has been executed already."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def install() -> None:
    """Register the finder, before the finder of an editable install of another checkout."""
    sys.meta_path.insert(0, _Moved())
