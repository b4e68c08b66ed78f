"""Import of optional packages."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from marinenav_env.support.validation import ConfigError


def need(name: str, extra: str) -> Any:
    """Import and return an optional package or module, which an extra installs.

    Args:
        name: name of the package, or of a module in it.
        extra: name of the extra in setup.cfg.

    Raises:
        ConfigError: when it is not installed; the message says how to install it.
    """
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ConfigError(f"{package} is not installed, and this needs it: pip install 'marinenav[{extra}]'") from error
