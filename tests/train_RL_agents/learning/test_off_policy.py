"""Off-policy learning: when updates are due, what is stored, and what a state holds."""

import pytest
import torch

from marinenav_env import GROUP
from tests.train_RL_agents.tiny_runs import new_run
from train_RL_agents.learning.off_policy import OffPolicy
from train_RL_agents.memory.column_layout import STORED_MASK
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


def test_targets_follow_at_every_multiple_of_their_interval(tmp_path):
    words = ("trainer.target_update_interval=30", "trainer.tau=1.0")
    algorithm = algorithm_of(tmp_path, *words, "trainer.learning_starts=1000")
    moved = []
    algorithm.learner.update_targets = moved.append
    for env_steps, expected in ((29, 0), (30, 1), (59, 1), (125, 4)):
        algorithm.update(env_steps)
        assert moved == [1.0] * expected


@pytest.mark.parametrize("storage", ["device", "host"])
def test_steps_of_active_robots_are_stored(tmp_path, storage):
    trainer = TorchRLTrainer(new_run(tmp_path, f"trainer.replay_storage={storage}"), quiet=True)
    stored = 0
    for _ in range(3):
        steps = trainer.collector.collect()
        stored += int(steps[GROUP, "mask"].sum())
        trainer.algorithm.add_steps(steps)
    assert int(trainer.algorithm.replay.num_stored) == stored > 0
    fill = trainer.algorithm.device_scalars()["replay_fill"]
    assert float(fill) == pytest.approx(stored / 150)


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


def test_a_state_without_replay_cannot_be_resumed(tmp_path):
    algorithm = algorithm_of(tmp_path, "save_replay=false")
    state = algorithm.state_dict()
    assert state["replay"] is None
    assert "save_replay=false" in algorithm.resume_problem(state)
    assert algorithm.resume_problem({}) == ""  # loading says what else is wrong


def test_restarting_drops_open_windows_but_not_replay(tmp_path):
    algorithm = algorithm_of(tmp_path, "trainer.n_steps=3", "trainer.learning_starts=40")
    before = int(algorithm.replay.num_stored)
    assert algorithm.state_dict()["n_step"]["open"][STORED_MASK].any()
    algorithm.drop_unfinished_returns()
    assert not algorithm.state_dict()["n_step"]["open"][STORED_MASK].any()
    assert int(algorithm.replay.num_stored) == before


def test_open_windows_of_another_kind_are_refused(tmp_path):
    algorithm = algorithm_of(tmp_path, "trainer.n_steps=3", "trainer.learning_starts=40")
    state = algorithm.state_dict() | {"env_steps": 8}
    assert algorithm.resume_problem(state) == ""
    opened = state["n_step"]["open"]
    for damaged in (opened["reward"][:2], opened["reward"].double(), opened["reward"] * torch.nan):
        streams = {"open": opened | {"reward": damaged}}
        with pytest.raises(RuntimeError, match="reward is"):
            algorithm.load_state_dict(state | {"n_step": streams})
    algorithm.load_state_dict(state)


def test_the_state_knows_which_target_updates_were_made(tmp_path):
    words = ("trainer.target_update_interval=30", "trainer.learning_starts=1000")
    first, other = (algorithm_of(tmp_path / part, *words) for part in ("first", "other"))
    first.update(31)
    other.load_state_dict(first.state_dict() | {"env_steps": 31})
    moved = []
    other.learner.update_targets = moved.append
    other.update(59)
    assert moved == []
    other.update(60)
    assert len(moved) == 1


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
