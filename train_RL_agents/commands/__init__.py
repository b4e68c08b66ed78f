"""Commands of ``marinenav`` by name. To add a command, add one module here and one name below.

The module of a command has a docstring whose first line is its help, ``add_arguments(parser)``, and ``run(arguments)``,
which returns the exit status. Modules that need torch are imported inside ``run``, so that help is printed quickly.
"""

from importlib import import_module

_MODULES = {"import": "import_weights"}
"""Names of the modules of commands whose names a module cannot have."""
_NAMES: tuple[str, ...] = ("train", "evaluate", "play", "demo", "chart", "export", "import", "info", "identify")
_NAMES += ("plot", "study", "falsify", "bench", "doctor")
COMMANDS = {name: import_module(f"{__name__}.{_MODULES.get(name, name)}") for name in _NAMES}
