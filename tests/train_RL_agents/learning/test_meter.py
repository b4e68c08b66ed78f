"""Means of scalars between two readings."""

import pytest
import torch

from tests.train_RL_agents.helpers import no_host_reads
from train_RL_agents.learning.meter import Meter

close = pytest.approx


def scalars_of(**values):
    return {name: torch.tensor(value) for name, value in values.items()}


def test_meter_gives_means_since_the_last_reading():
    meter = Meter()
    assert meter.read() == {}
    with no_host_reads():
        for loss, value in ((1.0, 10.0), (2.0, -10.0), (6.0, 3.0)):
            meter.add(scalars_of(loss=loss, value=value))
    assert meter.read() == close({"loss": 3.0, "value": 1.0})
    assert meter.read() == {}
    meter.add(scalars_of(loss=7.0))
    assert meter.read() == close({"loss": 7.0})
    meter.add(scalars_of(loss=8.0), 3)  # the sum of three
    meter.add(scalars_of(loss=2.0))
    assert meter.read() == close({"loss": 2.5})


def test_meter_does_not_change_what_it_is_given():
    meter, first = Meter(), scalars_of(loss=1.0)
    meter.add(first)
    meter.add(scalars_of(loss=2.0))
    assert first["loss"].item() == 1.0


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
    assert meter.losses == scalars_of(loss_actor=3.0, grad_norm=9.0)
    assert meter.read(scalars_of(fill=0.5))["fill"] == 0.5
    assert meter.losses == {}


def test_states_of_before_had_one_count():
    meter = Meter()
    meter.load_state_dict({"sums": scalars_of(loss=6.0, value=3.0), "count": 3})
    assert meter.read() == {"loss": 2.0, "value": 1.0}


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
