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


def test_meter_resumes():
    meter, other = Meter(), Meter()
    meter.add(scalars_of(loss=1.0))
    other.add(scalars_of(loss=100.0))
    other.load_state_dict(meter.state_dict())
    for each in (meter, other):
        each.add(scalars_of(loss=4.0))
        assert each.read() == close({"loss": 2.5})


def test_losses_are_sums_of_what_is_minimised_and_of_the_gradients():
    meter = Meter()
    for number in (1.0, 2.0):
        meter.add(scalars_of(loss_actor=number, value=9.0, grad_norm=3.0 * number, priority=5.0))
    assert meter.loss_sums == scalars_of(loss_actor=3.0, grad_norm=9.0)
    assert meter.read(scalars_of(fill=0.5))["fill"] == 0.5
    assert meter.loss_sums == {}


@pytest.mark.parametrize(
    "state",
    [
        {"sums": {"loss": 1.0}, "counts": {"loss": 1}},
        {"sums": {"loss": torch.ones(2)}, "counts": {"loss": 1}},
        {"sums": scalars_of(loss=1.0), "counts": {}},
        {"sums": scalars_of(loss=1.0), "counts": {"loss": -1}},
        {"sums": scalars_of(loss=1.0), "counts": {"loss": 0}},
        {"sums": scalars_of(loss=1.0, value=1.0), "counts": {"loss": 1, "value": 0}},
        {"sums": {"loss": torch.tensor(1.0), "value": 1.0}, "counts": {"loss": 1, "value": 1}},
        {"sums": scalars_of(loss=1), "counts": {"loss": 1}},
    ],
)
def test_sums_without_their_counts_are_refused(state):
    meter = Meter()
    meter.add(scalars_of(loss=4.0))
    with pytest.raises(ValueError, match="sums of scalars without their counts"):
        meter.load_state_dict(state)
    assert meter.read() == {"loss": 4.0}


# Episodes ---------------------------------------------------------------------------------------

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


def test_what_an_open_episode_holds_does_not_count():
    steps = steps_of(2, 1)
    steps["next", "done"][:] = torch.tensor([[[True]], [[False]]])
    steps["next", "episode_statistics"][1] = torch.nan
    meter = EpisodeMeter(steps[:, 0], NAMES)
    meter.add(steps)
    expected = steps["next", "episode_statistics"][0, 0, 0]
    assert float(meter.sums()["episode_return"]) == close(float(expected))


def test_episode_meter_resumes_in_the_same_memory():
    meter, other = (EpisodeMeter(steps_of(4, 3)[:, 0], NAMES) for _ in range(2))
    meter.add(steps_of(4, 3))
    before = other.sums()
    other.load_state_dict(meter.state_dict())
    assert before == other.sums() == meter.sums()
    with pytest.raises(RuntimeError, match="is \\[5\\], here \\[4\\]"):
        EpisodeMeter(steps_of(4, 3)[:, 0], NAMES[:4]).load_state_dict(meter.state_dict())


def test_without_statistics_there_are_none():
    meter = EpisodeMeter(steps_of(4, 3)[:, 0], ())
    meter.add(steps_of(4, 3))
    assert meter.sums() == meter.read({}) == {}
