"""Means of scalars between two readings."""

import pytest
import torch
from tensordict import TensorDict

from tests.host_reads import no_host_reads
from train_RL_agents.learning.meter import EpisodeMeter, Meter

close = pytest.approx


def scalars_of(**values):
    return {name: torch.tensor(value) for name, value in values.items()}


def test_meter_gives_means_since_the_last_reading():
    meter = Meter()
    assert meter.read() == {}
    given = [scalars_of(loss=loss, value=value) for loss, value in ((1.0, 10.0), (2.0, -10.0), (6.0, 3.0))]
    with no_host_reads():
        for scalars in given:
            meter.add(scalars)
    assert meter.read() == close({"loss": 3.0, "value": 1.0})
    assert meter.read() == {}
    meter.add(scalars_of(loss=7.0))
    assert meter.read() == close({"loss": 7.0})


def test_meter_is_not_changed_by_values_that_are_overwritten():
    meter, value = Meter(), torch.tensor(0.0)
    for number in (1.0, 2.0, 6.0):
        meter.add({"loss": value.fill_(number)})
    assert meter.read() == {"loss": 3.0}


def test_ranks_count_together():
    """Two ranks share what they counted; test_torchrl_trainer.py compares the counts of one with the steps of a run."""
    example = TensorDict({"next": {"robots": {"reward": torch.zeros(4, 2, 1)}}}, [4])
    meter = EpisodeMeter(example, ("return",))
    # Means over two ranks that had 1 and 4 episodes.
    found = meter.read({"episodes": 2.5, "episode_return": 10.0}, 2)
    assert found == {"episodes": 5.0, "episode_return": 4.0}
