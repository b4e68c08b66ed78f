"""The plan of a run's memory against what is really allocated."""

import re
from contextlib import contextmanager
from unittest.mock import patch

import pytest
import torch

from tests.refusals import refusal
from tests.train_RL_agents.tiny_runs import trainer_of
from train_RL_agents.agents import AGENTS
from train_RL_agents.config.reading import from_dict
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.experiments.memory_plan import MemoryPlan, check_memory_plan, plan_memory
from train_RL_agents.learning import replay as replays
from train_RL_agents.learning.algorithm import MemoryPlanEntry
from train_RL_agents.learning.prioritized import SPARE_SLOTS
from train_RL_agents.learning.transitions import to_batch

CPU = torch.device("cpu")


def size_of(memory, name):
    """The bytes of an item of a plan; 0 if there is none."""
    return sum(item.size for item in memory.entries if item.name == name)


def leaf_bytes(tree):
    return sum(leaf.numel() * leaf.element_size() for leaf in tree)


def held_weights(learner):
    """Bytes of all memory that weights and buffers of the agent and its average are in."""
    held = [*learner.agent.parameters(), *learner.agent.buffers(), *learner.ema.parameters(), *learner.ema.buffers()]
    found = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in held}
    return sum(found.values())


def held_by_optimizer(learner):
    return leaf_bytes(learner.optimizer_state.values())


OFF_POLICY = [name for name, agent in AGENTS.items() if agent.algorithm == "off-policy"]


@contextmanager
def memory_of_rows():
    """Within it, gives the tensors in which replay that is made keeps its rows."""
    found, blank = [], replays.blank_rows

    def noted(*arguments):
        created = blank(*arguments)
        found.extend(created.values(True, True))
        return created

    with patch.object(replays, "blank_rows", noted):
        yield found


@pytest.mark.parametrize(
    "words", [(f"agent_type={name}",) for name in OFF_POLICY] + [("agent_type=Rainbow", "trainer.prioritized=true")]
)
def test_exact_items_are_what_is_allocated(tmp_path, surroundings, words):
    with memory_of_rows() as rows:
        trainer = trainer_of(tmp_path, *words)
    learner, replay = trainer.algorithm.learner, trainer.algorithm.replay
    found = plan_memory(trainer.config, CPU)
    held = leaf_bytes(rows)
    priorities = replay.sampler
    assert size_of(found, "replay") == held + leaf_bytes(vars(priorities.priorities).values() if priorities else [])
    assert size_of(found, "networks, targets, EMA copy") == held_weights(learner)
    learner.update(to_batch(trainer.algorithm.example_transition.expand(4).clone()))
    assert size_of(found, "optimiser") == pytest.approx(held_by_optimizer(learner), rel=0.1)


@pytest.mark.parametrize(
    "words",
    [("agent_type=PPO",), ("agent_type=A2C", "trainer.optimizer=rmsprop"), ("agent_type=PPO", "agent.critic=fleet")],
    ids=" ".join,
)
def test_exact_items_of_on_policy_runs_are_what_is_allocated(tmp_path, surroundings, words):
    trainer = trainer_of(tmp_path, *words)
    found, learner = plan_memory(trainer.config, CPU), trainer.algorithm.learner
    assert size_of(found, "replay") == size_of(found, "open windows") == 0
    assert size_of(found, "networks, targets, EMA copy") == held_weights(learner)
    trainer.iterate()
    assert learner.updates > 0
    assert size_of(found, "optimiser") == pytest.approx(held_by_optimizer(learner), rel=0.1)


def test_a_plan_touches_no_global_generator_and_is_quick_about_large_runs():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    config = from_dict({"trainer": {"num_envs": 16_384, "batch_size": 1_000_000}})
    found = plan_memory(config, CPU)
    assert torch.equal(torch.get_rng_state(), before)
    small = plan_memory(TrainConfig(agent_type="AC-IQN"), CPU)
    grown = size_of(found, "world and collected steps") / size_of(small, "world and collected steps")
    assert grown == 16_384 / 256
    assert size_of(found, "replay") == size_of(small, "replay") == (1_000_000 + SPARE_SLOTS) * 282


def plan_of(replay, rest, free, device="cuda:0", on_host=False):
    items = (MemoryPlanEntry("replay", replay, on_host), MemoryPlanEntry("rest", rest, on_host))
    return MemoryPlan(torch.device(device), items, free)


def test_what_does_not_fit_is_refused_with_what_would():
    config = TrainConfig(agent_type="DQN")
    check_memory_plan(plan_of(600, 300, {False: 1000, True: 10}), config)
    assert refusal(check_memory_plan, plan_of(601_000_000, 300_000_000, {False: 1_000_000_000, True: 10}), config) == (
        "trainer.buffer_size=1000000: must be at most 998,333 to fit the 1.00 GB free on cuda:0, "
        "of which 90% are planned with"
    )
    assert refusal(check_memory_plan, plan_of(100, 950_000_000, {True: 10**9}, "cpu", on_host=True), config) == (
        "trainer.num_envs=256: must be less, as the run needs 0.95 GB "
        "besides replay, to fit the 1.00 GB free on the host"
        ", of which 90% are planned with"
    )


def test_the_largest_replay_that_is_named_fits(monkeypatch):
    monkeypatch.setattr("train_RL_agents.experiments.memory_plan.free_host_memory", lambda: 400_000_000)
    config = TrainConfig(agent_type="DQN")
    message = refusal(check_memory_plan, plan_memory(config, CPU), config)
    fitting = re.search(r"at most ([\d,]+) to fit", message).group(1).replace(",", "")
    for slots, fits in ((int(fitting), True), (int(fitting) + 1_000, False)):
        changed = from_dict({"agent_type": "DQN", "trainer": {"buffer_size": slots}})
        assert (plan_memory(changed, CPU).missing_bytes(True) <= 0) == fits
