"""The list of settings as text; torch is not imported, so that help comes at once."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

DEFAULTS = Path(__file__).with_name("defaults.json")
"""The settings of the default agent, written by train_RL_agents.config.help."""
_COLUMN = 36
"""Where meanings begin; a longer key has its meaning on the next line."""


class Section(NamedTuple):
    """Settings that belong together."""

    title: str
    """What they are of."""
    rows: list[list[str]]
    """Key, default and meaning of each."""


def default_settings() -> tuple[str, list[str], list[Section]]:
    """The default agent, all agents, and the settings of the default one."""
    content = json.loads(DEFAULTS.read_text(encoding="utf-8"))
    return content["agent"], content["agents"], [Section(*each) for each in content["sections"]]


def settings_text(sections: Sequence[Section], width: int) -> str:
    """Every key with default and meaning, by section.

    Args:
        sections: see Section.
        width: of the text, in characters.
    """
    return "\n\n".join(
        "\n".join([title, *(line for row in rows for line in _entry(row, width))])
        for title, rows in sections
    )


def _entry(row: Sequence[str], width: int) -> list[str]:
    """Key and default on the left, the meaning on the right, or below when there is no room."""
    key, value, meaning = row
    head, room = f"  {key}={value}", max(width - _COLUMN, 20)
    lines = textwrap.wrap(meaning, room, break_on_hyphens=False) or [""]
    first = [f"{head:<{_COLUMN - 2}}  {lines.pop(0)}"] if len(head) <= _COLUMN - 2 else [head]
    return [*first, *(" " * _COLUMN + line for line in lines)]
