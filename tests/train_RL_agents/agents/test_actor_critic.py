"""What PPO and A2C share: sampling, densities, values of a fleet, weights of rows."""

import math

import pytest
import torch
from torch.distributions import Categorical, Independent, Normal, TransformedDistribution

from tests.train_RL_agents.helpers import Atan, agent_of, each_entry, make_inputs, make_rollout, seeded
from train_RL_agents.agents import AGENTS

close = pytest.approx
NAMES = [name for name, kind in AGENTS.items() if kind.algorithm == "on-policy"]
NORMAL = ("gaussian", "clipped_gaussian")
every_agent = pytest.mark.parametrize("name", NAMES)


def spread_out(agent, factor=30.0):
    """An agent whose outputs vary: those of a new one are near 0."""
    with torch.no_grad():
        agent.networks["policy"].output_layer.weight.mul_(factor)
    return agent


def losses_of(agent, batch):
    return {key: value.detach() for key, value in agent.loss(batch, None).items()}


def gradients(agent, loss):
    parameters = list(agent.networks.parameters())
    return torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)


def minimised(losses):
    return sum(value for key, value in losses.items() if key.startswith("loss"))


@pytest.mark.heavy
def test_categorical_samples_have_the_frequencies_of_the_softmax():
    agent = spread_out(agent_of(NAMES[0], num_actions=4))
    given = make_inputs(3, generator=seeded())
    many = each_entry(given, lambda each: each[:, None].expand(-1, 40_000, *each.shape[1:]))
    with torch.no_grad():
        noise = agent.exploration_noise(torch.Size((3, 40_000)), seeded(1))
        action, extras = agent.explore(many, noise)
        chances = agent.outputs(given)["logits"].softmax(-1)
    for row, chance in zip(action, chances, strict=True):
        shares = torch.bincount(row, minlength=4) / 40_000
        deviation = (chance * (1.0 - chance) / 40_000).sqrt()
        assert ((shares - chance).abs() < 4.5 * deviation).all()
    expected = Categorical(probs=chances[:, None].expand(-1, 40_000, -1)).log_prob(action)
    torch.testing.assert_close(extras["log_prob"], expected, rtol=1e-4, atol=1e-5)


def test_the_largest_and_smallest_random_numbers_are_no_trouble():
    agent, given = agent_of(NAMES[0]), make_inputs(2, generator=seeded())
    noise = torch.stack((torch.zeros(25), torch.ones(25)))
    action, extras = agent.explore(given, noise)
    assert ((action >= 0) & (action < 25)).all()
    assert extras["log_prob"].isfinite().all()


@pytest.mark.parametrize("actions", NORMAL)
def test_density_and_entropy_are_those_of_torch(actions):
    agent = spread_out(agent_of(NAMES[0], actions=actions))
    batch = make_rollout(agent, 64, generator=seeded())
    outputs = agent.outputs(batch.observation)
    base = Normal(outputs["mu"], outputs["log_sigma"].exp())
    log_prob, entropy, _ = agent.evaluate(batch)
    torch.testing.assert_close(log_prob.detach(), batch.extras["log_prob"])
    if actions == "gaussian":
        reference = Independent(TransformedDistribution(base, [Atan()]), 1)
        expected = reference.log_prob(batch.action)
        torch.testing.assert_close(log_prob, expected, rtol=1e-3, atol=1e-3)
        assert torch.equal(batch.action, 2.0 / math.pi * torch.atan(batch.extras["sample"]))
    else:
        # Clipping belongs to the world: the density is that of the number before it.
        expected = Independent(base, 1).log_prob(batch.extras["sample"])
        torch.testing.assert_close(log_prob, expected)
        torch.testing.assert_close(entropy, base.entropy().sum(-1))
        assert torch.equal(batch.action, batch.extras["sample"].clamp(-1.0, 1.0))
    assert (batch.action.abs() <= 1.0).all()


@pytest.mark.heavy
def test_entropy_of_squashed_numbers_is_right_on_average():
    agent, given = agent_of(NAMES[0], actions="gaussian"), make_inputs(1, generator=seeded())
    many = each_entry(given, lambda each: each.expand(50_000, *each.shape[1:]))
    with torch.no_grad():
        noise = agent.exploration_noise(torch.Size((50_000,)), seeded(1))
        action, extras = agent.explore(many, noise)
        batch = make_rollout(agent, 1, generator=seeded())
        batch = batch._replace(observation=many, action=action, extras=extras, weight=torch.ones(50_000))
        log_prob, entropy, _ = agent.evaluate(batch)
    assert entropy.mean().item() == close(-log_prob.mean().item(), abs=0.02)


def test_the_best_action_is_the_most_probable():
    given = make_inputs(30, generator=seeded())
    agent = spread_out(agent_of(NAMES[0]))
    assert torch.equal(agent.act(given), agent.outputs(given)["logits"].argmax(-1))
    squashed = spread_out(agent_of(NAMES[0], actions="gaussian"))
    mean = squashed.outputs(given)["mu"]
    torch.testing.assert_close(squashed.act(given), 2.0 / math.pi * torch.atan(mean))
    clipped = spread_out(agent_of(NAMES[0], actions="clipped_gaussian"), 1000.0)
    mean = clipped.outputs(given)["mu"]
    assert (mean.abs() > 1.0).any()
    assert torch.equal(clipped.act(given), mean.clamp(-1.0, 1.0))


STYLES = [{}, {"actions": "gaussian"}, {"critic": "fleet"}]


def rollout(agent):
    shape = (32, 5) if agent.samples_are_joint else (64,)
    batch = make_rollout(agent, *shape, generator=seeded())
    # The policy has changed since the rollout.
    extras = dict(batch.extras)
    extras["log_prob"] = extras["log_prob"] + 0.3 * torch.randn(shape, generator=seeded(5))
    extras["value"] = extras["value"] + torch.randn(shape, generator=seeded(6))
    return batch._replace(extras=extras)


@pytest.mark.parametrize("settings", STYLES, ids=str)
@every_agent
def test_rows_of_inactive_robots_have_no_influence(name, settings):
    agent = agent_of(name, **settings)
    batch = rollout(agent)
    off = ~batch.active

    def junk(each):
        return torch.where(off, 1e3, each) if each.is_floating_point() else each

    changed = batch._replace(
        advantage=junk(batch.advantage),
        target=junk(batch.target),
        extras=batch.extras | {key: junk(batch.extras[key]) for key in ("log_prob", "value")},
        observation={
            **batch.observation,
            "self_state": torch.where(off[..., None], 77.0, batch.observation["self_state"]),
        },
    )
    torch.testing.assert_close(losses_of(agent, changed), losses_of(agent, batch))
    actual, expected = (gradients(agent, minimised(agent.loss(each, None))) for each in (batch, changed))
    torch.testing.assert_close(expected, actual, rtol=1e-4, atol=1e-6)


@every_agent
def test_the_weight_of_the_entropy_falls_linearly(name):
    agent = agent_of(name, entropy=0.5, entropy_final=0.1)
    for progress, weight in ((0.0, 0.5), (0.25, 0.4), (1.0, 0.1), (1.5, 0.1)):
        assert agent.entropy_weight(torch.tensor(progress)).item() == close(weight)
    batch = rollout(agent)
    at = [losses_of(agent, batch._replace(progress=torch.tensor(share))) for share in (0.0, 1.0)]
    gap = at[1]["loss_policy"] - at[0]["loss_policy"]
    torch.testing.assert_close(gap, 0.4 * at[0]["entropy"])
    plain = losses_of(agent_of(name, entropy=0.0), batch)
    torch.testing.assert_close(plain["loss_policy"], -plain["policy_gain"])
