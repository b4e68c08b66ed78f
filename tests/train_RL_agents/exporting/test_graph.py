"""Policies as graphs in JSON; that they compute what agents do is tested with the demo page."""

import json

import pytest
import torch

from train_RL_agents.config.building import make_agent
from train_RL_agents.config.reading import from_dict
from train_RL_agents.exporting.graph import policy_graphs


def graphs_of(agent_type, **settings):
    torch.manual_seed(0)
    agent = make_agent(from_dict({"agent_type": agent_type, "agent": settings}), 25, torch.device("cpu"))
    return agent, policy_graphs(agent)


@pytest.mark.parametrize(
    ("agent_type", "names", "outputs"),
    [
        ("AC-IQN", {"act", "act_at_risk", "returns"}, ["action"]),
        ("IQN", {"act", "act_at_risk", "returns"}, ["action", "scores"]),
        ("DDPG", {"act", "returns"}, ["action"]),
        ("PPO", {"act"}, ["action", "scores"]),
    ],
)
def test_graphs_and_their_outputs(agent_type, names, outputs):
    agent, found = graphs_of(agent_type)
    assert next(agent.parameters()).dtype == torch.float32
    text = json.dumps(found, allow_nan=False)
    assert set(found["graphs"]) == names
    assert sorted(found["graphs"]["act"]["outputs"]) == outputs
    inputs = dict(found["graphs"]["act"]["inputs"])
    assert inputs == {"self_state": [1, 7], "objects_state": [1, 5, 5], "objects_mask": [1, 5]}
    if "act_at_risk" in names:
        assert '{"number": "Infinity"}' in text  # the distance of an object that is not there
        assert dict(found["graphs"]["act_at_risk"]["inputs"])["risk"] == [1]
