"""Imitation: actions of teachers as an agent's own, their error, and what an agent learns."""

import math
from pathlib import Path

import pytest
import torch

from marinenav_env import WorldConfig
from marinenav_env.stepping.actions import commands_of_discrete_actions
from tests.train_RL_agents.helpers import KNOWN, agent_of, make_rollout, observations
from tests.train_RL_agents.tiny_runs import trainer_of
from train_RL_agents.config.building import make_observation_spec
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.learning.flat import FlatWeights
from train_RL_agents.learning.gradients import make_compiled_gradient_function
from train_RL_agents.learning.imitation import add_imitation_loss, imitation_errors, make_teacher_targets
from train_RL_agents.run.checkpoint import LoadedPolicy

WORLD = WorldConfig()
PAIRS = commands_of_discrete_actions(WORLD.vessel)


def teacher_of(name="PPO", world=WORLD, seed=5):
    """A policy with random weights."""
    kind = KNOWN[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        agent = kind(kind.config_type(), world.vessel.num_actions, make_observation_spec(world))
    config = TrainConfig(agent=agent.config, agent_type=name, world=world)
    return LoadedPolicy(agent, config, Path("teacher.pt"), 0, {})


def seen(count=256):
    """Different observations of one object."""
    rows = [observations((float(x % 16), float(x // 16) - 8.0, -1.0, 0.0, 1.0)) for x in range(count)]
    return {name: torch.cat([row[name][0] for row in rows]) for name in rows[0]}


def command(index):
    """The continuous action of a discrete one, from the table of the vessel."""
    table = [change / 1000.0 for change in WORLD.vessel.left_thrust_change]
    return [table[index // 5], table[index % 5]]


def test_actions_of_a_discrete_teacher_are_commands_of_a_continuous_agent():
    teacher = teacher_of("DQN", seed=10)
    found = make_teacher_targets(teacher, agent_of("AC-IQN"), PAIRS)(seen())
    chosen = teacher.agent.act(seen()).tolist()
    assert len(set(chosen)) > 2
    assert found.tolist() == [command(index) for index in chosen]


def test_of_probabilities_a_continuous_agent_imitates_the_expected_command():
    teacher = teacher_of("PPO")
    found = make_teacher_targets(teacher, agent_of("AC-IQN"), PAIRS)(seen())
    for action, logits in zip(found.tolist(), teacher.agent.outputs(seen())["logits"].tolist(), strict=True):
        weights = [math.exp(each) for each in logits]
        for side in (0, 1):
            moments = [weight * command(index)[side] for index, weight in enumerate(weights)]
            assert action[side] == pytest.approx(sum(moments) / sum(weights), abs=1e-5)


def test_actions_of_a_continuous_teacher_become_the_nearest_discrete_ones():
    teacher = teacher_of("DDPG")
    found = make_teacher_targets(teacher, agent_of("DQN"), PAIRS)(seen()).tolist()
    for index, (left, right) in zip(found, teacher.agent.act(seen()).tolist(), strict=True):
        apart = [(left - a) ** 2 + (right - b) ** 2 for a, b in map(command, range(25))]
        assert apart[index] == pytest.approx(min(apart))


def test_errors_of_continuous_actions_are_squared_distances():
    agent = agent_of("DDPG")
    given = torch.rand(256, 2) * 2.0 - 1.0
    pairs = zip(agent.act(seen()).tolist(), given.tolist(), strict=True)
    expected = [(a - c) ** 2 + (b - d) ** 2 for (a, b), (c, d) in pairs]
    assert imitation_errors(agent, seen(), given).mean().item() == pytest.approx(sum(expected) / 256)


def test_errors_of_discrete_actions_are_what_is_missing_of_the_margin():
    agent = agent_of("DQN")
    given = torch.arange(256) % 25
    rows = agent.scores(agent.outputs(seen())).tolist()
    expected = [
        max(value + (0.05 if index != wanted else 0.0) for index, value in enumerate(row)) - row[wanted]
        for row, wanted in zip(rows, given.tolist(), strict=True)
    ]
    error = imitation_errors(agent, seen(), given).mean().item()
    assert error == pytest.approx(sum(expected) / 256, rel=1e-4)
    assert error > 0.05


@pytest.mark.parametrize("probable", [False, True])
def test_errors_of_probabilities_are_cross_entropies(probable):
    """With the probabilities of a teacher that has some, or with the action of one that has not."""
    agent, teacher = agent_of("A2C"), teacher_of("PPO" if probable else "DQN")
    target = make_teacher_targets(teacher, agent, PAIRS)(seen())
    logits = agent.outputs(seen())["logits"].tolist()
    outputs = teacher.agent.outputs(seen())
    scores = teacher.agent.scores(outputs).tolist()
    expected = []
    for own, others in zip(logits, scores, strict=True):
        total = math.log(sum(math.exp(each) for each in own))
        weights = [math.exp(each) for each in others] if probable else [float(each == max(others)) for each in others]
        expected.append(sum(weight * (total - each) for weight, each in zip(weights, own, strict=True)) / sum(weights))
    assert imitation_errors(agent, seen(), target).tolist() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("actions", "like"),
    [("gaussian", lambda mean: 2.0 / math.pi * math.atan(mean)), ("clipped_gaussian", lambda mean: mean)],
)
def test_normal_numbers_imitate_with_their_mean(actions, like):
    """Also a mean beyond the bounds has a gradient."""
    agent, given = agent_of("PPO", actions=actions), torch.rand(256, 2) * 2.0 - 1.0
    agent.networks["policy"].output_layer.bias.data.fill_(2.0)
    means = agent.outputs(seen())["mu"].tolist()
    expected = [
        sum((like(mean) - wanted) ** 2 for mean, wanted in zip(*pair, strict=True))
        for pair in zip(means, given.tolist(), strict=True)
    ]
    errors = imitation_errors(agent, seen(), given)
    assert errors.tolist() == pytest.approx(expected, rel=1e-4)
    errors.sum().backward()
    assert agent.networks["policy"].output_layer.bias.grad.abs().min() > 1.0


@pytest.mark.parametrize("name", ["DQN", "PPO"])
@pytest.mark.usefixtures("surroundings")
def test_the_weight_of_the_imitation_changes_linearly(tmp_path, trained, name):
    policy = trained.checkpoints / "policy_000000000160.pt"
    words = (f"agent_type={name}", "imitation_learning=true", f"teacher={policy}")
    weights = ("trainer.imitation_weight=2.0", "trainer.imitation_weight_final=0")
    trainer = trainer_of(tmp_path, *words, *weights)
    algorithm = trainer.algorithm
    for progress, weight in ((0.0, 2.0), (0.75, 0.5), (1.0, 0.0), (1.1, 0.0)):
        algorithm.set_progress(progress, trainer.collector.policy)
        for _ in range(4):
            algorithm.add_steps(trainer.collector.collect())
        algorithm.update(algorithm.learner.updates * 8 + 24)
        assert algorithm.log_scalars()["train/imitation_weight"] == weight
        assert (algorithm.meter.read()["loss_imitation"] > 0.0) == (weight > 0.0)


def test_generated_code_reads_the_weight_of_the_imitation_in_every_update(monkeypatch):
    """What is traced decides that, so that the graph is run as it is."""
    compiled = torch.compile

    def trace(function, options, **others):
        guards = {"guard_filter_fn": options["guard_filter_fn"]}
        return compiled(function, backend="eager", options=guards, **others)

    monkeypatch.setattr(torch, "compile", trace)
    agent, weight = agent_of("PPO"), torch.tensor(2.0)
    batch = make_rollout(agent, 8, generator=torch.Generator().manual_seed(0))
    losses = add_imitation_loss(agent, teacher_of("PPO"), PAIRS, weight)
    gradients = make_compiled_gradient_function(agent, losses, FlatWeights(agent.networks), torch.device("cpu"))
    first, second = gradients(batch, None, torch.ones(())), gradients(batch, None, weight.fill_(1.0))
    assert second[1]["loss_imitation"].item() == pytest.approx(0.5 * first[1]["loss_imitation"].item())
    assert not torch.allclose(first[0], second[0])
