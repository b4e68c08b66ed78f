"""The list of all settings that `marinenav train --help` prints."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import Any, Literal, get_origin, get_type_hints

from marinenav_env.validation import describe, words_of

_COLUMN = 36
"""Where meanings begin; a longer key has its meaning on the next line."""


def meanings(config_type: type[Any]) -> dict[str, str]:
    """What the docstring below each field says, by field; inherited fields included."""
    found: dict[str, str] = {}
    for base in reversed(config_type.__mro__):
        if not is_dataclass(base):
            continue
        definition = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        for pair in pairwise(getattr(definition, "body", [])):
            match pair:
                case (ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(text)))):
                    found[name] = " ".join(text.split())
    return found


def settings_help(config: Any, width: int = 80) -> str:
    """Every key with default, unit and meaning, by section.

    Args:
        config: its values are shown as the defaults.
        width: of the text, in characters.
    """
    return "\n\n".join(_sections(config, "", width))


def _sections(config: Any, prefix: str, width: int) -> list[str]:
    """The keys of a section, then its subsections."""
    kind = type(config)
    title = (inspect.getdoc(kind) or "").partition("\n")[0]
    lines, inner = [f"{prefix[:-1]}: {title}" if prefix else title], []
    hints, meant = get_type_hints(kind, include_extras=True), meanings(kind)
    for item in fields(config):
        key, value = prefix + item.name, getattr(config, item.name)
        if is_dataclass(value):
            inner += _sections(value, f"{key}.", width)
            continue
        meaning = meant.get(item.name, "")
        literal = get_origin(hints[item.name]) is Literal
        words = describe(hints[item.name]) if literal else words_of(hints[item.name])
        meaning += f" ({words})" if words else ""
        lines += _entry(f"  {key}={shown(value)}", meaning, width)
    return ["\n".join(lines), *inner]


def _entry(head: str, meaning: str, width: int) -> list[str]:
    """Key and default on the left, the meaning on the right, or below when there is no room."""
    room = max(width - _COLUMN, 20)
    lines = textwrap.wrap(meaning, room, break_on_hyphens=False) or [""]
    first = [f"{head:<{_COLUMN - 2}}  {lines.pop(0)}"] if len(head) <= _COLUMN - 2 else [head]
    return [*first, *(" " * _COLUMN + line for line in lines)]


def shown(value: Any) -> str:
    """A default as it could be given on the command line."""
    if isinstance(value, tuple):
        return f"[{','.join(shown(item) for item in value)}]"
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)
