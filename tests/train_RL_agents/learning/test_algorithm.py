"""What all algorithms offer: settings they are chosen by, progress, log, state, memory."""

from dataclasses import replace

import pytest
import torch

from tests.train_RL_agents.tiny_runs import trainer_of
from train_RL_agents.agents import AGENTS
from train_RL_agents.agents.trainer_configs import TRAINER_CONFIGS, OffPolicyConfig
from train_RL_agents.learning import ALGORITHMS

pytestmark = pytest.mark.usefixtures("surroundings")
NAMES = ["DQN", "PPO"]


def test_every_kind_of_settings_has_an_algorithm_and_a_base_of_agents():
    assert set(ALGORITHMS) == set(TRAINER_CONFIGS.values())
    assert TRAINER_CONFIGS.keys() == {each.algorithm for each in AGENTS.values()}
    for settings, kind in ALGORITHMS.items():
        assert kind.config_type is settings


@pytest.mark.parametrize(("name", "taught"), [*((name, taught) for name in NAMES for taught in (False, True))])
def test_memory_estimate_counts_what_is_kept_and_gives_losses_of_any_size(tmp_path, name, taught):
    trainer = trainer_of(tmp_path, f"agent_type={name}")
    step = trainer.collector.env.fake_tensordict()[:1]
    agent = trainer.algorithm.learner.agent
    teacher = {"imitation_learning": True, "teacher": "p.pt"} if taught else {}
    found = type(trainer.algorithm).memory_estimate(replace(trainer.config, **teacher), agent, step)
    assert all(item.size > 0 for item in found.entries)
    state = torch.get_rng_state()
    for count in (1, 5):
        found.compute_losses(count)
    assert torch.equal(torch.get_rng_state(), state)
    assert found.robots_per_sample == (1 if isinstance(trainer.config.trainer, OffPolicyConfig) else 3)
