"""IQN: the short ways to means and to one action's quantiles against the long one."""

from itertools import product

import pytest
import torch

from tests.train_RL_agents.helpers import make_inputs, seeded
from train_RL_agents.agents.iqn import IQN, IQNConfig
from train_RL_agents.agents.quantile import QuantileNetwork

KINDS = list(product(("late", "published"), (True, False)))


@pytest.fixture(params=KINDS, ids=str)
def network(request):
    embedding, dueling = request.param
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield QuantileNetwork(IQNConfig(embedding=embedding), dueling, 25)


def test_mean_is_that_of_the_quantiles(network):
    given, taus = make_inputs(6, generator=seeded(1)), torch.rand(8, generator=seeded(2))
    torch.testing.assert_close(network.mean(given, taus), network(given, taus).mean(-2))


def test_quantiles_of_one_action_are_those_among_all(network):
    given, taus = make_inputs(6, generator=seeded(1)), torch.rand(8, generator=seeded(2))
    action = torch.tensor([0, 24, 3, 3, 7, 12])
    wanted = network(given, taus)[torch.arange(6), :, action]
    torch.testing.assert_close(network.of_action(given, taus, action), wanted)


def test_low_risk_levels_judge_by_the_worst_outcomes():
    """Of a safe action and one with a higher mean but a bad tail, the risk level decides."""
    agent = IQN(IQNConfig(critics=1), num_actions=2)
    net = agent.networks["critic_0"]

    def quantiles(inputs, taus):
        risky = torch.where(taus < 0.25, -4.0, 3.0)
        return torch.stack((torch.ones_like(taus), risky), -1).mean(-2).expand(6, 2)

    net.mean = quantiles
    given = make_inputs(6, generator=seeded(0))
    assert agent.act(given).tolist() == [1] * 6
    taus = agent.acting_taus
    assert quantiles(given, 0.2 * taus)[0].tolist() == [1.0, -4.0]
    net.mean = lambda inputs, levels: quantiles(inputs, levels[0])
    assert agent.act(given, torch.full((6,), 0.2)).tolist() == [0] * 6
