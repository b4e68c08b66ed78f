"""Sizes of a benchmark, and what it leaves out."""

from dataclasses import replace

import pytest
import torch

from marinenav_env import ConfigError, Level
from tests.train_RL_agents.tiny_runs import ROLLOUTS, TINY
from train_RL_agents.config.reading import from_dict
from train_RL_agents.speed import options
from train_RL_agents.speed.options import BenchmarkOptions, benchmark_config, with_training_level


def test_what_an_agent_and_a_device_lack():
    found = BenchmarkOptions(from_dict(TINY))
    captured = {"captured": "CUDA graphs need a CUDA device"}
    assert found.skip_reasons() == captured
    ppo = replace(found, config=from_dict(TINY | {"agent_type": "PPO", "trainer": ROLLOUTS}))
    reason = "PPO learns on-policy, without replay"
    assert ppo.skip_reasons() == captured | {"sampling": reason, "growth with replay": reason}
    assert replace(ppo, parts=("world",), modes=("eager",)).skip_reasons() == {}
    with pytest.raises(ConfigError, match=reason):
        replace(ppo, parts=("sampling",)).skip_reasons()
    with pytest.raises(ConfigError, match=r"modes=.*must be one that can be measured here"):
        replace(found, modes=("captured",)).skip_reasons()


def test_nothing_is_left_out_on_a_gpu(monkeypatch):
    monkeypatch.setattr(options, "resolve_device", lambda name, key: torch.device(name))
    found = BenchmarkOptions(from_dict(TINY, ["execution.device=cuda"]), modes=("captured",))
    assert found.skip_reasons() == {}


def test_sizes_keep_the_configuration_valid():
    config = with_training_level(from_dict(TINY), Level(5, 0, 4))
    config = benchmark_config(config, num_envs=1000, batch_size=7, buffer_size=10)
    settings = config.trainer
    assert (settings.num_envs, settings.batch_size, settings.buffer_size) == (1000, 7, 5000)
    assert settings.learning_starts == 992
    assert benchmark_config(config, batch_size=6000).trainer.buffer_size == 6000
    assert [level.num_robots for level in config.training_schedule.levels] == [5]
    assert sum(config.eval_schedule.num_episodes) == 1
