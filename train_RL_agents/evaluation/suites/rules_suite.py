"""Encounters of two vessels, head-on, crossing and overtaking: robot 0 is the own vessel, robot 1 the other one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from marinenav_env import WorldConfig
from marinenav_env.config import VesselConfig
from marinenav_env.scenarios.scenario import blank_scenarios
from marinenav_env.state import Scenario
from marinenav_env.vessels import holding_setpoints, largest_value

MEETING_COORDINATE = 27.5
"""Coordinate of the meeting point of the courses on both axes of the map (m)."""
GOAL_DISTANCE = 20.0
"""Distance from the meeting point to the goals (m)."""
DEFAULT_MAX_THRUST = 1000.0
"""Largest thrust of the default vessel per side (N)."""
MAX_START_OFFSET = 1.0
"""Largest random offset of a start along either axis (m)."""
MAX_COURSE_OFFSET = math.radians(2.5)
"""Largest random offset of a course (rad)."""
MAX_SPEED_DEVIATION = 0.15
"""Largest random deviation of a speed, as a share of it."""


@dataclass(frozen=True)
class Encounter:
    """Geometry of an encounter of two vessels; the own vessel comes from the south and heads north."""

    course: float
    """Course of the other vessel (rad, clockwise from north)."""
    speed: tuple[float, float]
    """Initial speeds, own and other (m/s)."""
    distance: tuple[float, float]
    """Initial distances to the meeting point, own and other (m)."""
    other_thrust: float | None = None
    """Largest thrust per side of the other vessel (N); None: that of the own one."""


ENCOUNTERS: dict[str, Encounter] = {
    "head-on": Encounter(math.pi, (2.0, 2.0), (18.0, 18.0)),
    "crossing from starboard": Encounter(-math.pi / 2, (2.0, 2.0), (18.0, 18.0)),
    "crossing from port": Encounter(math.pi / 2, (2.0, 2.0), (18.0, 18.0)),
    "overtaking": Encounter(0.0, (2.0, 0.8), (20.0, 8.0), 120.0),
}


def with_slow_vessel(world: WorldConfig, robots: int, slot: int, thrust: float) -> WorldConfig:
    """Return a world of a number of vessels, of which one has weaker thrusters, of a largest thrust (N) per side.

    The thrust is scaled for a boat with a name; the others have the strongest thrusters of the world.
    """
    strongest = largest_value(world.vessel.max_thrust)
    if world.vessel.name != VesselConfig.name:
        thrust = thrust / DEFAULT_MAX_THRUST * strongest
    limits = tuple(thrust if robot == slot else strongest for robot in range(robots))
    return replace(world, vessel=replace(world.vessel, max_thrust=limits))


def encounter_scenarios(
    encounter: Encounter, vessel: VesselConfig, episodes: int, seed: int, scale: tuple[float, float] = (1.0, 1.0)
) -> Scenario:
    """Return scenarios with the geometry of an encounter, slightly varied, both vessels in motion, float64 on the CPU.

    The geometry is that of the published vessel; ``scale`` are the boat's factors on lengths and on speeds.
    """
    options: dict[str, Any] = {"generator": torch.Generator().manual_seed(seed)}
    options["dtype"] = torch.float64

    def draw_variation(limit: float, *shape: int) -> Tensor:
        return limit * (2.0 * torch.rand(episodes, 2, *shape, **options) - 1.0)

    course = torch.tensor([0.0, encounter.course], dtype=torch.float64).expand(episodes, 2)
    direction = torch.stack((course.cos(), course.sin()), -1)
    distance = torch.tensor(encounter.distance, dtype=torch.float64)[:, None]
    start = MEETING_COORDINATE - distance * direction + draw_variation(MAX_START_OFFSET, 2)
    heading = course + draw_variation(MAX_COURSE_OFFSET)
    speed = torch.tensor(encounter.speed, dtype=torch.float64) * (1.0 + draw_variation(MAX_SPEED_DEVIATION))
    mask = torch.ones(episodes, 2, dtype=torch.bool)
    goal = MEETING_COORDINATE + GOAL_DISTANCE * direction
    return moving_vessels(scale[0] * start, scale[0] * goal, heading, scale[1] * speed, mask, vessel)


def moving_vessels(
    start: Tensor, goal: Tensor, heading: Tensor, speed: Tensor, mask: Tensor, vessel: VesselConfig
) -> Scenario:
    """Return scenarios of vessels in motion, with the thrust that keeps their speed, and nothing else.

    Positions and goals are [P, R, 2] (m), headings (rad), speeds ahead (m/s) and the mask of vessels [P, R].
    """
    episodes, robots = mask.shape
    scenarios = blank_scenarios(episodes, robots, 0, 0, speed.device, speed.dtype)
    scenarios.goal, scenarios.start, scenarios.heading, scenarios.robot_mask = goal, start, heading, mask
    yaw_rate = torch.zeros_like(speed)
    scenarios.velocity = torch.stack((speed * heading.cos(), speed * heading.sin(), yaw_rate), -1)
    setpoints = [holding_setpoints(vessel, column, robot) for robot, column in enumerate(speed.unbind(1))]
    scenarios.thrust = torch.stack([torch.stack(pair, -1) for pair in setpoints], 1)
    return scenarios
