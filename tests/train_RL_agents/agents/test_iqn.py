"""IQN: the short ways to means and to one action's quantiles against the long one."""

from itertools import product

import pytest
import torch
from torch import nn

from tests.train_RL_agents.helpers import SPEC, explored, make_inputs, seeded
from train_RL_agents.agents.iqn import IQN, IQNConfig
from train_RL_agents.agents.quantile import QuantileNetwork

KINDS = list(product(("late", "published"), (True, False)))


@pytest.fixture(params=KINDS, ids=str)
def network(request):
    embedding, dueling = request.param
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield QuantileNetwork(IQNConfig(embedding=embedding), dueling, 25, SPEC)


def test_mean_is_that_of_the_quantiles(network):
    given, taus = make_inputs(6, generator=seeded(1)), torch.rand(8, generator=seeded(2))
    torch.testing.assert_close(network.mean(given, taus), network(given, taus).mean(-2))


def test_quantiles_of_one_action_are_those_among_all(network):
    given, taus = make_inputs(6, generator=seeded(1)), torch.rand(8, generator=seeded(2))
    action = torch.tensor([0, 24, 3, 3, 7, 12])
    wanted = network(given, taus)[torch.arange(6), :, action]
    torch.testing.assert_close(network.of_action(given, taus, action), wanted)


class Gamble(nn.Module):
    """A safe action, and one with a higher mean but a bad tail."""

    def forward(self, observation, taus):
        taus = taus.expand(len(observation["self_state"]), -1)
        return torch.stack((torch.ones_like(taus), torch.where(taus < 0.25, -4.0, 3.0)), -1)

    def mean(self, observation, taus):
        return self(observation, taus).mean(-2)


def gambler(**settings):
    agent = IQN(IQNConfig(critics=1, **settings), num_actions=2)
    agent.networks["critic_0"] = Gamble()
    return agent


def test_low_risk_levels_judge_by_the_worst_outcomes():
    agent, given = gambler(risk="neutral"), make_inputs(6, generator=seeded(0))
    assert agent.act(given).tolist() == [1] * 6
    assert agent.act(given, torch.ones(6)).tolist() == [1] * 6
    assert agent.outputs(given, torch.full((6,), 0.2))["quantiles"][0].mean(0).tolist() == [1, -4]
    assert agent.act(given, torch.full((6,), 0.2)).tolist() == [0] * 6
    assert explored(agent, given).tolist() == [1] * 6


def test_adaptive_risk_is_used_near_objects_only():
    agent, given = gambler(risk="adaptive"), make_inputs(3, generator=seeded(0))
    objects, mask = torch.zeros(3, 5, 5), torch.zeros(3, 5, dtype=torch.bool)
    objects[:, 0, 0], mask[1:, 0] = torch.tensor([2.0, 2.0, 50.0]), True
    near = {**given, "objects_state": objects, "objects_mask": mask}
    assert agent.act(near).tolist() == [1, 0, 1]
    # While training, and where another level is asked for, it is not.
    assert explored(agent, near).tolist() == [1] * 3
    assert agent.act(near, torch.ones(3)).tolist() == [1] * 3


def test_given_fractions_are_those_that_act_uses():
    agent, given = IQN(IQNConfig(critics=1)), make_inputs(6, generator=seeded(0))
    extra = agent.extra_inputs(given)
    outputs = agent.outputs(given, **extra)
    assert torch.equal(agent.select(outputs), agent.act(given))
    assert outputs["quantiles"].shape == (6, 32, 25)
