"""Encounters of several vessels whose courses meet in a point: Imazu's problems, and random ones.

Imazu (1987), as tabulated by Sawada, Sato and Majima, "Automatic ship collision avoidance using
deep reinforcement learning with LSTM in continuous action spaces", J. Mar. Sci. Technol. 26 (2021),
doi 10.1007/s00773-020-00755-0; the courses are those of the environment MMG_Imazu of the public
repository MarWaltz/TUD_RL, in which problems 5 and 8, and 15 and 22, coincide.

Robot 0, the own vessel, heads north; if no vessel acts, all reach one point at the same time. Ships of Imazu's problems
are vessels of this world at 2 m/s; slow ones have 0.39 of that speed and weaker thrusters. The time to the meeting
point is between 12 s and 30 s, and within these limits so long that all other vessels start at least 25 m from the own
one, beyond the 20 m at which vessels see each other; it is longer where two vessels would start less than 10 m apart.
So only vessels on nearly parallel courses see each other at the start.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.scenarios.draws import GeneratorDraws
from marinenav_env.scenarios.encounter_sampler import draw_courses, starts_and_goals
from marinenav_env.scenarios.situations import EARLIEST_APPROACH, LATEST_APPROACH, MIN_DISTANCE, MIN_DISTANCE_FROM_OWN
from marinenav_env.state import Scenario
from marinenav_env.vessels import value_for_robot
from train_RL_agents.evaluation.suites.rules_suite import GOAL_DISTANCE, moving_vessels, with_slow_vessel

IMAZU_COURSES: tuple[tuple[float, ...], ...] = (
    (180,), (270,), (0,), (45,), (180, -90), (-10, -45), (0, -45), (180, -90), (-30, -90),
    (-90, 15), (90, -30), (180, -45, -10), (180, 10, 45), (-10, -45, -90), (0, -45, -90),
    (45, 90, -90), (0, 10, -45), (-135, -15, -30), (15, -15, -135), (0, -15, -90), (-15, 15, -90),
    (0, -45, -90),
)  # fmt: skip
"""Courses of the other vessels in each of Imazu's problems (degrees from north); a vessel that heads north is slow."""
VESSEL_SPEED = 2.0
"""Speed of vessels that are not slow (m/s)."""
SLOW_SPEED_SHARE = 0.39
"""Speed of slow vessels, as a share of VESSEL_SPEED."""
SLOW_MAX_THRUST = 120.0
"""Largest thrust of a slow vessel per side (N)."""
MEETING_TIMES = (EARLIEST_APPROACH, LATEST_APPROACH)
"""Smallest and largest time to the meeting point (s), where MIN_DISTANCE_FROM_OWN may not be reached."""
MAP_SIDE = 124.0
"""Side length of the map (m)."""
POINT_RADIUS = 0.01
"""Collision radius of vessels that are not controlled (m), so that they do not collide with each other; that of the
own vessel is enlarged by the difference."""
COURSES_BY_KIND = {
    "head-on": (180.0, 10.0), "crossing from starboard": (-90.0, 50.0),
    "crossing from port": (90.0, 50.0), "overtaking": (0.0, 20.0), "overtaken": (0.0, 20.0),
}  # fmt: skip
"""Mean course of the other vessel and its largest deviation (degrees) by kind of encounter."""
SLOW_VESSEL_SLOTS = {"overtaking": 1, "overtaken": 0}
"""Index of the slow vessel by kind of encounter."""
LARGER_SIZES = (3, 4, 5, 6)
"""Numbers of vessels of encounters with more than two; in half of these encounters the own vessel overtakes."""


def meeting_scenarios(
    course: Tensor, slow: int | None, group: int | Tensor, world: WorldConfig, mask: Tensor | None = None
) -> tuple[WorldConfig, Scenario]:
    """Return P scenarios with vessels whose courses [P, R] (rad) meet in a point, and their world.

    Vessels are those in the mask [P, R], or all, of which one may be slow, with weaker thrusters in the world;
    ``group`` is the index of the group of all scenarios, or [P].
    """
    robots, mask = course.shape[-1], torch.ones_like(course, dtype=torch.bool) if mask is None else mask
    is_slow = torch.arange(robots) == (-1 if slow is None else slow)
    speed = torch.where(is_slow, SLOW_SPEED_SHARE * VESSEL_SPEED, VESSEL_SPEED).to(course.dtype).expand_as(course)
    velocity = speed[..., None] * torch.stack((course.cos(), course.sin()), -1)
    closing = (velocity[:, :, None] - velocity[:, None]).norm(dim=-1)
    both = mask[:, :, None] & mask[:, None] & (closing > 0.0)
    own_time = (
        torch.where(both[:, 0], MIN_DISTANCE_FROM_OWN / closing[:, 0], 0.0).amax(-1, keepdim=True).clamp(*MEETING_TIMES)
    )
    time = torch.maximum(own_time, torch.where(both, MIN_DISTANCE / closing, 0.0).amax((1, 2))[:, None])
    # The meeting is between two control steps, so that no two vessels are at one point when collisions are detected.
    time = 0.5 * (2.0 * time).ceil() + 0.25
    centre = torch.tensor(0.5 * MAP_SIDE, dtype=course.dtype)
    start, goal = starts_and_goals(course, speed * time, torch.full_like(course, GOAL_DISTANCE), centre)
    length, pace = world.scenario.scale, world.scenario.speed_scale
    scenarios = moving_vessels(length * start, length * goal, course, pace * speed, mask, world.vessel)
    scenarios.level = torch.as_tensor(group).expand(len(course)).clone()
    new_world = replace(world, scenario=replace(world.scenario, width=length * MAP_SIDE, height=length * MAP_SIDE))
    if slow is not None:
        new_world = with_slow_vessel(new_world, robots, slow, SLOW_MAX_THRUST)
    return new_world, scenarios


def with_group(scenarios: Scenario, index: int) -> Scenario:
    """Return a copy of scenarios whose ``level`` is the index of a group."""
    grouped = scenarios.clone()
    grouped.level = torch.full_like(scenarios.level, index)
    return grouped


def with_points(world: WorldConfig, robots: int) -> WorldConfig:
    """Return a world of ``robots`` vessels in which all but the first collide only with the first."""
    contact = 2.0 * value_for_robot(world.vessel.radius, 0)
    radius = (contact - POINT_RADIUS, *[POINT_RADIUS] * (robots - 1))
    return replace(world, vessel=replace(world.vessel, radius=radius))


def imazu_scenarios(world: WorldConfig, episodes: int) -> list[tuple[WorldConfig, Scenario]]:
    """Return Imazu's 22 problems, each ``episodes`` times: (world, scenarios) without, then with slow vessels."""
    sets = []
    for slow in (None, 1):
        problems = [row for row, courses in enumerate(IMAZU_COURSES) if (courses[0] == 0) == (slow == 1)]
        groups = torch.tensor(problems).repeat_interleave(episodes)
        rows = [torch.tensor((0.0, *IMAZU_COURSES[row]), dtype=torch.float64) for row in groups.tolist()]
        degrees = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        mask = torch.arange(degrees.shape[-1]) < torch.tensor([[len(row)] for row in rows])
        sets.append(meeting_scenarios(torch.deg2rad(degrees), slow, groups, world, mask))
    return sets


def random_encounters(world: WorldConfig, episodes: int, seed: int) -> list[tuple[WorldConfig, Scenario]]:
    """Return (world, scenarios) of random encounters, ``episodes`` for each group.

    The groups are the kinds in COURSES_BY_KIND, of two vessels, and then the numbers of vessels in LARGER_SIZES.
    """
    generator = torch.Generator().manual_seed(seed)
    sets = []
    for group, (kind, (mean, spread)) in enumerate(COURSES_BY_KIND.items()):
        deviation = 2.0 * torch.rand(episodes, generator=generator, dtype=torch.float64) - 1.0
        other = torch.deg2rad(mean + spread * deviation)
        course = torch.stack((torch.zeros_like(other), other), -1)
        sets.append(meeting_scenarios(course, SLOW_VESSEL_SLOTS.get(kind), group, world))
    for group, robots in enumerate(LARGER_SIZES, start=len(COURSES_BY_KIND)):
        present = torch.ones(episodes, robots, dtype=torch.bool)
        course = draw_courses(present, GeneratorDraws(generator, episodes, torch.float64))
        half = episodes // 2
        sets.append(meeting_scenarios(course[half:], None, group, world))
        if half:
            course[:half, 1] = 0.0
            sets.append(meeting_scenarios(course[:half], 1, group, world))
    return sets
