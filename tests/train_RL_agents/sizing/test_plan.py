"""The plan of a run's memory against what is really allocated."""

import io
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from marinenav_env import ConfigError, write_scenarios
from tests.marinenav_env.helpers import simple_episode
from tests.train_RL_agents.helpers import memory_of_rows
from tests.train_RL_agents.learners import agent_of
from tests.train_RL_agents.tiny_runs import TINY, new_run
from train_RL_agents.agents import AGENTS
from train_RL_agents.config.reading import from_dict
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.environments.marinenav import BuiltInEnvironment
from train_RL_agents.learning.algorithm import MemoryPlanEntry
from train_RL_agents.memory.prioritized import SPARE_SLOTS
from train_RL_agents.memory.transitions import to_batch
from train_RL_agents.sizing.plan import MemoryPlan, check_memory_plan, memory_table, plan_memory
from train_RL_agents.torchrl_trainer import TorchRLTrainer

CPU = torch.device("cpu")


def size_of(memory, name):
    """The bytes of an item of a plan; 0 if there is none."""
    return sum(item.size for item in memory.entries if item.name == name)


def leaf_bytes(tree):
    return sum(leaf.numel() * leaf.element_size() for leaf in tree)


def trainer_of(tmp_path, *words):
    return TorchRLTrainer(new_run(tmp_path, *words), quiet=True)


def held_weights(learner):
    """Bytes of all memory that weights and buffers of the agent and its average are in."""
    held = [*learner.agent.parameters(), *learner.agent.buffers(), *learner.ema.parameters(), *learner.ema.buffers()]
    found = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in held}
    return sum(found.values())


def held_by_optimizer(learner):
    return leaf_bytes(learner.optimizer_state.values())


OFF_POLICY = [name for name, agent in AGENTS.items() if agent.algorithm == "off-policy"]


@pytest.mark.parametrize(
    "words", [(f"agent_type={name}",) for name in OFF_POLICY] + [("agent_type=Rainbow", "trainer.prioritized=true")]
)
def test_exact_items_are_what_is_allocated(tmp_path, tiny, words):
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
    [
        ("agent_type=PPO",),
        ("agent_type=A2C", "trainer.optimizer=rmsprop"),
        ("agent_type=PPO", "agent.critic=fleet", "agent.normalize_observations=true"),
    ],
    ids=" ".join,
)
def test_exact_items_of_on_policy_runs_are_what_is_allocated(tmp_path, tiny, words):
    trainer = trainer_of(tmp_path, *words)
    found, learner = plan_memory(trainer.config, CPU), trainer.algorithm.learner
    assert size_of(found, "replay") == size_of(found, "open windows") == 0
    assert size_of(found, "networks, targets, EMA copy") == held_weights(learner)
    trainer.iterate()
    assert learner.updates > 0
    assert size_of(found, "optimiser") == pytest.approx(held_by_optimizer(learner), rel=0.1)


def test_a_rollout_has_room_for_all_its_steps():
    """It is there as collected, as stored, as rows, and permuted; the steps of it as collected."""
    plans = {}
    for steps in (4, 8):
        config = from_dict({"agent_type": "PPO", "trainer": {"rollout_steps": steps}})
        plans[steps] = plan_memory(config, CPU)
    row = size_of(plans[8], "rollout") / (4 * 8 * config.trainer.num_envs)
    env = BuiltInEnvironment(replace(config, trainer=replace(config.trainer, num_envs=2))).make_envs(
        agent_of("PPO"), CPU, 0
    )
    assert row == leaf_bytes(env.fake_tensordict().values(True, True)) / 2
    assert size_of(plans[8], "rollout") == 2 * size_of(plans[4], "rollout")


@pytest.mark.parametrize("critic", ["own", "fleet"])
def test_the_update_of_a_rollout_is_estimated_per_robot(critic):
    """Between what the observations of a batch take, and 150 times as much."""
    words = {"agent_type": "PPO", "agent.critic": critic}
    sizes = {
        size: size_of(plan_memory(from_dict(words | {"trainer.batch_size": size}), CPU), "gradients and one update")
        for size in (1_000, 101_000)
    }
    per_row = (sizes[101_000] - sizes[1_000]) / 100_000
    features = 4 * (7 + 5 * 5)
    assert 2 * features < per_row < 150 * features


def test_an_on_policy_run_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr("train_RL_agents.sizing.plan.free_host_memory", lambda: 50_000_000)
    config = TrainConfig(agent_type="PPO")
    with pytest.raises(ConfigError) as caught:
        check_memory_plan(plan_memory(config, CPU), config)
    settings = config.trainer
    assert str(caught.value).startswith(
        f"trainer.num_envs={settings.num_envs}, trainer.batch_size={settings.batch_size}: must be "
        "less, as the run needs "
    )
    assert "replay" not in str(caught.value)


FILL = """
import psutil, torch
from marinenav_env import MarineNavEnv
from train_RL_agents.memory.column_layout import PackedTransitions
from train_RL_agents.memory.replay import Replay, replay_bytes
from train_RL_agents.memory.transitions import example_transition

step = MarineNavEnv(num_envs=2).fake_tensordict()
row, capacity = example_transition(step), 600_000
rows = row.expand(capacity // 200).clone()
first = Replay(row, 10, 4, torch.Generator())
first.insert(PackedTransitions(first.layout.pack(rows[:5]), None))
before = psutil.Process().memory_info().rss
replay = Replay(row, capacity, 4, torch.Generator())
for _ in range(200):
    replay.insert(PackedTransitions(replay.layout.pack(rows), None))
assert int(replay.num_stored) == capacity
print(sum(replay_bytes(row, capacity, False)), psutil.Process().memory_info().rss - before)
"""


def test_replay_takes_as_much_memory_as_was_planned():
    """In a process of its own: this one has memory to give that was used before."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FILL],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    planned, grown = map(int, done.stdout.split())
    assert planned == pytest.approx(grown, rel=0.1)


def test_a_plan_touches_no_global_generator_and_is_quick_about_large_runs():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    config = from_dict({"trainer": {"num_envs": 16_384, "batch_size": 1_000_000}})
    found = plan_memory(config, CPU)
    assert torch.equal(torch.get_rng_state(), before)
    small = plan_memory(TrainConfig(agent_type="AC-IQN"), CPU)
    grown = size_of(found, "gradients and one update") / size_of(small, "gradients and one update")
    assert 1_000 < grown < 1_000_000 / 512
    assert size_of(found, "replay") == size_of(small, "replay") == (1_000_000 + SPARE_SLOTS) * 282


@pytest.mark.parametrize(("storage", "place"), [("device", False), ("host", True)])
def test_places_of_a_run_on_a_gpu(monkeypatch, storage, place):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1, 1))
    config = from_dict(TINY, [f"trainer.replay_storage={storage}"])
    places = {item.name: item.on_host for item in plan_memory(config, torch.device("cuda", 0)).entries}
    assert places.pop("replay") == place
    assert places.pop("copy of replay while saving")
    assert not any(places.values())
    config = from_dict(TINY, ["save_replay=false"])
    assert size_of(plan_memory(config, torch.device("cuda", 0)), "copy of replay while saving") == 0


def plan_of(replay, rest, free, device="cuda:0", on_host=False):
    items = (MemoryPlanEntry("replay", replay, on_host, True), MemoryPlanEntry("rest", rest, on_host, False))
    return MemoryPlan(torch.device(device), items, free)


def test_what_does_not_fit_is_refused_with_what_would():
    config = TrainConfig(agent_type="DQN")
    check_memory_plan(plan_of(600, 300, {False: 1000, True: 10}), config)
    with pytest.raises(ConfigError) as caught:
        check_memory_plan(plan_of(601_000_000, 300_000_000, {False: 1_000_000_000, True: 10}), config)
    assert str(caught.value) == (
        "trainer.buffer_size=1000000: must be at most 998,333 to fit the 1.00 GB free on cuda:0, "
        "of which 90% are planned with"
    )
    with pytest.raises(ConfigError) as caught:
        check_memory_plan(plan_of(100, 950_000_000, {True: 10**9}, "cpu", on_host=True), config)
    assert str(caught.value) == (
        "trainer.num_envs=256, trainer.batch_size=512: must be less, as the run needs 0.95 GB "
        "besides replay, to fit the 1.00 GB free on the host"
        ", of which 90% are planned with"
    )


def test_the_largest_replay_that_is_named_fits(monkeypatch):
    monkeypatch.setattr("train_RL_agents.sizing.plan.free_host_memory", lambda: 400_000_000)
    config = TrainConfig(agent_type="DQN")
    with pytest.raises(ConfigError, match=r"at most ([\d,]+) to fit") as caught:
        check_memory_plan(plan_memory(config, CPU), config)
    fitting = str(caught.value).split("at most ")[1].split()[0].replace(",", "")
    for slots, fits in ((int(fitting), True), (int(fitting) + 1_000, False)):
        changed = from_dict({"agent_type": "DQN", "trainer": {"buffer_size": slots}})
        assert (plan_memory(changed, CPU).missing_bytes(True) <= 0) == fits


def test_the_table_shows_every_item_and_the_total():
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(memory_table(plan_of(600_000_000, 3_000_000, {False: 10**9, True: 10**9})))
    text = console.export_text()
    assert "planned on cuda:0" in text
    assert "0.60 GB" in text
    assert "about 3.0 MB" in text
    assert "0.60 GB of 1.00 GB free" in text


@pytest.mark.parametrize("section", ["training_schedule", "eval_schedule"])
def test_levels_without_room_are_refused_by_the_schedule_that_has_them(section):
    levels = {"num_robots": [3, 20], "num_cores": [0, 0], "num_obstacles": [0, 0],
              "min_start_goal_dis": [30, 40]}  # fmt: skip
    more = {"num_episodes": [5, 5]} if section == "eval_schedule" else {}
    config = from_dict({section: levels | more})
    said = f"^{section}: level 2: num_robots=20: there is room for 1. on the map of 55 x 55 m"
    with pytest.raises(ConfigError, match=said):
        plan_memory(config, CPU)


def test_an_odd_scenario_file_is_warned_of_by_the_run_alone(tmp_path):
    write_scenarios(tmp_path / "odd.json", [simple_episode([(-5, 0, 0)], [(9, 9)])])
    words = {"training_schedule.scenarios": str(tmp_path / "odd.json")}
    with warnings.catch_warnings(action="error"):
        assert plan_memory(from_dict(words), CPU).entries
