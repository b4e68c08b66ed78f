"""All settings with their meanings, for `marinenav train --help`."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Sequence
from dataclasses import is_dataclass
from itertools import groupby, pairwise
from typing import Any, Literal, NamedTuple, get_origin

from marinenav_env.levels import Level
from marinenav_env.support.validation import describe_rules, describe_type
from train_RL_agents.config.reading import iterate_settings, setting_text

_MEANING_COLUMN = 36
"""Column of the text at which meanings start; the meaning of a longer key starts on the next line."""


class SettingsSection(NamedTuple):
    """Section of the help: the settings that one dataclass declares."""

    title: str
    rows: list[list[str]]
    """[key, default, meaning] of each setting."""


def field_docstrings(config_type: type[Any]) -> dict[str, str]:
    """Return the docstrings of a configuration's fields by name, including inherited fields."""
    texts: dict[str, str] = {}
    for base in reversed(getattr(config_type, "described_by", config_type).__mro__):
        if not is_dataclass(base):
            continue
        definition = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        for pair in pairwise(getattr(definition, "body", [])):
            match pair:
                case (ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(text)))):
                    texts[name] = " ".join(text.split())
    return texts


def settings_sections(config: Any, prefix: str = "") -> list[SettingsSection]:
    """Return the settings of a configuration by section; fields of levels follow the section of their schedule."""
    parts = []
    for kind, settings in groupby(iterate_settings(config, prefix), lambda setting: setting.section):
        title, texts = (inspect.getdoc(kind) or "").partition("\n")[0], field_docstrings(kind)
        rows, levels = [], []
        for setting in settings:
            section, _, name = setting.key.rpartition(".")
            is_choice = get_origin(setting.annotation) is Literal
            rules = describe_type(setting.annotation) if is_choice else describe_rules(setting.annotation)
            default = setting_text(setting.value)
            if isinstance(setting.value, tuple) and setting.value and isinstance(setting.value[0], Level):
                default = "[...]"
                (level,) = settings_sections(type(setting.value[0])())
                levels.append(level._replace(title=f"Fields of each of {setting.key}: {level.title}"))
            rows.append([setting.key, default, texts.get(name, "") + (f" ({rules})" if rules else "")])
        parts += [SettingsSection(f"{section}: {title}" if section else title, rows), *levels]
    return parts


def settings_text(sections: Sequence[SettingsSection], width: int) -> str:
    """Return the help of settings: every key with its default and meaning, by section."""
    return "\n\n".join(
        "\n".join([title, *(line for row in rows for line in _setting_lines(row, width))]) for title, rows in sections
    )


def _setting_lines(row: Sequence[str], width: int) -> list[str]:
    """Return the lines of a setting [key, default, meaning]: the meaning is at the right, or below a long key."""
    key, value, meaning = row
    head, room = f"  {key}={value}", max(width - _MEANING_COLUMN, 20)
    lines = textwrap.wrap(meaning, room, break_on_hyphens=False) or [""]
    first = [f"{head:<{_MEANING_COLUMN - 2}}  {lines.pop(0)}"] if len(head) <= _MEANING_COLUMN - 2 else [head]
    return [*first, *(" " * _MEANING_COLUMN + line for line in lines)]
