"""AC-IQN: its layers, its fractions, targets, risk and actor."""

import math

import pytest
import torch
from torch import nn

from tests.train_RL_agents.agents.helpers import Constant, scalar_quantile_huber
from tests.train_RL_agents.helpers import make_inputs, make_transitions, seeded
from train_RL_agents.agents.ac_iqn import ACIQN, ACIQNConfig

pytestmark = pytest.mark.usefixtures("seeded_weights")

close = pytest.approx


class Formula(nn.Module):
    """Quantiles by a formula of the action and the fractions."""

    def __init__(self, formula):
        super().__init__()
        self.formula = formula
        self.factor = nn.Parameter(torch.ones(()))

    def forward(self, observation, action=None, taus=None):
        if action is None:
            return observation["self_state"]
        return self.factor * self.formula(action[..., 0, None], action[..., 1, None], taus)

    def mean(self, observation, actions, taus):
        return self(observation, actions, taus[..., None, :]).mean(-1)


def agent_with(actor, *formulas, target=None, **settings):
    """An AC-IQN whose critics are formulas; ``target`` are those of its targets."""
    agent = ACIQN(ACIQNConfig(critics=len(formulas), actor_share=1.0, **settings))
    agent.networks["actor"] = agent.targets["actor"] = Constant(*actor)
    for index, formula in enumerate(formulas):
        agent.networks[f"critic_{index}"] = Formula(formula)
        agent.targets[f"critic_{index}"] = Formula(target[index] if target else formula)
    return agent


# Random numbers, targets, losses -----------------------------------------------------------------


def test_one_fraction_from_each_stratum():
    agent = ACIQN(ACIQNConfig(quantiles=8, actor_share=0.5))
    drawn = [agent.loss_noise(5, seeded(seed)) for seed in range(200)]
    taus = torch.stack([fractions for fractions, *_ in drawn])
    assert taus.shape == (200, 2, 8)
    assert torch.equal((taus * 8).floor(), torch.arange(8.0).expand(200, 2, 8))
    # Uniform within the stratum, and independent for predictions and targets.
    inside = (taus * 8) % 1.0
    assert inside.mean().item() == close(0.5, abs=0.02)
    assert inside.std().item() == close(12**-0.5, abs=0.02)
    correlation = torch.corrcoef(torch.stack((inside[:, 0].flatten(), inside[:, 1].flatten())))
    assert abs(correlation[0, 1].item()) < 0.1
    assert [noise.shape for noise in drawn[0][1:]] == [(5, 2), (3, 2)]
    noise = torch.cat([torch.cat(both) for _, *both in drawn])
    assert noise.std().item() == close(1.0, abs=0.08)


def batch_of(reward, discount, action=(0.0, 0.0)):
    batch = make_transitions(ACIQN(ACIQNConfig()), 1, seeded())
    return batch._replace(
        reward=torch.tensor([reward]), discount=torch.tensor([discount]), action=torch.tensor([action])
    )


NO_NOISE = torch.zeros(1, 2), torch.zeros(1, 2)


@pytest.mark.parametrize("dropped", [0, 1])
def test_targets_pool_the_quantiles_but_the_highest(dropped):
    targets = [
        lambda left, right, taus: 10.0 * taus + 0.0 * left,
        lambda left, right, taus: 5.0 + 0.0 * taus + 0.0 * left,
    ]
    agent = agent_with((0.0, 0.0), *targets, quantiles=2, dropped=dropped, kappa=1.0)
    taus = torch.tensor([[0.1, 0.6], [0.2, 0.9]])
    losses = agent.loss(batch_of(1.0, 0.5), (taus, *NO_NOISE))
    # At 0.2 and 0.9 the critics say 2, 9 and 5, 5; one a critic is left out.
    remaining = (2.0, 5.0, 5.0, 9.0)[: 4 - 2 * dropped]
    targets = [1.0 + 0.5 * value for value in remaining]
    assert losses["target"].item() == close(sum(targets) / len(targets))
    # Both critics are fitted to these at 0.1 and 0.6: predictions 1, 6 and 5, 5.
    critics = [1.0, 6.0], [5.0, 5.0]
    error = sum(scalar_quantile_huber([predicted], [targets], [0.1, 0.6], 1.0) for predicted in critics)
    assert losses["loss_critic"].item() == close(error)
    assert losses["value"].item() == close(3.5)


def test_actor_climbs_the_critic_that_says_less():
    peak = [
        lambda left, right, taus: 2.0 * taus - (left - 0.5) ** 2 - (right + 0.25) ** 2,
        lambda left, right, taus: 100.0 + left + 0.0 * taus,
    ]
    agent = agent_with((0.0, 0.0), *peak, quantiles=4)
    taus = torch.tensor([[0.0, 0.2, 0.4, 0.6]] * 2)
    losses = agent.loss(batch_of(0.0, 0.0), (taus, *NO_NOISE))
    # The mean over the tau_midpoints of the strata, whatever fractions are drawn.
    assert losses["loss_actor"].item() == close(-(2.0 * 0.5 - 0.25 - 0.0625))
    losses["loss_actor"].backward()
    slope = 2.0 / math.pi  # of squashing, at 0
    gradient = agent.networks["actor"].before.grad.tolist()
    assert gradient == close([-1.0 * slope, 0.5 * slope])  # the loss falls towards (0.5, -0.25)
    assert all(agent.networks[name].factor.grad is None for name in agent.critics)


def test_actor_climbs_for_its_share_of_the_rows():
    """As if there were no other rows; the critics learn from all of them."""
    whole = ACIQN(ACIQNConfig(quantiles=4, actor_share=1.0))
    half = ACIQN(ACIQNConfig(quantiles=4, actor_share=0.5))
    half.load_state_dict(whole.state_dict())
    batch = make_transitions(whole, 6, seeded())
    taus, smoothing, noise = whole.loss_noise(6, seeded(1))
    first = whole.part_of_noise((taus, smoothing, noise), slice(0, 3))
    alone = whole.loss(batch.part(slice(0, 3)), first)
    together = whole.loss(batch, (taus, smoothing, noise))
    found = half.loss(batch, (taus, smoothing, noise[:3]))
    torch.testing.assert_close(found["loss_actor"], alone["loss_actor"])
    torch.testing.assert_close(found["loss_critic"], together["loss_critic"])
    assert found["loss_actor"] != together["loss_actor"]
    # A part without any of these rows.
    last = half.part_of_noise((taus, smoothing, noise[:3]), slice(3, 6))
    assert half.loss(batch.part(slice(3, 6)), last)["loss_actor"] == 0.0


def test_actor_climbs_under_noise_and_pays_for_saturation():
    agent = agent_with((0.5, 0.0), lambda left, right, taus: left + 0.0 * taus, actor_noise=0.3, saturation_penalty=0.1)
    noise = torch.zeros(1, 2), torch.tensor([[2.0, 0.0]])
    losses = agent.loss(batch_of(0.0, 0.0), (torch.full((2, 16), 0.5), *noise))
    # tan(pi / 4) = 1 becomes action 0.5.
    value = 2.0 / math.pi * math.atan(1.0 + 0.3 * 2.0)
    assert losses["loss_actor"].item() == close(0.1 * 0.5 - value)


# Risk --------------------------------------------------------------------------------------------


def gamble(left, right, taus):
    """Steering left of -0.25 bets: 2 but for the worst tenth, which is -10. Else 0 for sure."""
    return torch.where(left < -0.25, torch.where(taus < 0.1, -10.0, 2.0), 0.0 * taus)


def test_risk_chooses_among_neighbours_by_the_worst_outcomes():
    agent = agent_with((-0.5, 0.0), gamble, quantiles=100)
    given = make_inputs(3, 2, generator=seeded())
    levels = torch.tensor([[1.0, 0.9], [0.5, 0.3], [0.1, 0.01]])
    action = agent.act(given, levels)
    assert torch.equal(action[0, 0], torch.tensor([-0.5, 0.0]))
    bets = action[..., 0] < -0.25
    # Mean of the worst share: 0.8, (-1 + 1.6) / 0.9 > 0, (-1 + 0.8) / 0.5 < 0, ...
    assert bets.tolist() == [[True, True], [False, False], [False, False]]


def test_risk_stays_near_the_actor_and_in_bounds():
    agent = agent_with((0.8, -0.8), lambda left, right, taus: left - right + 0.0 * taus)
    given = make_inputs(1, generator=seeded())
    assert agent.act(given, torch.tensor([0.5])).tolist() == [[1.0, -1.0]]
    away = agent_with((0.8, -0.8), lambda left, right, taus: right - left + 0.0 * taus)
    assert away.act(given, torch.tensor([0.5]))[0].tolist() == close([0.3, -0.3])


def test_the_less_hopeful_critic_chooses():
    """One critic wants to go left, the other fears it."""
    keen, afraid = (lambda left, right, taus: -left + 0.0 * taus, lambda left, right, taus: left + 0.0 * taus)
    given = make_inputs(4, generator=seeded())
    alone = agent_with((0.2, 0.0), keen).act(given)
    torch.testing.assert_close(alone[:, 0], torch.full((4,), -0.3))
    # min(-left, left) is highest nearest to 0.
    both = agent_with((0.2, 0.0), keen, afraid).act(given)
    torch.testing.assert_close(both[:, 0], torch.full((4,), 0.2))


def test_refinement_can_be_left_out():
    agent = agent_with((0.2, 0.0), lambda left, right, taus: left + 0.0 * taus, refine=False)
    given = make_inputs(4, generator=seeded())
    own = torch.tensor([0.2, 0.0]).expand(4, 2)
    torch.testing.assert_close(agent.act(given), own)
    torch.testing.assert_close(agent.act(given, torch.ones(4)), own)
    assert (agent.act(given, torch.full((4,), 0.5))[:, 0] > 0.6).all()
    assert agent.output_networks() == ["actor"]


def test_quantiles_of_the_return_are_the_critics_mean_in_order():
    agent = agent_with(
        (0.0, 0.0),
        lambda left, right, taus: left - 4.0 * taus,
        lambda left, right, taus: right + 0.0 * taus,
        quantiles=2,
    )
    action = torch.tensor([[[1.0, 3.0], [0.0, 0.5]], [[-1.0, 0.0], [0.5, 0.5]]])
    found = agent.return_quantiles(make_inputs(2, 2, generator=seeded()), action)
    # At 1/4 and 3/4 the first says left - 1 and left - 3.
    expected = torch.tensor([[[0.5, 1.5], [-1.25, -0.25]], [[-2.0, -1.0], [-1.0, 0.0]]])
    torch.testing.assert_close(found, expected)
