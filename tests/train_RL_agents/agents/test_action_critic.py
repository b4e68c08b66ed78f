"""Critics of given actions, and what agents with several of them share."""

import pytest
import torch

from marinenav_env import ConfigError
from tests.train_RL_agents.agents.test_ac_iqn import linear
from tests.train_RL_agents.agents.test_ddpg import Formula, agent_with, always
from tests.train_RL_agents.helpers import SPEC, make_inputs, seeded
from train_RL_agents.agents.action_critic import ActionCritic, ActionCriticConfig

ACTIONS = 2.0 * torch.rand(4, 2, generator=seeded(1)) - 1.0


@pytest.mark.parametrize("critic", ["scalar", "quantile"])
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("action_input", ["early", "published"])
def test_critic_by_hand(critic, layer_norm, action_input):
    config = ActionCriticConfig(critic=critic, quantiles=5, layer_norm=layer_norm,
                                action_input=action_input, hidden_sizes=(12, 9))  # fmt: skip
    net, given = ActionCritic(config, SPEC), make_inputs(4, generator=seeded())
    features = net.encode(given)
    if action_input == "early":
        features = linear(net.hidden_layer, torch.cat((features, ACTIONS), 1))
    else:
        encoder = net.action_encoder[0]
        factor = (ACTIONS @ encoder.weight.T + encoder.bias).clamp_min(0.0)
        features = linear(net.hidden_layer, features) * factor
    features = linear(net.hidden_layer_2, features)
    expected = features @ net.output_layer.weight.T + net.output_layer.bias
    assert expected.shape == (4, 5 if critic == "quantile" else 1)
    torch.testing.assert_close(net(given, ACTIONS), expected)


def test_quantiles_of_the_return_are_the_critics_mean_in_order():
    critics = [always(3.0, 1.0), Formula(lambda left, right: left, lambda left, right: right)]
    agent = agent_with((0.0, 0.0), critics, quantiles=2, dropped=0)
    found = agent.return_quantiles(make_inputs(2, generator=seeded()), torch.tensor([[0.5, 0.7],
                                                                      [0.0, 4.0]]))  # fmt: skip
    assert found.flatten().tolist() == pytest.approx([0.85, 1.75, 1.5, 2.5])
    scalar = agent_with((0.0, 0.0), critics, critic="scalar")
    assert scalar.return_quantiles(make_inputs(2, generator=seeded()), ACTIONS[:2]) is None


def test_targets_leave_out_the_highest_quantiles():
    agent = agent_with((0.0, 0.0), [always(0.0, 0.0, 0.0)] * 2,
                       [always(9.0, 1.0, 5.0), always(2.0, 8.0, 7.0)],
                       quantiles=3, dropped=1)  # fmt: skip
    found = agent.target_values(make_inputs(1, generator=seeded()), torch.zeros(1, 2))
    assert found.tolist() == [[1.0, 2.0, 5.0, 7.0]]


@pytest.mark.parametrize("dropped", [-1, 25])
def test_some_quantiles_have_to_be_kept(dropped):
    with pytest.raises(ConfigError, match="must be from 0 to 24"):
        ActionCriticConfig(dropped=dropped)
