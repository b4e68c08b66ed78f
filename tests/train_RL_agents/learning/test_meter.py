"""Means of scalars between two readings."""

import pytest
import torch
from tensordict import TensorDict

from tests.host_reads import no_host_reads
from tests.train_RL_agents.helpers import seeded
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


NAMES = ("return", "length", "success", "collision", "reward/goal")


def steps_of(envs, count, seed=0):
    """Steps [E, T] with their flags and statistics."""
    generator = seeded(seed)
    return TensorDict(
        {
            "next": {
                "done": torch.rand(envs, count, 1, generator=generator) < 0.3,
                "episode_statistics": torch.rand(envs, count, len(NAMES), generator=generator),
                "robots": {"reward": torch.zeros(envs, count, 2, 1)},
            }
        },
        [envs, count],
    )


def test_episode_meter_gives_means_over_the_episodes_that_ended():
    batches = [steps_of(4, 3, seed) for seed in range(3)]
    meter = EpisodeMeter(batches[0][:, 0], NAMES)
    with no_host_reads():
        for each in batches:
            meter.add(each)
        sums = meter.sums()
    found = meter.read(values := {"other": 1.0, **{key: float(each) for key, each in sums.items()}})
    rows = [
        each["next", "episode_statistics"][e, t].tolist()
        for each in batches
        for e in range(4)
        for t in range(3)
        if each["next", "done"][e, t]
    ]
    tags = ("episode_return", "episode_length", "success_rate", "collision_rate", "reward/goal")
    means = {tag: sum(row[n] for row in rows) / len(rows) for n, tag in enumerate(tags)}
    assert found == close({"episodes": len(rows), **means})
    assert values == {"other": 1.0}
    assert not any(map(bool, meter.sums().values()))
    assert meter.read(dict.fromkeys(sums, 0.0)) == {"episodes": 0.0}


def test_ranks_count_together():
    meter = EpisodeMeter(steps_of(4, 3)[:, 0], NAMES[:1])
    # Means over two ranks that had 1 and 4 episodes.
    found = meter.read({"episodes": 2.5, "episode_return": 10.0}, 2)
    assert found == {"episodes": 5.0, "episode_return": 4.0}
