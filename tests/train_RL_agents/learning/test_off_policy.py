"""Off-policy learning: when updates are due, what is stored, and what a state holds."""

import pytest

from marinenav_env import GROUP
from tests.train_RL_agents.tiny_runs import new_run
from train_RL_agents.learning.off_policy import OffPolicy
from train_RL_agents.memory.prioritized import SPARE_SLOTS
from train_RL_agents.memory.replay import tree_bytes
from train_RL_agents.torchrl_trainer import TorchRLTrainer

pytestmark = pytest.mark.usefixtures("tiny")


def algorithm_of(tmp_path, *words):
    trainer = TorchRLTrainer(new_run(tmp_path, *words), quiet=True)
    trainer.algorithm.add_steps(trainer.collector.collect())
    return trainer.algorithm


@pytest.mark.parametrize("calls", [(96,), (8, 16, 24, 95, 96), (20, 40, 60, 80, 96)])
def test_updates_do_not_depend_on_how_often_they_are_asked_for(tmp_path, calls):
    algorithm = algorithm_of(tmp_path, "trainer.train_freq=5", "trainer.learning_starts=20")
    for env_steps in calls:
        algorithm.update(env_steps)
        assert algorithm.learner.updates == max(0, (env_steps - 20) // 5)


def test_progress_moves_exploration_and_importance_weights(tmp_path):
    words = (
        "agent_type=Rainbow",
        "trainer.prioritized=true",
        "trainer.exploration_fraction=0.5",
        "trainer.exploration_spread=0.25",
    )
    trainer = TorchRLTrainer(new_run(tmp_path, *words), quiet=True)
    for progress, beta, epsilon in ((0.0, 0.4, 1.0), (0.25, 0.55, 0.525), (1.0, 1.0, 0.05), (1.5, 1.0, 0.05)):
        trainer.algorithm.set_progress(progress, trainer.collector.policy)
        assert float(trainer.algorithm.replay.sampler.beta) == pytest.approx(beta)
        strengths = trainer.collector.policy.exploration[:, 0].tolist()
        assert strengths[0] == pytest.approx(epsilon)
        assert strengths[-1] == pytest.approx(0.25 * epsilon)


@pytest.mark.parametrize(("storage", "saved"), [("device", True), ("host", False)])
def test_memory_estimate_by_hand(tmp_path, storage, saved):
    words = (
        f"trainer.replay_storage={storage}",
        f"save_replay={saved}",
        "trainer.n_steps=3",
        "trainer.steps_per_batch=2",
    )
    trainer = TorchRLTrainer(new_run(tmp_path, *words), quiet=True)
    step = trainer.collector.env.fake_tensordict()[:1]
    found = OffPolicy.memory_estimate(trainer.config, trainer.algorithm.learner.agent, step)
    row = tree_bytes(trainer.algorithm.example_transition)
    # A float reward and discount, an index, and two observations with masks of a byte.
    assert row == 4 + 4 + 8 + 2 * (4 * 7 + 5 * (4 * 5 + 1))
    robots = step[GROUP, "mask"].shape[-1]
    expected = [
        ("replay", (150 + SPARE_SLOTS) * row, storage == "host", True),
        ("open windows", 2 * 8 * 2 * 3 * robots * row, False, False),
    ]
    if saved:
        expected.append(("copy of replay while saving", (150 + SPARE_SLOTS) * row, True, True))
    assert [(item.name, item.size, item.on_host, item.is_exact) for item in found.entries] == expected
    assert (found.extra_bytes_per_sample, found.robots_per_sample) == (2 * row, 1)
