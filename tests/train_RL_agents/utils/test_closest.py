"""What a mistyped name may mean."""

import pytest

from train_RL_agents.agents import AGENTS
from train_RL_agents.config.reading import iterate_settings
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.utils.closest import ALIASES, closest_names, did_you_mean

SETTINGS = [setting.key for setting in iterate_settings(TrainConfig(agent_type="AC-IQN"))]


@pytest.mark.parametrize(
    ("word", "known", "expected"),
    [
        ("PP0", AGENTS, "PPO"),
        ("dnq", AGENTS, "DQN"),
        ("aciqn", AGENTS, "AC-IQN"),
        ("papper", ["paper", "fresh"], "paper"),
        ("AC_IQN", ["ac-iqn"], "ac-iqn"),
        ("trainer.bach_size", SETTINGS, "trainer.batch_size"),
        ("learning-rate", SETTINGS, "trainer.learning_rate"),
        ("lr", SETTINGS, "trainer.learning_rate"),
        ("trainer.lr", SETTINGS, "trainer.learning_rate"),
        ("gamma", SETTINGS, "trainer.gamma"),
    ],
)
def test_the_closest_name_comes_first(word, known, expected):
    assert closest_names(word, known)[0] == expected


def test_nothing_is_proposed_for_what_is_like_nothing():
    assert closest_names("xyzzy", SETTINGS) == []
    assert did_you_mean("xyzzy", AGENTS) == did_you_mean(3, AGENTS) == ""
    assert did_you_mean("ppo2", AGENTS) == "; did you mean PPO?"


def test_names_of_other_programs_stand_for_settings_that_there_are():
    known = {item.key.rpartition(".")[2] for name in AGENTS for item in iterate_settings(TrainConfig(agent_type=name))}
    assert set(ALIASES.values()) - {"out"} <= known  # an option
