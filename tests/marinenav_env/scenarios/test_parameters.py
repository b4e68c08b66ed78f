"""From configuration to parameter tensors."""

import pytest
import torch

from marinenav_env.config import RewardConfig, SensorConfig, VesselConfig, WorldConfig
from marinenav_env.scenarios.parameters import build_parameters, with_default_weights
from marinenav_env.support.validation import ConfigError
from tests.marinenav_env.helpers import CPU

DOUBLE = torch.float64


def test_shared_values_take_one_slot_and_per_robot_values_one_each():
    config = WorldConfig(vessel=VesselConfig(m=(1.0, 2.0, 3.0, 4.0)), sensor=SensorConfig(max_objects=(2, 3, 1, 9)))
    parameters, _ = build_parameters([config], 3, CPU, DOUBLE)
    vessel, sensor = parameters.vessel, parameters.sensor
    assert parameters.batch_size == torch.Size([1])
    assert vessel.m.tolist() == [[1.0, 2.0, 3.0]]  # numbers for more robots than there are
    assert vessel.Izz.tolist() == [[450.0]]
    assert vessel.left_thrust_change.tolist() == [[[0.0, -500.0, -1000.0, 500.0, 1000.0]]]
    assert sensor.max_objects.tolist() == [[2, 3, 1]] and not sensor.max_objects.is_floating_point()
    assert sensor.range.tolist() == [[20.0]]


@pytest.mark.parametrize(
    ("vessel", "sensor", "key"),
    [
        (VesselConfig(m=(1.0, 2.0)), SensorConfig(), "world.vessel.m"),
        (VesselConfig(), SensorConfig(range=(1.0,)), "world.sensor.range"),
        (VesselConfig(), SensorConfig(max_objects=(1, 2)), "world.sensor.max_objects"),
        (VesselConfig(), SensorConfig(r_kappa=(1.0, 2.0)), "world.sensor.r_kappa"),
    ],
)
def test_too_few_numbers_are_refused(vessel, sensor, key):
    with pytest.raises(ConfigError, match=rf"^{key}=\(.*one for each of 3 robots$"):
        build_parameters([WorldConfig(vessel=vessel, sensor=sensor)], 3, CPU, DOUBLE)


def test_discrete_commands_must_be_equally_many():
    vessels = [VesselConfig(), VesselConfig(right_thrust_change=(0.0, 1.0))]
    worlds = [WorldConfig(vessel=vessel) for vessel in vessels]
    with pytest.raises(ConfigError, match=r"^world\.vessel\.right_thrust_change=.*equally long"):
        build_parameters(worlds, 2, CPU, DOUBLE)


def test_weights_of_the_published_reward_are_no_part_of_compiled_code():
    changed = WorldConfig(reward=RewardConfig(goal_reward=7.0, collision_penalty=-3.0))
    assert with_default_weights(changed) == WorldConfig()
    other = WorldConfig(reward=RewardConfig(astern_penalty=-1.0))
    assert with_default_weights(other) == other
