"""From configuration to parameter tensors."""

import pytest
import torch

from marinenav_env.config import (
    RewardConfig,
    ScenarioConfig,
    SensorConfig,
    VesselConfig,
    WorldConfig,
)
from marinenav_env.scenarios.parameters import build_parameters
from marinenav_env.sensing.perception import von_mises_quantiles
from marinenav_env.support.validation import ConfigError
from tests.marinenav_env.helpers import CPU

DOUBLE = torch.float64


def test_shared_values_take_one_slot_and_per_robot_values_one_each() -> None:
    config = WorldConfig(vessel=VesselConfig(m=(1.0, 2.0, 3.0, 4.0)), sensor=SensorConfig(max_objects=(2, 3, 1, 9)))
    parameters, _ = build_parameters([config], 3, CPU, DOUBLE)
    vessel, sensor = parameters.vessel, parameters.sensor
    assert parameters.batch_size == torch.Size([1])
    assert vessel.m.tolist() == [[1.0, 2.0, 3.0]]  # numbers for more robots than there are
    assert vessel.Izz.tolist() == [[450.0]]
    assert vessel.left_thrust_change.tolist() == [[[0.0, -500.0, -1000.0, 500.0, 1000.0]]]
    assert sensor.max_objects.tolist() == [[2, 3, 1]] and not sensor.max_objects.is_floating_point()
    assert sensor.range.tolist() == [[20.0]]


def test_environments_may_differ() -> None:
    worlds = [
        WorldConfig(
            vessel=VesselConfig(m=7.0),
            sensor=SensorConfig(range=3.0),
            reward=RewardConfig(goal_reward=1.0),
        ),
        WorldConfig(
            vessel=VesselConfig(m=(8.0, 9.0)),
            reward=RewardConfig(goal_reward=2.0),
            scenario=ScenarioConfig(core_radius=0.75),
        ),
    ]
    parameters, _ = build_parameters(worlds, 2, CPU, DOUBLE)
    assert parameters.batch_size == torch.Size([2])
    assert parameters.vessel.m.tolist() == [[7.0, 7.0], [8.0, 9.0]]
    assert parameters.sensor.range.tolist() == [[3.0], [20.0]]
    assert parameters.rules.goal_reward.tolist() == [1.0, 2.0]
    assert parameters.rules.core_radius.tolist() == [0.5, 0.75]
    assert parameters.rules.timestep_penalty.tolist() == [-0.1, -0.1]


def test_every_robot_reads_the_quantiles_of_its_own_concentration() -> None:
    sensors = [SensorConfig(r_kappa=(4.0, 0.0, 1.0)), SensorConfig(r_kappa=1.0)]
    worlds = [WorldConfig(sensor=sensor) for sensor in sensors]
    parameters, table = build_parameters(worlds, 3, CPU, DOUBLE)
    kappas = [[4.0, 0.0, 1.0], [1.0, 1.0, 1.0]]
    for row, numbers in zip(parameters.sensor.table_row, kappas, strict=True):
        assert torch.equal(table[row], von_mises_quantiles(numbers))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype(dtype: torch.dtype) -> None:
    parameters, table = build_parameters([WorldConfig()], 2, CPU, dtype)
    assert table.dtype == dtype
    floating = [t for t in parameters.values(True, True) if t.is_floating_point()]
    assert len(floating) > 40 and {t.dtype for t in floating} == {dtype}


@pytest.mark.parametrize(
    ("vessel", "sensor", "key"),
    [
        (VesselConfig(m=(1.0, 2.0)), SensorConfig(), "world.vessel.m"),
        (VesselConfig(), SensorConfig(range=(1.0,)), "world.sensor.range"),
        (VesselConfig(), SensorConfig(max_objects=(1, 2)), "world.sensor.max_objects"),
        (VesselConfig(), SensorConfig(r_kappa=(1.0, 2.0)), "world.sensor.r_kappa"),
    ],
)
def test_too_few_numbers_are_refused(vessel: VesselConfig, sensor: SensorConfig, key: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{key}=\(.*one for each of 3 robots$"):
        build_parameters([WorldConfig(vessel=vessel, sensor=sensor)], 3, CPU, DOUBLE)


def test_discrete_commands_must_be_equally_many() -> None:
    vessels = [VesselConfig(), VesselConfig(right_thrust_change=(0.0, 1.0))]
    worlds = [WorldConfig(vessel=vessel) for vessel in vessels]
    with pytest.raises(ConfigError, match=r"^world\.vessel\.right_thrust_change=.*equally long"):
        build_parameters(worlds, 2, CPU, DOUBLE)
