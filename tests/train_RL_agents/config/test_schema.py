"""Schedules, and what must fit together in a configuration."""

from pathlib import Path

import pytest

from marinenav_env import LEVELS, ConfigError, Level
from tests.refusals import refusal
from train_RL_agents.agents.trainer_configs import OffPolicyConfig, OnPolicyConfig
from train_RL_agents.config.levels import convert_levels
from train_RL_agents.config.reading import load_config
from train_RL_agents.config.schema import TrainConfig

CONFIGS = Path(__file__).parents[3] / "configs"


def test_published_schedule_is_the_published_one():
    config = load_config(CONFIGS / "published_schedule.json")
    curriculum = config.training_schedule.curriculum()
    assert curriculum.levels == convert_levels(Level, config.eval_schedule.levels) == LEVELS
    assert curriculum.timesteps == (0, 1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000)
    assert (config.total_timesteps, config.eval_freq) == (6_000_000, 60_000)
    assert config.eval_schedule.num_episodes == (10,) * 6


def test_loggers_are_known():
    with pytest.raises(ConfigError, match=": must be some of tensorboard, csv, wandb, or package"):
        TrainConfig(loggers=["board"])


@pytest.mark.parametrize(
    ("agent", "trainer", "sentence"),
    [
        ("PPO", OffPolicyConfig(), "trainer='OffPolicyConfig': must be OnPolicyConfig for this agent"),
        ("DQN", OnPolicyConfig(), "trainer='OnPolicyConfig': must be OffPolicyConfig for this agent"),
        ("DQN", OffPolicyConfig(prioritized=True), "trainer.prioritized=True: must be false for DQN"),
        ("DQN", OffPolicyConfig(learning_starts=0), "trainer.learning_starts=0: must be at least num"),
        ("DQN", OffPolicyConfig(buffer_size=9), "trainer.buffer_size=9: must be at least 3840, what"),
        ("DQN", OffPolicyConfig(buffer_size=5000, batch_size=5001), "trainer.batch_size=5001: must be at most trainer"),
    ],
)
def test_settings_that_do_not_go_together(agent, trainer, sentence):
    own = TrainConfig(agent_type=agent).agent
    assert refusal(TrainConfig, agent=own, agent_type=agent, trainer=trainer).startswith(sentence)
