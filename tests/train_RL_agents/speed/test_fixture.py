"""The parts of a trainer as benchmarks."""

import pytest
import torch

from tests.train_RL_agents.tiny_runs import TINY
from train_RL_agents.config.reading import from_dict
from train_RL_agents.speed import fixture
from train_RL_agents.speed.fixture import TrainerBenchmarks, fill_with_random_rows, time_shares
from train_RL_agents.speed.options import benchmark_config

pytestmark = pytest.mark.usefixtures("tiny")


def test_the_world_and_the_loop_by_graphs():
    """As in captured mode on a GPU: the same steps, and one collector for all measurements."""
    found = TrainerBenchmarks(benchmark_config(from_dict(TINY)), "eager")
    collector, replay = found.collector, found.algorithm.replay
    collector.uses_cuda_graphs = True
    world = found.world()
    assert world.run(3) > 0.0
    assert collector.env.env_steps == 3 * 8
    assert world.extra_metrics(1.0)["active robot-steps/s"] > 0
    assert int(replay.num_stored) == 0
    loop = found.loop()
    loop.run(loop.min_steps)
    loop.run(loop.min_steps)
    assert found.trainer.env_steps == 2 * loop.min_steps * 8
    assert int(replay.num_stored) > 0
    found.close()


def test_the_policy_is_no_part_of_the_worlds_share():
    assert time_shares({}, 2.0)["share outside"] == time_shares({}, 2.0)["share rest"] == 1.0
    found = time_shares({"collect": 1.0, "policy": 0.25, "sample": 0.5, "save": 9.0}, 2.0)
    assert (found["share world"], found["share policy"]) == (0.375, 0.125)
    assert (found["share sampling"], found["share rest"]) == (0.25, 0.25)
    assert found["share outside"] == 0.5


def test_fill_leaves_no_slot_empty(monkeypatch):
    monkeypatch.setattr(fixture, "FILL_CHUNK_SIZE", 30)
    built = TrainerBenchmarks(benchmark_config(from_dict(TINY), buffer_size=70), "eager")
    replay = built.algorithm.replay
    fill_with_random_rows(replay, built.algorithm.example_transition, 25, 70)
    built.close()
    drawn = replay.sample()
    assert int(replay.num_stored) == 70
    assert 0 <= int(drawn["action"].min()) <= int(drawn["action"].max()) < 25
    assert drawn["observation", "objects_mask"].dtype == torch.bool
