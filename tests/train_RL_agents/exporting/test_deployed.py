"""Agents as modules for export."""

import pytest
import torch

from tests.train_RL_agents.exporting.policies import make_policy
from train_RL_agents.agents import AGENTS
from train_RL_agents.exporting.deployed import DeployedAgent

PLANNERS = {
    "AC-IQN": [(1, 2)], "IQN": [(1, 32, 25)], "DDPG": [(1, 2)], "DQN": [(1, 25)],
    "SAC": [(1, 2), (1, 2)], "Rainbow": [(1, 25, 51)], "PPO": [(1, 25)], "A2C": [(1, 25)],
}  # fmt: skip
"""Shapes of what the field's planners are given."""


@pytest.mark.parametrize("name", AGENTS)
def test_outputs_lead_to_the_agents_own_actions(name):
    agent = make_policy(name).agent
    before = {key: value.clone() for key, value in agent.state_dict().items()}
    deployed = DeployedAgent(agent)
    *outputs, action = deployed.outputs_and_action(*deployed.inputs(200))
    assert [(1, *output.shape[1:]) for output in outputs] == PLANNERS[name]
    assert deployed.output_names == [*agent.output_meanings, "selected_action"]
    # It holds only what computes outputs, in float64, and leaves the agent alone.
    assert set(deployed.agent.networks) == set(agent.output_networks()) and not list(deployed.agent.targets)
    assert {parameter.dtype for parameter in deployed.parameters()} == {torch.float64}
    torch.testing.assert_close(agent.state_dict(), before, rtol=0.0, atol=0.0)
    expected = agent.double().act(deployed.observations(200))
    torch.testing.assert_close(action, expected, rtol=0.0, atol=1e-12)
