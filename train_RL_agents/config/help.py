"""All settings with their meanings: for `marinenav train --help`, and for the documentation."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_origin, get_type_hints

from marinenav_env import Level
from marinenav_env.support.validation import describe, words_of
from train_RL_agents.agents import AGENTS
from train_RL_agents.config.levels import short_dict
from train_RL_agents.config.schema import TRAINER_CONFIGS, TrainConfig
from train_RL_agents.results.table import Column, Table

_COLUMN = 36
"""Where meanings begin; a longer key has its meaning on the next line."""


class Section(NamedTuple):
    """Settings that belong together."""

    title: str
    """What they are of."""
    rows: list[list[str]]
    """Key, default and meaning of each."""


def meanings(config_type: type[Any]) -> dict[str, str]:
    """Docstrings of the fields of a configuration, by name; inherited fields included."""
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


def sections(config: Any, prefix: str = "") -> list[Section]:
    """The keys of a section, then its subsections.

    Args:
        config: its values are taken as the defaults.
        prefix: before all keys, with its dot.
    """
    kind = type(config)
    title = (inspect.getdoc(kind) or "").partition("\n")[0]
    rows, inner = [], []
    hints, meant = get_type_hints(kind, include_extras=True), meanings(kind)
    for item in fields(config):
        key, value = prefix + item.name, getattr(config, item.name)
        if is_dataclass(value):
            inner += sections(value, f"{key}.")
            continue
        default = shown(value)
        if isinstance(value, tuple) and value and is_dataclass(value[0]):
            default = f"[{shown(value[0])},...]"
            kind_of_one: Any = type(value[0])
            (of_one,) = sections(kind_of_one())
            inner.append(of_one._replace(title=f"Fields of each of {key}: {of_one.title}"))
        literal = get_origin(hints[item.name]) is Literal
        words = describe(hints[item.name]) if literal else words_of(hints[item.name])
        meaning = meant.get(item.name, "") + (f" ({words})" if words else "")
        rows.append([key, default, meaning])
    return [Section(f"{prefix[:-1]}: {title}" if prefix else title, rows), *inner]


def settings_page() -> str:
    """All settings of all agents as Markdown, for the documentation."""
    parts = [part for part in sections(TrainConfig()) if not part.title.startswith(("agent", "trainer"))]
    parts += [_of(part, name) for name, kind in TRAINER_CONFIGS.items() for part in sections(kind(), "trainer.")]
    parts += [
        _of(part, f"`--agent {name}`")
        for name, kind in AGENTS.items()
        for part in sections(kind.config_type(), "agent.")
    ]
    return "\n".join(map(_markdown, parts))


def _of(section: Section, whose: str) -> Section:
    """A section that says what has these settings."""
    return section._replace(title=f"{section.title.rstrip('.')} ({whose})")


def _markdown(section: Section) -> str:
    """Return a section as a heading and a table."""
    rows = [
        {"setting": f"`{key}`", "default": f"`{value}`" if value else "", "meaning": meaning}
        for key, value, meaning in section.rows
    ]
    columns = [Column("setting"), Column("default"), Column("meaning")]
    return f"## {section.title.rstrip('.')}\n\n{Table(columns, rows).markdown()}"


def shown(value: Any) -> str:
    """A default as it could be given on the command line."""
    if isinstance(value, tuple):
        return f"[{','.join(shown(item) for item in value)}]"
    if isinstance(value, Level):
        return json.dumps(short_dict(value))
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)


def settings_text(sections: Sequence[Section], width: int) -> str:
    """Every key with default and meaning, by section.

    Args:
        sections: see Section.
        width: of the text, in characters.
    """
    return "\n\n".join(
        "\n".join([title, *(line for row in rows for line in _entry(row, width))]) for title, rows in sections
    )


def _entry(row: Sequence[str], width: int) -> list[str]:
    """Key and default on the left, the meaning on the right, or below when there is no room."""
    key, value, meaning = row
    head, room = f"  {key}={value}", max(width - _COLUMN, 20)
    lines = textwrap.wrap(meaning, room, break_on_hyphens=False) or [""]
    first = [f"{head:<{_COLUMN - 2}}  {lines.pop(0)}"] if len(head) <= _COLUMN - 2 else [head]
    return [*first, *(" " * _COLUMN + line for line in lines)]
