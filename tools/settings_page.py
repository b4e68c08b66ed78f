"""The page of all settings in the documentation, which docs/conf.py fills in."""

from __future__ import annotations

from typing import Any

from train_RL_agents.agents.agent_configs import AGENT_TRAITS
from train_RL_agents.agents.trainer_configs import TRAINER_CONFIGS
from train_RL_agents.commands.settings_help import SettingsSection, settings_sections
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.utils.table import Column, Table


def settings_page() -> str:
    """Return all settings of all agents as Markdown, for the documentation."""
    parts = [part for part in settings_sections(TrainConfig()) if not part.title.startswith(("agent", "trainer"))]
    others: list[tuple[str, Any, str]] = [(name, kind(), "trainer.") for name, kind in TRAINER_CONFIGS.items()]
    others += [(f"`--agent {name}`", traits.config_type(), "agent.") for name, traits in AGENT_TRAITS.items()]
    for owner, config, prefix in others:
        parts += [
            part._replace(title=f"{part.title.rstrip('.')} ({owner})") for part in settings_sections(config, prefix)
        ]
    return "\n".join(map(_markdown, parts))


def _markdown(section: SettingsSection) -> str:
    """Return a section as a heading and a table."""
    rows = [
        {"setting": f"`{key}`", "default": f"`{value}`" if value else "", "meaning": meaning}
        for key, value, meaning in section.rows
    ]
    columns = [Column("setting"), Column("default"), Column("meaning")]
    return f"## {section.title.rstrip('.')}\n\n{Table(columns, rows).markdown()}"
