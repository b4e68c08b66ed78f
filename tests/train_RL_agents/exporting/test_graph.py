"""Policies as graphs in JSON; that they compute what agents do is tested with the demo page."""

import base64
import json
import math

import numpy as np
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
        ("DQN", {"act"}, ["action", "scores"]),
        ("PPO", {"act"}, ["action", "scores"]),
    ],
)
def test_graphs_and_their_outputs(agent_type, names, outputs):
    _, found = graphs_of(agent_type)
    assert set(found["graphs"]) == names
    assert sorted(found["graphs"]["act"]["outputs"]) == outputs
    inputs = dict(found["graphs"]["act"]["inputs"])
    assert inputs == {"self_state": [1, 7], "objects_state": [1, 5, 5], "objects_mask": [1, 5]}
    if "act_at_risk" in names:
        assert dict(found["graphs"]["act_at_risk"]["inputs"])["risk"] == [1]


def references(argument):
    if isinstance(argument, dict):
        return [argument["at"]] if "at" in argument else []
    return [at for each in argument for at in references(each)] if isinstance(argument, list) else []


def test_nodes_use_only_what_comes_before_them():
    _, found = graphs_of("IQN")
    for graph in found["graphs"].values():
        first = len(graph["inputs"]) + len(graph["weights"])
        for place, (_, arguments) in enumerate(graph["nodes"], first):
            assert all(at < place for at in references(arguments))
        used = {at for _, arguments in graph["nodes"] for at in references(arguments)}
        assert used >= set(range(first)) - {0, 1, 2}  # every weight


def test_weights_are_held_once_and_exactly():
    agent, found = graphs_of("DQN")
    data = np.frombuffer(base64.b64decode(found["weights"]["data"]), "<f4")
    own = dict(agent.networks.state_dict())
    total = 0
    for name, shape, offset in found["weights"]["entries"]:
        values = data[offset : offset + math.prod(shape)].reshape(shape)
        assert np.array_equal(values, own[name.removeprefix("agent.networks.")].numpy())
        total += values.size
    assert total == len(data)


def test_agent_is_left_alone_and_json_is_strict():
    agent, found = graphs_of("AC-IQN")
    assert next(agent.parameters()).dtype == torch.float32
    assert agent.targets
    text = json.dumps(found, allow_nan=False)
    assert '{"number": "Infinity"}' in text  # the distance of an object that is not there
