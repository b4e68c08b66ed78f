"""DQN against numbers worked out by hand."""

import pytest
import torch
from torch import nn

from tests.train_RL_agents.agents.helpers import states, transition
from tests.train_RL_agents.helpers import SPEC, make_inputs, seeded
from train_RL_agents.agents.dqn import DQN, DQNConfig, ValueNetwork

close = pytest.approx


class Table(nn.Module):
    """Values looked up by the first number of the observation."""

    def __init__(self, rows):
        super().__init__()
        self.rows = nn.Parameter(torch.tensor(rows))

    def forward(self, observation):
        return self.rows[observation["self_state"][..., 0].long()]


def tabular(learned, target, **settings):
    """A DQN whose networks are tables of values, [state][action] each."""
    agent = DQN(DQNConfig(critics=len(learned), **settings), len(learned[0][0]))
    for index, (actual, expected) in enumerate(zip(learned, target, strict=True)):
        agent.networks[f"critic_{index}"] = Table(actual)
        agent.targets[f"critic_{index}"] = Table(expected).requires_grad_(False)
    return agent


LEARNED = [[0.0, 2.0], [5.0, 4.0]]  # chooses action 0 in state 1
TARGET = [[0.0, 0.0], [10.0, 20.0]]  # values action 1 higher there


@pytest.mark.parametrize(("double", "target"), [(True, 1.0 + 0.5 * 10.0), (False, 1.0 + 0.5 * 20.0)])
def test_targets_of_one_network(double, target):
    losses = tabular([LEARNED], [TARGET], double=double).loss(transition(), None)
    assert losses["target"].item() == close(target)
    assert losses["value"].item() == close(2.0)
    assert losses["loss"].item() == close(0.5 * (2.0 - target) ** 2)


def test_twins_agree_on_the_action_and_take_the_smaller_value():
    other = [[0.0, 4.0], [0.0, 2.0]]  # with it, action 1 is better on average in state 1
    second = [[0.0, 0.0], [100.0, 30.0]]
    agent = tabular([LEARNED, other], [TARGET, second])
    losses = agent.loss(transition(), None)
    target = 1.0 + 0.5 * min(20.0, 30.0)
    assert losses["target"].item() == close(target)
    assert losses["loss"].item() == close(0.5 * (2.0 - target) ** 2 + 0.5 * (4.0 - target) ** 2)
    assert agent.act(states(0.0, 1.0)).tolist() == [1, 1]
    # Not double: the target twins choose, by their average of 55 and 25.
    single = tabular([LEARNED, other], [TARGET, second], double=False)
    assert single.loss(transition(), None)["target"].item() == close(1.0 + 0.5 * 10.0)


def test_dueling_heads_by_hand():
    net, given = ValueNetwork(DQNConfig(), 7, SPEC), make_inputs(9, generator=seeded())
    features = net.encode(given)
    for layer in (net.hidden_layer, net.hidden_layer_2):
        features = layer(features).relu()
    value = features @ net.value_layer.weight.T + net.value_layer.bias
    torch.testing.assert_close(net(given).mean(-1, keepdim=True), value)
    advantage = features @ net.output_layer.weight.T + net.output_layer.bias
    expected = advantage[:, 0] - advantage[:, 3]
    torch.testing.assert_close(net(given)[:, 0] - net(given)[:, 3], expected)
    plain = ValueNetwork(DQNConfig(dueling=False), 7, SPEC)
    assert plain.value_layer is None
    assert "value_layer.weight" not in plain.state_dict()
