"""Settings and traits of agents, without their classes."""

import pytest

from train_RL_agents.agents import AGENTS
from train_RL_agents.agents.agent_configs import AGENT_TRAITS


def test_every_built_in_agent_has_traits():
    assert list(AGENT_TRAITS) == list(AGENTS)


@pytest.mark.parametrize("name", AGENTS)
def test_traits_are_those_of_the_class(name):
    kind = AGENTS[name]
    assert AGENT_TRAITS[name] == (kind.config_type, kind.algorithm, kind.trainer_defaults, kind.uses_priorities)
