"""Tensors of recorded episodes that do not change during an episode."""

from __future__ import annotations

import torch
from torch import Tensor

from marinenav_env import MarineNavEnv
from marinenav_env.physics.actuators import THRUSTERS
from marinenav_env.physics.shores import has_shores
from marinenav_env.state import Parameters, Scenario, Vessel


def to_host(tensor: Tensor) -> Tensor:
    """Return a tensor on the CPU, in single precision if its type is floating-point."""
    tensor = tensor.cpu()
    return tensor.float() if tensor.is_floating_point() else tensor


def episode_constants(env: MarineNavEnv, scores: bool) -> dict[str, Tensor]:
    """Return the constants of recorded episodes by their names in Recording; with scores also pairs of commands."""
    scenario, vessel = env.scenario, env.constants.vessel
    robots, cores = scenario.robot_mask, scenario.core_circulation
    per_robot = {
        **{f"vessel_{name}": getattr(vessel, name) for name in ("length", "width", "radius")},
        **{name: getattr(vessel, name) for name in ("goal_distance", "detect_radius")},
        "sensor_range": env.constants.sensor.range,
    }
    same = ("obstacle_position", "obstacle_radius", "obstacle_mask", "core_position", "core_circulation", "robot_mask")
    tensors = {
        **{name: getattr(scenario, name) for name in same},
        **{name: tensor.expand(robots.shape) for name, tensor in per_robot.items()},
        "starts": scenario.start,
        "goals": scenario.goal,
        "core_radius": env.constants.rules.core_radius[:, None].expand(cores.shape),
        "core_mask": cores != 0.0,
        "steering": _steering_tensor(env.constants, robots),
    }
    tensors |= _behaviour_tensors(scenario)
    if has_shores(scenario) and scenario.shores is not None and scenario.route is not None:
        sees = robots.new_full((len(robots),), env.config.sensor.sees_through_land)
        tensors |= {"shores": scenario.shores, "routes": scenario.route[..., :2], "sees_through_land": sees}
    if scores:
        tensors["commands"] = _command_pairs(vessel).expand(len(robots), -1, 2)
    if not env.config.reward.function:
        rules = env.constants.rules
        weights = torch.stack((rules.timestep_penalty, rules.COLREGs_penalty), -1)
        tensors["weights"] = weights.expand(len(robots), 2)
    return {name: to_host(tensor) for name, tensor in tensors.items()}


def _steering_tensor(constants: Parameters, robots: Tensor) -> Tensor:
    """Return ``steering`` as Recording has it, [E, R, 3], given the mask [E, R] of robots."""
    thrust, extras = constants.vessel.max_thrust, constants.extras
    angle = position = torch.zeros_like(thrust)
    if extras is not None:
        angle = torch.where(extras.steering == THRUSTERS, 0.0, extras.angle_limit)
        position = extras.position
    return torch.stack([each.expand(robots.shape) for each in (thrust, angle, position)], -1)


def _behaviour_tensors(scenario: Scenario) -> dict[str, Tensor]:
    """Return ``behaviour`` (index in BEHAVIOURS, -1 for controlled robots) and ``onset`` (s), [E, R] each, by name."""
    if scenario.scripted is None:
        return {}
    keep = torch.zeros_like(scenario.scripted, dtype=torch.int64)
    code = keep if scenario.behaviour is None else scenario.behaviour
    onset = torch.zeros_like(scenario.heading) if scenario.onset is None else scenario.onset
    return {"behaviour": torch.where(scenario.scripted, code, -1), "onset": onset}


def _command_pairs(vessel: Vessel) -> Tensor:
    """Return the pairs of thrust changes [E or 1, A, 2] (N/s); the right one changes fastest along A."""
    left, right = vessel.left_thrust_change[:, 0], vessel.right_thrust_change[:, 0]
    sides = torch.broadcast_tensors(left[:, :, None], right[:, None])
    return torch.stack(sides, -1).flatten(1, 2)
