"""Agents learn what is known by hand: a bandit, a chain of two states, an endless reward."""

import math

import pytest
import torch

from tests.train_RL_agents.helpers import KNOWN, SPEC, learner_of, seeded
from train_RL_agents.agents import AGENTS, Batch
from train_RL_agents.agents.batches import RolloutBatch

close = pytest.approx


def where(position):
    """An observation that tells only a position [B, 2] within (-1, 1)."""
    entries = {
        name: torch.zeros(len(position), *entry.shape, dtype=entry.dtype(torch.float32))
        for name, entry in SPEC.entries.items()
    }
    entries["self_state"][:, :2] = 20.0 * position
    return entries


def uniform(*shape, generator):
    return 2.0 * torch.rand(*shape, generator=generator) - 1.0


def of_kind(algorithm, continuous=None):
    """Names of the agents that learn from transitions or from rollouts."""
    return [
        name
        for name, kind in KNOWN.items()
        if kind.algorithm == algorithm and continuous in (None, getattr(kind, "continuous", None))
    ]


CONTINUOUS, DISCRETE = (of_kind("off-policy", flag) for flag in (True, False))
ON_POLICY = of_kind("on-policy")
ROUNDED = {*CONTINUOUS[:1], *of_kind("off-policy", False)[1:2], *ON_POLICY[:1]}
"""One agent of each kind: their tests run in bfloat16, too."""


FULL = [(name, "fp32") for name in ON_POLICY]


@pytest.mark.parametrize(
    ("name", "precision"),
    [(name, "fp32") for name in CONTINUOUS]
    + [pytest.param(name, "bf16", marks=pytest.mark.slow) for name in CONTINUOUS if name in ROUNDED],
)
def test_learns_a_contextual_bandit(name, precision):
    """One step: the closer to 0.6 times the position, the better; always acting alike leaves an error of 0.12."""
    settings = {"learning_rate": 1e-3, "learning_rate_final": 1e-3}
    acting = {"precision": precision}
    learner = learner_of(name, ema_decay=0.9, tau=0.05, acting=acting, **settings)
    generator, agent = seeded(1), learner.agent

    bound, updates = -0.02, 0
    assert bandit_score(learner.ema) < bound
    while updates < 500 and (updates % 25 or bandit_score(learner.ema) < bound):
        updates += 1
        position = uniform(64, 2, generator=generator)
        action = uniform(64, 2, generator=generator)
        reward = -(action - best(agent, position)).square().sum(-1)
        observation = where(position)
        learner.update(Batch(observation, action, reward, torch.zeros(64), observation))
    assert bandit_score(learner.ema) >= bound


@pytest.mark.parametrize(
    ("name", "precision", "actions"),
    [
        pytest.param(name, precision, actions, marks=[pytest.mark.slow] * ((name, precision) not in quick))
        for actions, quick in (("categorical", FULL), ("gaussian", FULL[:1]), ("clipped_gaussian", FULL[:1]))
        for name, precision in [*FULL, *((name, "bf16") for name in ON_POLICY if name in ROUNDED)]
    ],
)
def test_learns_a_contextual_bandit_from_its_own_actions(name, precision, actions):
    """The same bandit, but each update is given what the present policy did.

    One of 5 discrete actions out of 25 is right, by the position. One robot in four is not active; its reward would
    lead astray. The value must come to the mean reward.
    """
    settings = {"learning_rate": 3e-3, "learning_rate_final": 3e-3, "max_grad_norm": 10.0}
    learner = learner_of(name, ema_decay=0.8, acting={"precision": precision}, agent={"actions": actions}, **settings)
    generator, agent = seeded(1), learner.agent
    bound, updates = -0.02 if agent.continuous else 0.6, 0
    assert bandit_score(learner.ema) < bound
    while updates < 600 and (updates % 25 or bandit_score(learner.ema) < bound):
        updates += 1
        position = uniform(256, 2, generator=generator)
        observation, target = where(position), best(agent, position)
        with torch.no_grad():
            noise = agent.exploration_noise(torch.Size((256,)), generator)
            action, extras = agent.explore(observation, noise)
        reward = -(action - target).square().sum(-1) if agent.continuous else (action == target).float()
        active = torch.arange(256) % 4 > 0
        reward = torch.where(active, reward, -100.0)
        advantage = reward - extras["value"]
        spread, mean = torch.std_mean(advantage[active])
        batch = RolloutBatch(
            observation, action, extras, (advantage - mean) / spread, reward, active.float(), torch.zeros(())
        )
        learner.update(batch)
    assert bandit_score(learner.ema) >= bound
    value = agent.evaluate(batch)[2][active]
    assert value.mean().item() == close(reward[active].mean().item(), abs=0.25)


def best(agent, position):
    """The best actions of the bandit at positions [B, 2]."""
    if agent.continuous:
        return 0.6 * position
    return 6 * ((position[:, 0] + 1.0) * 2.5).long().clamp(0, 4)


def bandit_score(agent):
    """The higher the better: minus the squared error, or the share of right actions."""
    position = uniform(1000, 2, generator=seeded(2))
    with torch.no_grad():
        action = agent.act(where(position))
    if agent.continuous:
        return -(action - best(agent, position)).square().mean().item()
    return (action == best(agent, position)).float().mean().item()


GOES_ON = 0.5
"""Discount in the worlds below."""


def predicted(agent, state, action):
    """The value that an agent reports of an action in a state; NaN if it reports none."""
    position = torch.full((64, 2), float(state))
    batch = Batch(where(position), action, torch.zeros(64), torch.zeros(64), where(position))
    with torch.no_grad():
        losses = [agent.loss(batch, agent.loss_noise(64, seeded(s))) for s in range(4)]
    return sum(float(each.get("value", math.nan)) for each in losses) / len(losses)


@pytest.mark.parametrize("name", DISCRETE)
def test_values_of_a_chain_of_two_states(name):
    """Staying in the rich state with action 0 gives 0.5 each time, all else nothing.

    Action 0 leads from the poor state to the rich one; the other actions lead to or keep in the
    poor one. So the rich state is worth 0.5 / (1 - 0.5) = 1 and the poor one half of that. The
    values of a user's agent may contain more than rewards: of it only the actions are checked.
    """
    rich, poor = 0.5, -0.5
    settings = {"learning_rate": 2e-3, "learning_rate_final": 1e-4}
    learner = learner_of(name, num_actions=3, tau=0.1, **settings)
    generator, count = seeded(1), 200
    for update in range(count):
        learner.set_progress(update / count)
        in_rich = torch.rand(16, generator=generator) < 0.5
        action = torch.randint(3, (16,), generator=generator)
        state = torch.where(in_rich, rich, poor)
        following = torch.where(action == 0, rich, poor)
        reward = 0.5 * (in_rich & (action == 0))
        learner.update(
            Batch(
                where(state[:, None].expand(16, 2)),
                action,
                reward,
                torch.full((16,), GOES_ON),
                where(following[:, None].expand(16, 2)),
            )
        )
    agent = learner.agent
    for state, action, value in ((rich, 0, 1.0), (rich, 1, 0.25), (poor, 0, 0.5), (poor, 2, 0.25)):
        got = predicted(agent, state, torch.full((64,), action))
        assert got == close(value, abs=0.1) or name not in AGENTS, (state, action)
    assert agent.act(where(torch.tensor([[rich] * 2, [poor] * 2]))).tolist() == [0, 0]
