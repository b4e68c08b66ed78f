"""Plugins: components that users add without changing this program, such as rewards and agents.

A component is named ``package.module:Name``, or by the name of an entry point that an installed package
registers in the group of the component. Importing a module runs its code, and configuration files and
checkpoints name components. A name from a file is therefore imported only if an installed entry point
registers it, or if the user gave it as a command-line argument (or called ``allow``).
"""

import os
import re
import sys
import traceback
from collections.abc import Collection
from functools import cache
from importlib import import_module, metadata
from importlib.metadata import EntryPoint, EntryPoints
from operator import attrgetter
from pathlib import Path
from typing import Any

from marinenav_env.support.validation import ConfigError, brief

AGENTS = "marinenav.agents"
"""Entry-point group of learning agents; the groups of the other kinds of plugins follow."""
ENCODERS = "marinenav.encoders"
ENVIRONMENTS = "marinenav.environments"
LOGGERS = "marinenav.loggers"
OBSERVATIONS = "marinenav.observations"
REWARDS = "marinenav.rewards"
SCENARIOS = "marinenav.scenarios"

_REFERENCE_PATTERN = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_MAX_REFERENCE_LENGTH = 120
"""Largest number of characters of a reference, ``package.module:Name``, so that messages stay readable."""
_allowed_references: set[str] = set()


def allow(*references: str) -> None:
    """Allow ``resolve`` to import components that the user named, as ``package.module:Name``."""
    for reference in references:
        if not is_reference(reference):
            raise ConfigError(f"{brief(reference)}: must be package.module:Name")
        _allowed_references.add(reference)


def allowed_references() -> tuple[str, ...]:
    """Return the references passed to ``allow``, to pass them on to child processes."""
    return tuple(sorted(_allowed_references))


def option_words() -> list[str]:
    """Return the options ``--plugin=package.module:Name`` that allow a command to import what this process may."""
    return [f"--plugin={reference}" for reference in allowed_references()]


def _entry_points(group: str) -> EntryPoints:
    """Return the entry points that installed packages register in a group; cached until sys.path changes."""
    times = [os.stat(folder or ".").st_mtime_ns if Path(folder).exists() else 0 for folder in sys.path]  # noqa: PTH116
    return _read_entry_points(group, tuple(zip(sys.path, times, strict=True)))


@cache
def _read_entry_points(group: str, folders: tuple[tuple[str, int], ...]) -> EntryPoints:
    # Cached, since reading them opens a file of every installed package, and every configuration needs them.
    return metadata.entry_points(group=group)


def registered_names(group: str) -> tuple[str, ...]:
    """Return the sorted names of the entry points that installed packages register in a group, such as REWARDS."""
    return tuple(sorted(_entry_points(group).names))


def resolve_entry_point_name(group: str, name: str) -> str:
    """Return ``package.module:Name`` for the name of an entry point of a group; return any other text unchanged."""
    return next((_reference_of_entry_point(point) for point in _entry_points(group) if point.name == name), name)


def resolve(group: str, reference: str) -> Any:
    """Import and return the object that ``package.module:Name``, or the name of an entry point of a group, names.

    Raises:
        ConfigError: when nothing registers or allows the reference, or it cannot be imported.
    """
    entry_points = _entry_points(group)
    for point in entry_points:
        if reference in (point.name, _reference_of_entry_point(point)):
            return _import_object(_reference_of_entry_point(point))
    if reference in _allowed_references:
        return _import_object(reference)
    if not is_reference(reference):
        known = ", ".join(sorted(entry_points.names)[:8]) or "none"
        raise ConfigError(
            f"{brief(reference)} is not registered in {group} (registered: {known}): install "
            "the package that registers it, or give package.module:Name"
        )
    raise ConfigError(
        f"{reference} is a part that this program does not load from files: install the package "
        f"that registers it, or name it on the command line with --plugin {reference}"
    )


def summarize_error(error: BaseException) -> str:
    """Return the type of an exception and the first line of its message, such as ``KeyError: 'x'``."""
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0][:_MAX_REFERENCE_LENGTH]}" if text else type(error).__name__


def describe_error(error: BaseException, modules: Collection[str]) -> str:
    """Return one line on an error of user-defined code in one of ``modules``: type, message, file and line.

    After an AttributeError of a NamedTuple or dataclass, the fields that exist are added.
    """
    files = {getattr(sys.modules.get(name), "__file__", None) for name in modules}
    frames = traceback.extract_tb(error.__traceback__)
    place = next((frame for frame in reversed(frames) if frame.filename in files), None)
    where = f", {place.filename}, line {place.lineno}" if place else ""
    lacking = getattr(error, "obj", None) if isinstance(error, AttributeError) else None
    names = getattr(lacking, "_fields", None) or getattr(lacking, "__dataclass_fields__", ())
    existing = f"; {type(lacking).__name__} has {', '.join(names)}" if names else ""
    return f"{summarize_error(error)}{where}{existing}"


def _reference_of_entry_point(point: EntryPoint) -> str:
    return f"{point.module}:{point.attr}"


def is_reference(text: object) -> bool:
    """Return whether a text is of the form ``package.module:Name``."""
    is_short = isinstance(text, str) and len(text) <= _MAX_REFERENCE_LENGTH
    return is_short and _REFERENCE_PATTERN.fullmatch(str(text)) is not None


def _import_object(reference: str) -> Any:
    module_name, _, name = reference.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        missing = str(error.name)
        if module_name == missing or module_name.startswith(f"{missing}."):
            raise ConfigError(
                f"{reference}: there is no module {missing}; install its package, or put its folder on PYTHONPATH"
            ) from error
        raise ConfigError(f"{reference}: needs the module {missing}, which is missing") from error
    except Exception as error:  # whatever the module's own code raises
        raise ConfigError(f"{reference}: importing {module_name} failed ({summarize_error(error)})") from error
    try:
        return attrgetter(name)(module)
    except AttributeError as error:
        raise ConfigError(f"{reference}: the module {module_name} has no {name}") from error
