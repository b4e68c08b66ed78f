"""Descriptions of entries, and what a sensor is without its optional methods."""

import pytest
import torch

from marinenav_env import EntrySensor, WorldConfig
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.sensing.entries import DEFAULT_LIMIT, Entry
from tests.marinenav_env.helpers import CPU


class Plain(EntrySensor):
    """Three numbers, and nothing that may be left out."""

    name = "plain"

    def shape(self, config: WorldConfig) -> tuple[int, ...]:
        return (3,)


def test_a_sensor_describes_its_entry() -> None:
    expected = Entry("plain", "vector", (3,), "", (), ((-DEFAULT_LIMIT, DEFAULT_LIMIT),), "")
    assert Plain().entry(WorldConfig()) == expected
    assert Plain().noise((2, 1, 3), RandomSource.from_seed(0, 2, CPU), torch.float32) is None


def test_masks_are_boolean_whatever_the_world_computes_in() -> None:
    for floating in (torch.float32, torch.float64):
        assert Entry("there", "mask", (5,)).dtype(floating) is torch.bool
        assert Entry("plain", "vector", (3,)).dtype(floating) is floating


def test_shape_and_observe_are_needed() -> None:
    sensor = EntrySensor()
    for call in (lambda: sensor.shape(WorldConfig()), lambda: sensor.observe(None, None)):
        with pytest.raises(NotImplementedError):
            call()
