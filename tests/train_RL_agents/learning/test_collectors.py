"""Where steps come from, as the training loop sees it."""

import pytest

from tests.train_RL_agents.learning.helpers import torchrl_collector
from tests.train_RL_agents.tiny_runs import trainer_of

pytestmark = pytest.mark.usefixtures("surroundings")


def collector_of(path, *words):
    return trainer_of(path, *words).collector


@pytest.mark.parametrize("steps", [1, 3])
def test_steps_are_those_that_torchrls_collector_yields(tmp_path, steps):
    words = f"trainer.steps_per_batch={steps}", "seed=3"
    actual, other = (collector_of(tmp_path / name, *words) for name in "ab")
    reference = torchrl_collector(other.env, other.policy, 8 * steps)
    for _ in range(12):
        found, expected = actual.collect(), next(reference)
        assert {*found.keys(True, True)} == {*expected.keys(True, True)}
        assert (found == expected).all()
    assert actual.env.env_steps == other.env.env_steps == 12 * 8 * steps
