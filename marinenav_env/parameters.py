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
    batch = [len(worlds)]
    vessels, sensors = [world[0] for world in worlds], [world[1] for world in worlds]

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
    vessel = Vessel(**tensors, batch_size=batch)

    tensors = {
        name: _per_robot(
            [getattr(sensor, name) for sensor in sensors], robots, f"world.sensor.{name}", options
        )
        for name in ("range", "angle", "pos_std", "vel_std", "r_mean_ratio", "r_kappa")
    }
    kappas, table_row = torch.unique(tensors.pop("r_kappa"), return_inverse=True)
    max_objects = _per_robot(
        [sensor.max_objects for sensor in sensors],
        robots,
        "world.sensor.max_objects",
        {"device": device, "dtype": torch.int64},
    )
    sensor = Sensor(**tensors, table_row=table_row, max_objects=max_objects, batch_size=batch)

    rules = Rules(
        **{
            name: torch.tensor([getattr(world[2], name) for world in worlds], **options)
            for name in (item.name for item in fields(RewardConfig))
        },
        core_radius=torch.tensor([world[3] for world in worlds], **options),
        batch_size=batch,
    )
    quantiles = von_mises_quantiles(kappas.tolist()).to(**options)
    return Parameters(vessel=vessel, sensor=sensor, rules=rules, batch_size=batch), quantiles


def shared_parameters(
    config: WorldConfig, robots: int, device: torch.device, dtype: torch.dtype
) -> tuple[Parameters, Tensor]:
    """Parameters of a world in which every environment is alike; see build_parameters."""
    world = (config.vessel, config.sensor, config.reward, config.scenario.core_radius)
    return build_parameters([world], robots, device, dtype)
