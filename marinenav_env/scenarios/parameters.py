"""Conversion of typed configurations to parameter tensors."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from marinenav_env.config import HULL_TERMS, STEERING_TYPES, ActuatorConfig, RewardConfig, WorldConfig
from marinenav_env.physics.weather import build_weather
from marinenav_env.sensing.perception import von_mises_quantiles
from marinenav_env.state import ActuatorParameters, Parameters, RewardParameters, Sensor, Vessel
from marinenav_env.support.validation import require

COMMAND_FIELDS = ("left_thrust_change", "right_thrust_change")
"""Fields of VesselConfig with the discrete thrust commands, which all robots share."""
REWARD_WEIGHT_FIELDS = ("timestep_penalty", "COLREGs_penalty", "collision_penalty", "goal_reward")
"""Fields of RewardConfig with the weights of the published reward, which may differ between environments."""


def _stack_setting(worlds: Sequence[WorldConfig], section: str, name: str, robots: int, **options: Any) -> Tensor:
    """Stack a setting of all environments into [E, R], or [E, 1] if none has one value per robot; commands: [E, 1, n].

    ``section`` is the dotted path to the config that has the setting, such as ``vessel.actuators``.
    """
    values = [attrgetter(f"{section}.{name}")(world) for world in worlds]
    key = f"world.{section}.{name}"
    if name in COMMAND_FIELDS:
        same = len({len(value) for value in values}) == 1
        require(same, key, values, "equally long in all environments")
    elif any(isinstance(value, tuple) for value in values):
        values = [value if isinstance(value, tuple) else (value,) * robots for value in values]
        for value in values:
            allowed = f"one number, or one for each of {robots} robots"
            require(len(value) >= robots, key, value, allowed)
        return torch.tensor([value[:robots] for value in values], **options)
    return torch.tensor(values, **options)[:, None]


def build_extras(worlds: Sequence[WorldConfig], robots: int, **options: Any) -> ActuatorParameters:
    """Convert actuators and hull terms of worlds, with ``robots`` slots, to tensors, batch [len(worlds)]."""
    per_robot: Callable[..., Tensor] = partial(_stack_setting, worlds, robots=robots, **options)
    tensors = {
        item.name: per_robot("vessel.actuators", item.name)
        for item in fields(ActuatorConfig)
        if item.name != "steering"
    }
    kinds = [world.vessel.actuators.steering for world in worlds]
    rows = [(kind,) * robots if isinstance(kind, str) else kind for kind in kinds]
    for row in rows:
        allowed = f"one kind, or one for each of {robots} robots"
        require(len(row) >= robots, "world.vessel.actuators.steering", row, allowed)
    numbers = [[STEERING_TYPES.index(kind) for kind in row[:robots]] for row in rows]
    width, length = per_robot("vessel", "width"), per_robot("vessel", "length")
    tensors |= {name: per_robot("vessel", name) for name in HULL_TERMS}
    spacing, position, across = (tensors[name] for name in ("spacing", "position", "cross_flow_length"))
    tensors["spacing"] = torch.where(spacing == 0.0, width, spacing)
    tensors["position"] = torch.where(position == 0.0, -0.5 * length, position)
    tensors["cross_flow_length"] = torch.where(across == 0.0, length, across)
    return ActuatorParameters(
        **tensors, steering=torch.tensor(numbers, dtype=torch.int64, device=options["device"]), batch_size=[len(worlds)]
    )


def with_default_weights(world: WorldConfig) -> WorldConfig:
    """Return a world with the default weights of the published reward, which compiled code reads from tensors."""
    weights = {name: getattr(RewardConfig(), name) for name in REWARD_WEIGHT_FIELDS}
    return replace(world, reward=replace(world.reward, **weights))


def build_parameters(
    worlds: Sequence[WorldConfig], robots: int, device: torch.device, dtype: torch.dtype
) -> tuple[Parameters, Tensor]:
    """Convert configurations, with ``robots`` slots, to Parameters, batch [len(worlds)], and von Mises quantiles."""
    options: dict[str, Any] = {"device": device, "dtype": dtype}
    batch = [len(worlds)]
    per_robot: Callable[..., Tensor] = partial(_stack_setting, worlds, robots=robots, **options)
    vessel = Vessel(**{name: per_robot("vessel", name) for name in Vessel.__annotations__}, batch_size=batch)
    kappas, table_row = torch.unique(per_robot("sensor", "r_kappa"), return_inverse=True)
    sensor = Sensor(
        **{name: per_robot("sensor", name) for name in ("range", "angle", "pos_std", "vel_std", "r_mean_ratio")},
        max_objects=per_robot("sensor", "max_objects", dtype=torch.int64),
        table_row=table_row,
        batch_size=batch,
    )
    weights = {
        name: torch.tensor([getattr(w.reward, name) for w in worlds], **options) for name in REWARD_WEIGHT_FIELDS
    }
    core_radius = torch.tensor([world.scenario.core_radius for world in worlds], **options)
    rules = RewardParameters(**weights, core_radius=core_radius, batch_size=batch)
    quantiles = von_mises_quantiles(kappas.tolist()).to(**options)
    weather = build_weather([world.weather for world in worlds], device, dtype)
    has_extras = any(world.vessel.needs_actuator_parameters for world in worlds)
    extras = build_extras(worlds, robots, **options) if has_extras else None
    parameters = Parameters(vessel=vessel, sensor=sensor, rules=rules, weather=weather, extras=extras, batch_size=batch)
    return parameters, quantiles
