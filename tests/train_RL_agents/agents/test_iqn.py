"""IQN: risk, fractions, targets and losses against numbers worked out by hand."""

import pytest
import torch
from torch import nn

from tests.train_RL_agents.agents.helpers import scalar_quantile_huber, states, transition
from tests.train_RL_agents.helpers import explored, make_inputs, seeded
from train_RL_agents.agents.iqn import IQN, IQNConfig


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


class Lines(nn.Module):
    """Quantiles a + b tau, for [state][action] (a, b)."""

    def __init__(self, *table):
        super().__init__()
        self.table = nn.Parameter(torch.tensor(table))

    def forward(self, observation, taus):
        low, slope = self.table[observation["self_state"][..., 0].long()][:, None].unbind(-1)
        return low + slope * taus.expand(len(low), -1)[..., None]

    def mean(self, observation, taus):
        return self(observation, taus).mean(-2)

    def action_quantiles(self, observation, taus, action):
        return self(observation, taus)[torch.arange(len(action)), :, action]


TAUS, TARGET_TAUS = [0.1, 0.4, 0.9], [0.2, 0.6, 0.7]
LEARNED = [[(0.0, 2.0), (1.0, -1.0)], [(0.0, 3.0), (1.0, 0.0)]]
SECOND = [[(0.5, 2.0), (3.0, 0.5)], [(1.0, 1.0), (0.0, 0.5)]]  # both choose action 0 in state 1
TARGETS = ([[(9.0, 9.0)] * 2, [(1.0, 4.0), (8.0, 1.0)]],
           [[(9.0, 9.0)] * 2, [(3.0, 0.0), (8.0, 2.0)]])  # fmt: skip
"""They would choose action 1 there; of action 0 either is lower at some fraction."""


@pytest.mark.parametrize("double", [True, False])
def test_loss_by_hand(double):
    agent = IQN(IQNConfig(critics=2, double=double, kappa=0.7), num_actions=2)
    for index, (learned, target) in enumerate(zip((LEARNED, SECOND), TARGETS, strict=True)):
        agent.networks[f"critic_{index}"] = Lines(*learned)
        agent.targets[f"critic_{index}"] = Lines(*target)
    losses = agent.loss(transition(0.5, 0.5), torch.tensor([TAUS, TARGET_TAUS]))
    choice = 0 if double else 1
    ahead = [[low + slope * tau for tau in TARGET_TAUS] for low, slope in (each[1][choice] for each in TARGETS)]
    targets = [0.5 + 0.5 * min(pair) for pair in zip(*ahead, strict=True)]
    assert losses["target"].item() == pytest.approx(sum(targets) / 3)
    error = 0.0
    for learned in (LEARNED, SECOND):
        low, slope = learned[0][1]
        values = [low + slope * tau for tau in TAUS]
        error += scalar_quantile_huber([values], [targets], TAUS, 0.7)
    assert losses["loss"].item() == pytest.approx(error)
    assert losses["value"].item() == pytest.approx(1.0 - sum(TAUS) / 3)


def test_networks_are_averaged():
    agent = IQN(IQNConfig(critics=2, quantiles=4, acting_quantiles=2, risk="neutral"), 2)
    for index, learned in enumerate((LEARNED, SECOND)):
        agent.networks[f"critic_{index}"] = Lines(*learned)
    given = states(0.0, 1.0)
    # At 1/4 and 3/4, by state, fraction and action.
    expected = [[[0.75, 1.9375], [1.75, 1.8125]], [[1.0, 0.5625], [2.0, 0.6875]]]
    torch.testing.assert_close(agent.outputs(given)["quantiles"], torch.tensor(expected))
    assert agent.act(given).tolist() == explored(agent, given).tolist() == [1, 0]
    found = agent.return_quantiles(given, torch.tensor([1, 0]))
    torch.testing.assert_close(found, torch.tensor([[1.8125, 1.9375], [1.0, 2.0]]))
