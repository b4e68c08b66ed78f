"""The page of all settings."""

from tools.settings_page import settings_page
from train_RL_agents.agents import AGENTS
from train_RL_agents.config.reading import iterate_settings
from train_RL_agents.config.schema import TrainConfig


def test_the_page_has_every_setting_of_every_agent():
    page = settings_page()
    for agent_type in AGENTS:
        for setting in iterate_settings(TrainConfig(agent_type=agent_type)):
            assert f"| `{setting.key}` |" in page
