"""Off-policy learning: when updates are due, what is stored, and what a state holds."""

import pytest
import torch

from marinenav_env import GROUP
from tests.train_RL_agents.tiny_runs import trainer_of
from train_RL_agents.learning.frame_store import PLACES
from train_RL_agents.learning.off_policy import OffPolicy
from train_RL_agents.learning.prioritized import SPARE_SLOTS
from train_RL_agents.networks.memory import MEMORY
from train_RL_agents.policy_wrapper import RECALLED
from train_RL_agents.utils.memory import tree_bytes

pytestmark = pytest.mark.usefixtures("surroundings")


def test_progress_moves_exploration_and_importance_weights(tmp_path):
    words = (
        "agent_type=Rainbow",
        "trainer.prioritized=true",
        "trainer.exploration_fraction=0.5",
        "trainer.exploration_spread=0.25",
    )
    trainer = trainer_of(tmp_path, *words)
    for progress, beta, epsilon in ((0.0, 0.4, 1.0), (0.25, 0.55, 0.525), (1.0, 1.0, 0.05), (1.5, 1.0, 0.05)):
        trainer.algorithm.set_progress(progress, trainer.collector.policy)
        assert float(trainer.algorithm.replay.sampler.beta) == pytest.approx(beta)
        strengths = trainer.collector.policy.exploration[:, 0].tolist()
        assert strengths[0] == pytest.approx(epsilon)
        assert strengths[-1] == pytest.approx(0.25 * epsilon)


@pytest.mark.parametrize(("storage", "saved"), [("device", True), ("host", False)])
def test_planned_memory_by_hand(tmp_path, storage, saved):
    words = (
        f"trainer.replay_storage={storage}",
        f"save_replay={saved}",
        "trainer.n_steps=3",
        "trainer.steps_per_batch=2",
    )
    trainer = trainer_of(tmp_path, *words)
    step = trainer.collector.env.fake_tensordict()[:1]
    found = OffPolicy.held_memory(trainer.config, trainer.algorithm.learner.agent, step)
    row = tree_bytes(trainer.algorithm.example_transition)
    # A float reward and discount, an index, and two observations with masks of a byte.
    assert row == 4 + 4 + 8 + 2 * (4 * 7 + 5 * (4 * 5 + 1))
    robots = step[GROUP, "mask"].shape[-1]
    expected = [
        ("replay", (150 + SPARE_SLOTS) * row, storage == "host"),
        ("open windows", 2 * 8 * 2 * 3 * robots * row, False),
    ]
    if saved:
        expected.append(("copy of replay while saving", (150 + SPARE_SLOTS) * row, True))
    assert [(item.name, item.size, item.on_host) for item in found] == expected


def test_transitions_have_the_memory_that_was_acted_on(tmp_path):
    """Of every robot at every step, through ends of robots and of episodes."""
    words = ("agent.memory.kind=frames", "trainer.buffer_size=4000")
    trainer = trainer_of(tmp_path, *words)
    algorithm, stored, known = trainer.algorithm, 0, set()
    for _ in range(40):
        steps = trainer.collector.collect()
        algorithm.add_steps(steps)
        group = steps[GROUP][steps[GROUP, "mask"]]
        added = torch.arange(stored, stored := int(algorithm.replay.num_stored))
        found = algorithm.frames.observation(algorithm.replay.transitions_at(added)["observation", PLACES])
        assert torch.equal(found["self_state"], group["observation", "self_state"])
        assert torch.equal(found[MEMORY], group[RECALLED])
        known |= {*found[MEMORY][:, -1].tolist()}
    assert stored > 500 and known == {0.0, 1.0}


def test_frames_are_stored_once(tmp_path):
    words = ("trainer.buffer_size=1000", "save_replay=false")
    sizes = {}
    for number in (2, 8):
        frames = ("agent.memory.kind=frames", f"agent.memory.number={number}")
        trainer = trainer_of(tmp_path / str(number), *words, *frames)
        saved = trainer.algorithm.state_dict()
        assert saved["replay"] is None and saved["frames"] is None
        step = trainer.collector.env.fake_tensordict()[:1]
        found = OffPolicy.held_memory(trainer.config, trainer.algorithm.learner.agent, step)
        sizes[number] = {item.name: item.size for item in found}
    assert sizes[8]["frames"] < 1.2 * sizes[2]["frames"]
    assert sizes[8]["replay"] - sizes[2]["replay"] == (1000 + SPARE_SLOTS) * 2 * 6 * 8  # places, not observations
