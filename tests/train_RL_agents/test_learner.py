"""The learner: copies of the weights, schedule, clipping; and that every agent learns."""

import copy
import io
import math

import pytest
import torch

from tests.train_RL_agents.helpers import make_batch, no_host_reads, seeded
from train_RL_agents.agents import AGENTS, Batch
from train_RL_agents.config import TrainerConfig
from train_RL_agents.learner import Learner, Meter, cosine, mix_in
from train_RL_agents.networks import Inputs

close = pytest.approx


def learner_of(name="DQN", seed=0, num_actions=25, **settings):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        agent = AGENTS[name](AGENTS[name].config_type(), num_actions)
    return Learner(agent, TrainerConfig(**settings), seeded(seed), compile=False)


def values_of(module):
    return [parameter.detach().clone() for parameter in module.parameters()]


def all_equal(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


# Copies of the weights ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", AGENTS)
def test_targets_follow_softly(name):
    learner = learner_of(name, tau=0.1)
    batches = [make_batch(learner.agent, 16, seeded(seed)) for seed in range(3)]
    for batch in batches:
        before = {key: values_of(each) for key, each in learner.agent.targets.items()}
        learner.update(batch)
        for key, target in learner.agent.targets.items():
            fast = values_of(learner.agent.networks[key])
            for old, new, ours in zip(before[key], fast, values_of(target), strict=True):
                torch.testing.assert_close(ours, 0.9 * old + 0.1 * new, rtol=1e-5, atol=1e-7)
        assert not all_equal(before[key], values_of(target))


def test_hard_targets_wait_for_their_time():
    learner = learner_of(tau=1.0, target_update_interval=10_000)
    before = values_of(learner.agent.targets)
    for seed in range(3):
        learner.update(make_batch(learner.agent, 16, seeded(seed)))
    assert all_equal(values_of(learner.agent.targets), before)
    learner.update_targets()
    assert all_equal(values_of(learner.agent.targets), values_of(learner.agent.networks))
    assert not all_equal(values_of(learner.agent.targets), before)


def test_averaged_weights_by_hand():
    learner = learner_of(average_decay=0.25, learning_rate=1e-2)
    expected = [value.double() for value in values_of(learner.averaged.networks)]
    for update in range(1, 8):
        learner.update(make_batch(learner.agent, 16, seeded(update)))
        # It starts as a plain average, so that the first weights are soon forgotten.
        decay = min(0.25, update / (update + 10.0))
        latest = values_of(learner.agent.networks)
        expected = [decay * slow + (1 - decay) * new
                    for slow, new in zip(expected, latest, strict=True)]  # fmt: skip
        ours = values_of(learner.averaged.networks)
        torch.testing.assert_close([v.double() for v in ours], expected, rtol=1e-4, atol=1e-6)
    assert not all_equal(ours, latest)
    assert learner.updates == 7


def test_no_averaging_is_the_latest():
    learner = learner_of(average_decay=0.0)
    for seed in range(2):
        learner.update(make_batch(learner.agent, 16, seeded(seed)))
        latest = values_of(learner.agent.networks)
        assert all_equal(values_of(learner.averaged.networks), latest)


def test_averaged_weights_are_no_part_of_the_agent():
    learner = learner_of(average_decay=0.999)
    shared = {value.data_ptr() for value in learner.agent.parameters()}
    assert not shared & {value.data_ptr() for value in learner.averaged.parameters()}
    assert not any(value.requires_grad for value in learner.averaged.parameters())
    assert all(value.requires_grad for value in learner.agent.networks.parameters())


def test_mix_in_by_hand():
    slow, fast = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    before = values_of(slow)
    mix_in(slow, fast, 0.0)
    assert all_equal(values_of(slow), before)
    mix_in(slow, fast, 0.25)
    expected = [0.75 * a + 0.25 * b for a, b in zip(before, values_of(fast), strict=True)]
    torch.testing.assert_close(values_of(slow), expected)
    mix_in(slow, fast, 1.0)
    assert all_equal(values_of(slow), values_of(fast))


# Steps -------------------------------------------------------------------------------------------


def test_step_size_falls_along_a_cosine():
    learner = learner_of(learning_rate=1e-3, learning_rate_final=1e-4)

    def rate(progress):
        learner.set_progress(progress)
        return learner.optimizer.param_groups[0]["lr"]

    assert rate(0.0) == close(1e-3)
    assert rate(0.25) == close(1e-4 + 9e-4 * (1 + math.sqrt(0.5)) / 2)
    assert rate(0.5) == close(5.5e-4)
    assert rate(1.0) == close(1e-4)
    assert rate(1.7) == close(1e-4)  # a resumed run may be past its end
    falling = [cosine(i / 20, 1.0, 0.0) for i in range(21)]
    assert falling == sorted(falling, reverse=True)


def test_step_size_is_that_of_the_next_update():
    """Adam's first step is about its step size, whatever the gradient."""
    for progress, size in ((0.0, 1e-2), (1.0, 1e-4)):
        learner = learner_of(learning_rate=1e-2, learning_rate_final=1e-4)
        learner.set_progress(progress)
        before = values_of(learner.agent.networks)
        learner.update(make_batch(learner.agent, 16, seeded()))
        after = values_of(learner.agent.networks)
        moves = [(b - a).abs().max() for a, b in zip(before, after, strict=True)]
        assert max(moves).item() == close(size, rel=1e-2)


def gradient_norm(learner):
    squares = [p.grad.double().square().sum() for p in learner.agent.networks.parameters()]
    return torch.stack(squares).sum().sqrt().item()


def test_gradients_are_clipped_to_the_norm():
    batch = make_batch(learner_of().agent, 32, seeded())
    free, clipped = learner_of(max_grad_norm=1e6), learner_of(max_grad_norm=0.01)
    reported = [learner.update(batch)[0]["grad_norm"].item() for learner in (free, clipped)]
    assert gradient_norm(free) == close(reported[0], rel=1e-4)  # left alone
    assert reported[0] > 0.1
    assert reported[1] == close(reported[0])  # before clipping
    assert gradient_norm(clipped) == close(0.01, rel=1e-3)
    ratios = [
        a.grad / b.grad
        for a, b in zip(clipped.agent.networks.parameters(), free.agent.networks.parameters(),
                        strict=True)
    ]  # fmt: skip
    finite = torch.cat([ratio[ratio.isfinite()] for ratio in ratios])
    torch.testing.assert_close(
        finite, torch.full_like(finite, 0.01 / reported[0]), rtol=1e-3, atol=0
    )


@pytest.mark.parametrize("name", AGENTS)
def test_update_moves_the_networks_and_reports_scalars(name):
    learner = learner_of(name)
    batch = make_batch(learner.agent, 16, seeded())
    before = {key: values_of(each) for key, each in learner.agent.networks.items()}
    with no_host_reads():
        scalars, priority = learner.update(batch)
    for key, network in learner.agent.networks.items():
        assert not all_equal(before[key], values_of(network)), key
    assert {"value", "target", "grad_norm"} < scalars.keys()
    for key, value in scalars.items():
        assert value.shape == () and torch.isfinite(value) and not value.requires_grad, key
    if learner.agent.gives_priorities:
        assert priority.shape == (16,) and not priority.requires_grad
    else:
        assert priority is None


def test_every_loss_is_minimised():
    """The step follows the sum of what starts with ``loss``, and nothing else."""
    learner = learner_of("SAC", max_grad_norm=1e6)
    batch, agent = make_batch(learner.agent, 16, seeded()), copy.deepcopy(learner.agent)
    losses = agent.losses(batch, agent.draw(16, seeded(0)))  # what the learner draws, too
    parts = [value for key, value in losses.items() if key.startswith("loss")]
    assert len(parts) == 3
    sum(parts).backward()
    learner.update(batch)
    for (key, ours), theirs in zip(
        learner.agent.networks.named_parameters(), agent.networks.parameters(), strict=True
    ):
        torch.testing.assert_close(ours.grad, theirs.grad, msg=key)


@pytest.mark.parametrize("name", AGENTS)
def test_a_restored_learner_goes_on_identically(name):
    learner = learner_of(name, average_decay=0.5)
    batches = [make_batch(learner.agent, 16, seeded(seed)) for seed in range(6)]
    for batch in batches[:3]:
        learner.update(batch)
    stream = io.BytesIO()
    torch.save(learner.state_dict(), stream)
    stream.seek(0)
    other = learner_of(name, seed=1, average_decay=0.5)
    other.load_state_dict(torch.load(stream, weights_only=True))
    other._generator.set_state(learner._generator.get_state())  # the trainer's to save
    assert other.updates == 3
    for batch in batches[3:]:
        expected, got = learner.update(batch)[0], other.update(batch)[0]
        assert all(torch.equal(got[key], value) for key, value in expected.items())
    for part in ("networks", "targets"):
        assert all_equal(
            values_of(getattr(other.agent, part)), values_of(getattr(learner.agent, part))
        )
    assert all_equal(values_of(other.averaged.networks), values_of(learner.averaged.networks))


# The meter ---------------------------------------------------------------------------------------


def scalars_of(**values):
    return {name: torch.tensor(value) for name, value in values.items()}


def test_meter_gives_means_since_the_last_reading():
    meter = Meter()
    assert meter.read() == {}
    with no_host_reads():
        for loss, value in ((1.0, 10.0), (2.0, -10.0), (6.0, 3.0)):
            meter.add(scalars_of(loss=loss, value=value))
    assert meter.read() == close({"loss": 3.0, "value": 1.0})
    assert meter.read() == {}
    meter.add(scalars_of(loss=7.0))
    assert meter.read() == close({"loss": 7.0})


def test_meter_does_not_change_what_it_is_given():
    meter, first = Meter(), scalars_of(loss=1.0)
    meter.add(first)
    meter.add(scalars_of(loss=2.0))
    assert first["loss"].item() == 1.0


def test_meter_resumes():
    meter, other = Meter(), Meter()
    meter.add(scalars_of(loss=1.0))
    other.add(scalars_of(loss=100.0))
    other.load_state_dict(meter.state_dict())
    for each in (meter, other):
        each.add(scalars_of(loss=4.0))
        assert each.read() == close({"loss": 2.5})


# Learning ----------------------------------------------------------------------------------------


def where(position):
    """An observation that tells only a position [B, 2] within (-1, 1)."""
    own = torch.zeros(len(position), 7)
    own[:, :2] = 20.0 * position
    empty = torch.zeros(len(position), 5, 5)
    return Inputs(own, empty, torch.zeros(len(position), 5, dtype=torch.bool))


def uniform(*shape, generator):
    return 2.0 * torch.rand(*shape, generator=generator) - 1.0


@pytest.mark.parametrize("name", AGENTS)
def test_learns_a_contextual_bandit(name):
    """One step, and the best action depends on the observation.

    Continuous: the closer to 0.6 times the position, the better; always acting alike leaves a
    squared error of 0.12. Discrete: one of 5 actions out of 25 is right, by the position; always
    acting alike is right in a fifth of cases.
    """
    settings = {"learning_rate": 1e-3, "learning_rate_final": 1e-3}
    learner = learner_of(name, average_decay=0.9, tau=0.05, **settings)
    generator, agent = seeded(1), learner.agent

    def best(position):
        if agent.continuous:
            return 0.6 * position
        return 6 * ((position[:, 0] + 1.0) * 2.5).long().clamp(0, 4)

    def score():
        position = uniform(1000, 2, generator=seeded(2))
        with torch.no_grad():
            action = learner.averaged.act(where(position))
        if agent.continuous:
            return -(action - best(position)).square().mean().item()
        return (action == best(position)).float().mean().item()

    bound, updates = -0.02 if agent.continuous else 0.6, 0
    assert score() < bound
    while updates < 500 and (updates % 25 or score() < bound):
        updates += 1
        position = uniform(64, 2, generator=generator)
        target = best(position)
        if agent.continuous:
            action = uniform(64, 2, generator=generator)
            reward = -(action - target).square().sum(-1)
        else:
            other = torch.randint(25, (64,), generator=generator)
            action = torch.where(torch.rand(64, generator=generator) < 0.5, target, other)
            reward = (action == target).float()
        observation = where(position)
        learner.update(Batch(observation, action, reward, torch.zeros(64), observation))
    assert score() >= bound


GOES_ON = 0.5
"""Discount in the worlds below."""


def predicted(agent, state, action):
    """The value that an agent reports of an action in a state."""
    position = torch.full((64, 2), float(state))
    batch = Batch(where(position), action, torch.zeros(64), torch.zeros(64), where(position))
    values = [agent.losses(batch, agent.draw(64, seeded(s)))["value"].detach() for s in range(4)]
    return torch.stack(values).mean().item()


@pytest.mark.parametrize("name", [name for name in AGENTS if not AGENTS[name].continuous])
def test_values_of_a_chain_of_two_states(name):
    """Staying in the rich state with action 0 gives 0.5 each time, all else nothing.

    Action 0 leads from the poor state to the rich one; the other actions lead to or keep in the
    poor one. So the rich state is worth 0.5 / (1 - 0.5) = 1 and the poor one half of that.
    """
    rich, poor = 0.5, -0.5
    settings = {"learning_rate": 2e-3, "learning_rate_final": 1e-4}
    learner = learner_of(name, num_actions=3, tau=0.1, **settings)
    generator, count = seeded(1), 250
    for update in range(count):
        learner.set_progress(update / count)
        in_rich = torch.rand(32, generator=generator) < 0.5
        action = torch.randint(3, (32,), generator=generator)
        state = torch.where(in_rich, rich, poor)
        following = torch.where(action == 0, rich, poor)
        reward = 0.5 * (in_rich & (action == 0))
        learner.update(
            Batch(
                where(state[:, None].expand(32, 2)),
                action,
                reward,
                torch.full((32,), GOES_ON),
                where(following[:, None].expand(32, 2)),
            )
        )
    agent = learner.agent
    for state, action, value in (
        (rich, 0, 1.0),
        (rich, 1, 0.25),
        (poor, 0, 0.5),
        (poor, 2, 0.25),
    ):
        got = predicted(agent, state, torch.full((64,), action))
        assert got == close(value, abs=0.1), (state, action)
    assert agent.act(where(torch.tensor([[rich] * 2, [poor] * 2]))).tolist() == [0, 0]


@pytest.mark.parametrize("name", [name for name in AGENTS if AGENTS[name].continuous])
def test_value_of_an_endless_reward(name):
    """0.5 each time for ever is worth 1; a time that ends is worth its last reward."""
    going, ending = 0.5, -0.5
    settings = {"learning_rate": 2e-3, "learning_rate_final": 1e-4}
    learner = learner_of(name, tau=0.1, **settings)
    generator, count = seeded(1), 150
    for update in range(count):
        learner.set_progress(update / count)
        goes_on = torch.rand(32, generator=generator) < 0.5
        state = torch.where(goes_on, going, ending)
        observation = where(state[:, None].expand(32, 2))
        action = uniform(32, 2, generator=generator)
        reward, discount = torch.full((32,), 0.5), GOES_ON * goes_on
        learner.update(Batch(observation, action, reward, discount, observation))
    action = uniform(64, 2, generator=generator)
    # A bonus for entropy may add 0.02 x log(4) / (1 - 0.5) = 0.06.
    assert predicted(learner.agent, going, action) == close(1.0, abs=0.15)
    assert predicted(learner.agent, ending, action) == close(0.5, abs=0.1)
