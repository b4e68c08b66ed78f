"""Search spaces: ranges, choices, and what makes no sense."""

import pytest

from marinenav_env import ConfigError
from tests.train_RL_agents.tiny_runs import TINY
from tests.train_RL_agents.trials import write_space
from train_RL_agents.config.reading import from_dict
from train_RL_agents.experiments.space import read_space

CONFIG = from_dict(TINY)


def test_space_has_ranges_and_choices(tmp_path):
    kinds = pytest.importorskip("optuna", reason="needs the extra tune").distributions
    space = read_space(write_space(tmp_path), CONFIG)
    assert space["trainer.learning_rate"] == kinds.FloatDistribution(1e-4, 1e-3, log=True)
    assert space["trainer.batch_size"] == kinds.IntDistribution(4, 8)
    assert space["agent.features"] == kinds.CategoricalDistribution(['"raw"', '"geometric"'])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "an object with one or more settings"),
        ({"trainer.batch": [1]}, "trainer.batch=[1]: there is no such setting"),
        ({"agent_type": ["DQN", "IQN"]}, "a study is of one agent"),
        ({"trainer.batch_size": [4, 8] * 51}, "a list with 1 to 100 values"),
        ({"trainer.batch_size": [64, -1]}, "trainer.batch_size=-1: must be at least 1"),
        ({"trainer.batch_size": {"low": 4.5, "high": 8}}, "trainer.batch_size=4.5: must be a whole"),
        ({"trainer.tau": {"low": 0.1}}, "with low, high and perhaps log"),
        ({"trainer.tau": {"low": 0.2, "high": 0.1}}, "numbers low < high"),
        ({"trainer.learning_rate_final": {"low": 0.0, "high": 0.1, "log": True}}, "above 0 where log"),
        ({"agent.features": {"low": 1, "high": 2}}, "the setting is not a single number"),
    ],
)
def test_a_space_that_makes_no_sense_is_refused(tmp_path, content, message):
    pytest.importorskip("optuna", reason="needs the extra tune")
    with pytest.raises(ConfigError) as caught:
        read_space(write_space(tmp_path, content), CONFIG)
    assert message in str(caught.value)
