"""What all algorithms offer: settings they are chosen by, progress, log, state, memory."""

import pytest

from train_RL_agents.agents import AGENTS
from train_RL_agents.agents.trainer_configs import TRAINER_CONFIGS
from train_RL_agents.learning import ALGORITHMS

pytestmark = pytest.mark.usefixtures("surroundings")
NAMES = ["DQN", "PPO"]


def test_every_kind_of_settings_has_an_algorithm_and_a_base_of_agents():
    assert set(ALGORITHMS) == set(TRAINER_CONFIGS.values())
    assert TRAINER_CONFIGS.keys() == {each.algorithm for each in AGENTS.values()}
    for settings, kind in ALGORITHMS.items():
        assert kind.config_type is settings
