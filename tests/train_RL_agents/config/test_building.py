"""Agents built from a configuration."""

import pytest
import torch

from train_RL_agents.agents import AGENTS
from train_RL_agents.config.building import make_agent
from train_RL_agents.config.reading import from_dict


@pytest.mark.parametrize("name", list(AGENTS))
def test_the_agent_has_the_settings_and_entries_of_the_configuration(name):
    config = from_dict({"agent_type": name, "world.sensor.scan_beams": 8})
    agent = make_agent(config, 25, torch.device("meta"))
    assert type(agent) is AGENTS[name]
    assert agent.config is config.agent
    assert agent.num_actions == 25
    assert "scan" in agent.spec.entries
    assert {each.device.type for each in agent.parameters()} == {"meta"}
