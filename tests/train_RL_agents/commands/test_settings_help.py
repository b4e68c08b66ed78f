"""The list of settings in the help of train."""

from dataclasses import fields

import pytest

from train_RL_agents.agents import AGENTS
from train_RL_agents.commands.settings_help import field_docstrings, settings_sections, settings_text
from train_RL_agents.config.reading import iterate_settings
from train_RL_agents.config.schema import TrainConfig


@pytest.mark.parametrize("agent_type", list(AGENTS))
def test_help_has_every_setting_with_its_meaning(agent_type):
    config = TrainConfig(agent_type=agent_type)
    text = settings_text(settings_sections(config), 100)
    assert max(map(len, text.splitlines())) <= 100
    for setting in iterate_settings(config):
        assert f"  {setting.key}=" in text
    for section in (config, config.agent, config.trainer, config.world.vessel):
        assert field_docstrings(type(section)).keys() >= {item.name for item in fields(section)}
    assert "Detection range, to the hull of the object (m). (above 0)" in text
