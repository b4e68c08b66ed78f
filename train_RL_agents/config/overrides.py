"""Overrides of settings by name, from Python or as ``key=value`` on the command line."""

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from marinenav_env.support.validation import ConfigError, brief, require, strip_annotated
from train_RL_agents.utils.closest import closest_names

Overrides = Mapping[str, Any] | Sequence[str]
"""Settings by name (dotted or nested), or ``key=value`` command-line arguments."""
_MAX_DEPTH = 20
_PYTHON_BOOLEANS = {"True": True, "False": False}
"""Booleans by their names in Python, which are accepted in addition to those of JSON."""


class CommandLineValue(str):
    """Text of a value from the command line; the type of its setting decides how it is parsed."""

    def parse(self, annotation: Any) -> Any:
        """Return the text parsed as a value for a setting.

        A setting of type str takes a quoted text or null as JSON, and other text as it is. For others, the text is
        JSON, a JSON list without its brackets, or a number or boolean in Python's notation; a setting of type
        tuple[str, ...] takes other text as a list with commas. Text that cannot be parsed is returned as it is.
        """
        text, kind = str(self), strip_annotated(annotation)
        readers: list[Callable[[str], Any]] = [json.loads, lambda text: json.loads(f"[{text}]")]
        readers += [_parse_texts] if kind == tuple[str, ...] else [_PYTHON_BOOLEANS.__getitem__, int, float]
        if kind is str:
            readers = [json.loads] if text == "null" or text.startswith('"') else []
        for read in readers:
            with contextlib.suppress(ValueError, KeyError, RecursionError):
                return read(text)
        return text


def _parse_texts(text: str) -> list[str]:
    """Return the parts of a text that are separated by commas, with or without brackets around them."""
    return [part.strip() for part in text.removeprefix("[").removesuffix("]").split(",")]


def flatten_overrides(overrides: Overrides) -> dict[str, Any]:
    """Return overrides as one dict of values by dotted key; of arguments with the same key, the last one counts."""
    if isinstance(overrides, Mapping):
        return {key: _to_plain(value) for key, value in flatten(overrides).items()}
    settings = {}
    for argument in overrides:
        key, equals, value = argument.partition("=")
        if not equals or not key:
            raise ConfigError(f"{brief(argument)}: must be key=value, as in trainer.batch_size=512")
        settings[key.strip()] = CommandLineValue(value.strip())
    return settings


def _to_plain(value: Any) -> Any:
    """Convert a path to text, and NumPy numbers and arrays to Python numbers and lists; leave other values as is."""
    if isinstance(value, Path):
        return str(value)
    return value.tolist() if hasattr(value, "tolist") else value


def flatten(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested dicts to one dict with dotted keys, which begin with ``prefix``."""
    require(prefix.count(".") < _MAX_DEPTH, prefix[:-1], "{...}", "nested less deeply")
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        key = prefix + name
        # An empty object is kept, because it may be given in place of a value.
        inner = flatten(value, f"{key}.") if isinstance(value, dict) and value else {key: value}
        for twice in inner.keys() & flat.keys():
            require(False, twice, inner[twice], "given once, nested or dotted")
        flat |= inner
    return flat


def unknown_setting_message(key: str, value: Any, keys: list[str]) -> str:
    """Return the error message for a key that is not a setting, with a hint."""
    inside = [name for name in keys if name.startswith(f"{key}.")]
    if inside:
        other = f"; or is it {key}_type={value}?" if f"{key}_type" in keys else ""
        return f"{key}={brief(value)}: must be an object with settings such as {inside[0]}{other}"
    close = closest_names(key, keys)
    hint = f"the closest: {', '.join(close)}" if close else "see marinenav train --help"
    return f"{key}={brief(value)}: there is no such setting; {hint}"
