"""Import of optional dependencies, which extras of the package install."""

from importlib import import_module
from typing import Any

from marinenav_env.support.validation import ConfigError


def import_optional(name: str, extra: str) -> Any:
    """Import and return a module, such as ``matplotlib.figure``, that ``pip install marinenav[extra]`` installs."""
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ConfigError(f"{package} is not installed, and this needs it: pip install 'marinenav[{extra}]'") from error
