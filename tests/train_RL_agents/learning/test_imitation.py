"""Imitation: actions of teachers as an agent's own, their error, and what an agent learns."""

import math
from pathlib import Path

import pytest
import torch

from marinenav_env import WorldConfig
from tests.train_RL_agents.learners import KNOWN, agent_of, all_equal, values_of
from tests.train_RL_agents.observed import observations
from tests.train_RL_agents.tiny_runs import differences, new_run, results, saved, train
from train_RL_agents.agents.base import Batch
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.learning.imitation import (
    MARGIN,
    imitating,
    imitation_error,
    teacher_actions,
)
from train_RL_agents.networks.observation import ObservationSpec
from train_RL_agents.run.checkpoint import LoadedPolicy

WORLD = WorldConfig()
OFF_POLICY = [name for name, kind in KNOWN.items() if kind.algorithm == "off-policy"]


def teacher_of(name="PPO", world=WORLD, seed=5):
    """A policy with random weights."""
    kind = KNOWN[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        agent = kind(kind.config_type(), world.vessel.num_actions, ObservationSpec.of(world))
    config = TrainConfig(agent=agent.config, agent_type=name, world=world)
    return LoadedPolicy(agent, config, Path("teacher.pt"), 0, {})


def seen(count=256):
    """Different observations of one object."""
    rows = [observations((float(x % 16), float(x // 16) - 8.0, -1.0, 0.0, 1.0))
            for x in range(count)]  # fmt: skip
    return {name: torch.cat([row[name][0] for row in rows]) for name in rows[0]}


def command(index):
    """The continuous action of a discrete one, from the table of the vessel."""
    table = [change / 1000.0 for change in WORLD.vessel.left_thrust_change]
    return [table[index // 5], table[index % 5]]


def test_actions_of_a_discrete_teacher_are_commands_of_a_continuous_agent():
    teacher = teacher_of("DQN", seed=10)
    found = teacher_actions(teacher, agent_of("AC-IQN"), WORLD)(seen())
    chosen = teacher.agent.act(seen()).tolist()
    assert len(set(chosen)) > 2
    assert found.tolist() == [command(index) for index in chosen]


def test_of_probabilities_a_continuous_agent_imitates_the_expected_command():
    teacher = teacher_of("PPO")
    found = teacher_actions(teacher, agent_of("AC-IQN"), WORLD)(seen())
    for action, logits in zip(
        found.tolist(), teacher.agent.outputs(seen())["logits"].tolist(), strict=True
    ):
        weights = [math.exp(each) for each in logits]
        for side in (0, 1):
            moments = [weight * command(index)[side] for index, weight in enumerate(weights)]
            assert action[side] == pytest.approx(sum(moments) / sum(weights), abs=1e-5)


def test_actions_of_a_continuous_teacher_become_the_nearest_discrete_ones():
    teacher = teacher_of("DDPG")
    found = teacher_actions(teacher, agent_of("DQN"), WORLD)(seen()).tolist()
    for index, (left, right) in zip(found, teacher.agent.act(seen()).tolist(), strict=True):
        apart = [(left - a) ** 2 + (right - b) ** 2 for a, b in map(command, range(25))]
        assert apart[index] == pytest.approx(min(apart))


@pytest.mark.parametrize(("teacher", "agent"), [("PPO", "Rainbow"), ("DDPG", "SAC")])
def test_actions_of_the_same_kind_are_taken_as_they_are(teacher, agent):
    teacher = teacher_of(teacher)
    found = teacher_actions(teacher, agent_of(agent), WORLD)(seen())
    assert found.equal(teacher.agent.act(seen()))


def test_errors_of_continuous_actions_are_squared_distances():
    agent = agent_of("DDPG")
    given = torch.rand(256, 2) * 2.0 - 1.0
    pairs = zip(agent.act(seen()).tolist(), given.tolist(), strict=True)
    expected = [(a - c) ** 2 + (b - d) ** 2 for (a, b), (c, d) in pairs]
    assert imitation_error(agent, seen(), given).item() == pytest.approx(sum(expected) / 256)


def test_errors_of_discrete_actions_are_what_is_missing_of_the_margin():
    agent = agent_of("DQN")
    given = torch.arange(256) % 25
    rows = agent.scores(agent.outputs(seen())).tolist()
    expected = [
        max(value + (MARGIN if index != wanted else 0.0) for index, value in enumerate(row))
        - row[wanted]
        for row, wanted in zip(rows, given.tolist(), strict=True)
    ]
    error = imitation_error(agent, seen(), given).item()
    assert error == pytest.approx(sum(expected) / 256, rel=1e-4)
    assert error > MARGIN


@pytest.mark.parametrize("name", OFF_POLICY)
def test_agents_learn_what_a_teacher_does(name):
    """From the weighted error beside their own losses."""
    agent, teacher = agent_of(name), teacher_of("PPO")
    before = values_of(teacher.agent)
    observation, size = seen(), 256
    wanted = teacher_actions(teacher, agent, WORLD)(observation)
    batch = Batch(observation, wanted, torch.zeros(size), torch.zeros(size), observation,
                  torch.ones(size))  # fmt: skip
    losses, generator = imitating(agent, teacher, WORLD, 20.0), torch.Generator()
    optimizer = torch.optim.Adam(agent.networks.parameters(), 3e-3)
    errors = []
    for _ in range(40):
        found = losses(batch, agent.loss_noise(size, generator))
        errors.append(found["loss_imitation"].item() / 20.0)
        optimizer.zero_grad()
        sum(value for key, value in found.items() if key.startswith("loss")).backward()
        optimizer.step()
    assert errors[-1] < 0.5 * errors[0]
    assert all_equal(before, values_of(teacher.agent))


@pytest.mark.parametrize("name", ["AC-IQN", "DQN"])
@pytest.mark.usefixtures("surroundings")
def test_a_run_keeps_its_teacher(tmp_path, trained, uninterrupted, name):
    """It resumes exactly without the file that it was given."""
    policy = tmp_path / "given.pt"
    policy.write_bytes((trained.checkpoints / "policy_000000000160.pt").read_bytes())
    words = (f"agent_type={name}", "imitation_learning=true", f"teacher={policy}")
    expected = uninterrupted(*words)
    run = new_run(tmp_path, *words)
    train(run, stop_at=104)
    policy.unlink()
    train(run)
    assert differences(expected, results(run)) == []
    assert differences(saved(run)["learner"], uninterrupted(words[0])["state"]["learner"])
