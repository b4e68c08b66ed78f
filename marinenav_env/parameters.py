"""From the typed configuration to the tensors that the kernels read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from marinenav_env.config import PerRobot, RewardConfig, SensorConfig, VesselConfig, WorldConfig
from marinenav_env.perception import von_mises_quantiles
from marinenav_env.state import Parameters, Rules, Sensor, Vessel
from marinenav_env.validation import require


def _per_robot(
    values: Sequence[PerRobot], robots: int, key: str, options: dict[str, Any]
) -> Tensor:
    """Stack one value per environment into [E, R], or [E, 1] where all robots share it."""
    for value in values:
        fine = not isinstance(value, tuple) or len(value) >= robots
        require(fine, key, value, f"one number, or one for each of {robots} robots")
    if any(isinstance(value, tuple) for value in values):
        rows = [value[:robots] if isinstance(value, tuple) else (value,) * robots
                for value in values]  # fmt: skip
    else:
        rows = [(value,) for value in values]  # type: ignore[misc]
    return torch.tensor(rows, **options)


def _vessel(vessels: Sequence[VesselConfig], robots: int, options: dict[str, Any]) -> Vessel:
    """The vessels' parameters, batch [len(vessels)]."""
    tensors = {}
    for item in fields(VesselConfig):
        values = [getattr(vessel, item.name) for vessel in vessels]
        key = f"world.vessel.{item.name}"
        if item.name.endswith("_thrust_change"):
            same = len({len(value) for value in values}) == 1
            require(same, key, values, "equally long in all environments")
            tensors[item.name] = torch.tensor(values, **options)[:, None]
        else:
            tensors[item.name] = _per_robot(values, robots, key, options)
    return Vessel(**tensors, batch_size=[len(vessels)])


def _sensor(
    sensors: Sequence[SensorConfig], robots: int, options: dict[str, Any]
) -> tuple[Sensor, Tensor]:
    """The sensors' parameters, batch [len(sensors)], and the table [rows, points] they refer to."""

    def stacked(name: str, **others: Any) -> Tensor:
        values = [getattr(sensor, name) for sensor in sensors]
        return _per_robot(values, robots, f"world.sensor.{name}", options | others)

    names = ("range", "angle", "pos_std", "vel_std", "r_mean_ratio")
    tensors = {name: stacked(name) for name in names}
    kappas, table_row = torch.unique(stacked("r_kappa"), return_inverse=True)
    max_objects = stacked("max_objects", dtype=torch.int64)
    sensor = Sensor(
        **tensors, table_row=table_row, max_objects=max_objects, batch_size=[len(sensors)]
    )
    return sensor, von_mises_quantiles(kappas.tolist()).to(**options)


def _rules(
    rewards: Sequence[RewardConfig], core_radii: Sequence[float], options: dict[str, Any]
) -> Rules:
    """The parameters of rewards and currents, batch [len(rewards)]."""
    tensors = {
        item.name: torch.tensor([getattr(reward, item.name) for reward in rewards], **options)
        for item in fields(RewardConfig)
        if item.name in Rules.__annotations__
    }
    radius = torch.tensor(core_radii, **options)
    return Rules(**tensors, core_radius=radius, batch_size=[len(rewards)])


def build_parameters(
    worlds: Sequence[tuple[VesselConfig, SensorConfig, RewardConfig, float]],
    robots: int,
    device: torch.device,
    dtype: torch.dtype,
) -> tuple[Parameters, Tensor]:
    """Turn configurations into parameter tensors.

    Args:
        worlds: vessel, sensor, reward and vortex-core radius of each environment; a single entry
            is shared by all environments.
        robots: R, robot slots.
        device: where the tensors live.
        dtype: their floating-point type.

    Returns:
        Parameters, batch [len(worlds)], and the von Mises quantile table [rows, points].

    Raises:
        ConfigError: when a per-robot value has too few numbers, or the numbers of discrete
            commands differ between environments.
    """
    options: dict[str, Any] = {"device": device, "dtype": dtype}
    vessels, sensors, rewards, core_radii = zip(*worlds, strict=True)
    vessel = _vessel(vessels, robots, options)
    sensor, quantiles = _sensor(sensors, robots, options)
    rules = _rules(rewards, core_radii, options)
    batch = [len(worlds)]
    return Parameters(vessel=vessel, sensor=sensor, rules=rules, batch_size=batch), quantiles


def shared_parameters(
    config: WorldConfig, robots: int, device: torch.device, dtype: torch.dtype
) -> tuple[Parameters, Tensor]:
    """Parameters of a world whose environments are equal; see build_parameters."""
    world = (config.vessel, config.sensor, config.reward, config.scenario.core_radius)
    return build_parameters([world], robots, device, dtype)
