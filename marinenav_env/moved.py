"""Documented import paths from before the package was divided into rooms.

``import marinenav_env.validation`` gives ``marinenav_env.support.validation``, the same module.
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
"""The room of each of those modules."""


class _Moved(MetaPathFinder, Loader):
    """Finds a module by its earlier path and loads it from its present one."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return a specification for an earlier path; None for every other name."""
        package, _, module = name.rpartition(".")
        known = package == __package__ and module in ROOMS
        return ModuleSpec(name, self) if known else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module by its present path and return it."""
        package, _, name = spec.name.rpartition(".")
        module = import_module(f"{package}.{ROOMS[name]}.{name}")
        spec.loader_state = module.__spec__  # the import system replaces it
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the specification of the module, which has been executed."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def install() -> None:
    """Let the import system know; first, as an editable install of another checkout finds more."""
    sys.meta_path.insert(0, _Moved())
