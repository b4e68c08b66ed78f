"""Settings and traits of agents, without their classes."""

from train_RL_agents.agents import AGENTS
from train_RL_agents.agents.agent_configs import AGENT_TRAITS


def test_traits_are_those_of_the_classes():
    for (name, traits), (agent, kind) in zip(AGENT_TRAITS.items(), AGENTS.items(), strict=True):
        assert name == agent
        assert traits == (kind.config_type, kind.algorithm, kind.trainer_defaults, kind.uses_priorities)
