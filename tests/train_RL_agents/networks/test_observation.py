"""Specifications of observations, and observations repeated."""

import math
from dataclasses import replace

import pytest
import torch

from marinenav_env import ConfigError, WorldConfig
from marinenav_env.config import SensorConfig, VesselConfig
from tests.train_RL_agents.helpers import SPEC
from train_RL_agents.config.building import make_observation_spec
from train_RL_agents.networks.observation import repeat_observation, to_observation


def test_specification_of_the_published_world():
    shapes = {name: entry.shape for name, entry in SPEC.entries.items()}
    assert shapes == {"self_state": (7,), "objects_state": (5, 5), "objects_mask": (5,)}
    assert SPEC.radius == pytest.approx(2.795, abs=0)
    assert math.isclose(WorldConfig().vessel.radius, SPEC.radius, abs_tol=1e-3)
    assert replace(SPEC, radius=1.0).exclude(()).radius == 1.0


def test_of_several_vessels_the_largest_radius_counts():
    world = WorldConfig(vessel=VesselConfig(radius=(1.0, 3.0, 2.0)))
    assert make_observation_spec(world).radius == 3.0


def test_an_entry_is_excluded_with_its_mask():
    spec = make_observation_spec(WorldConfig(sensor=SensorConfig(scan_beams=16)))
    assert list(spec.entries) == ["self_state", "objects_state", "objects_mask", "scan"]
    assert list(spec.exclude(("objects_state",)).entries) == ["self_state", "scan"]
    assert list(spec.exclude(("scan", "unknown")).entries) == list(SPEC.entries)


def test_observations_are_repeated_along_a_new_axis_without_copies():
    given = {"self_state": torch.arange(42.0).view(3, 2, 7), "objects_mask": torch.ones(3, 2, 5)}
    found = repeat_observation(given, 1, 4)
    assert {name: tuple(each.shape) for name, each in found.items()} == {
        "self_state": (3, 4, 2, 7),
        "objects_mask": (3, 4, 2, 5),
    }
    for index in range(4):
        assert torch.equal(found["self_state"][:, index], given["self_state"])
    assert found["self_state"].data_ptr() == given["self_state"].data_ptr()


def test_an_observation_in_one_vector_is_refused():
    with pytest.raises(
        ConfigError, match=r"^robots/observation: must be entries by name, not one vector as with flat="
    ):
        to_observation(torch.zeros(4, 3, 37))
