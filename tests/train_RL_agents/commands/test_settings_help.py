"""The list of settings in the help of train."""

from dataclasses import fields

import pytest

from marinenav_env.levels import LEVELS, NAMED_LEVELS, Level
from train_RL_agents.agents import AGENTS
from train_RL_agents.commands.settings_help import field_docstrings, settings_sections, settings_text
from train_RL_agents.config.levels import EvalLevel, TrainingLevel, convert_levels, shortest_level_dict
from train_RL_agents.config.reading import from_dict, iterate_settings
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


@pytest.mark.parametrize("kind", [TrainingLevel, EvalLevel])
def test_the_shortest_form_of_a_level_makes_it(kind):
    section = "eval_schedule" if kind is EvalLevel else "training_schedule"
    for level in convert_levels(kind, [*LEVELS, Level(7, 1, 1, 5.0)]):
        assert getattr(from_dict({section: {"levels": [shortest_level_dict(level)]}}), section).levels == (level,)
    assert shortest_level_dict(TrainingLevel(**vars(NAMED_LEVELS["traffic"]))) == {"like": "traffic"}
