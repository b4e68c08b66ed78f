"""Encounters of several vessels whose courses meet: Imazu's problems, and random ones.

Imazu (1987), as tabulated by Sawada, Sato and Majima, "Automatic ship collision avoidance using
deep reinforcement learning with LSTM in continuous action spaces", J. Mar. Sci. Technol. 26 (2021),
doi 10.1007/s00773-020-00755-0; the courses are those of the environment MMG_Imazu of the public
repository MarWaltz/TUD_RL, in which 5 and 8, and 15 and 22, coincide.

Robot 0, the own vessel, heads north; if no vessel acts, all are at one point at one time. Ships of
those problems become vessels of this world at 2 m/s, slow ones at 0.39 of it with weaker
thrusters. The time to the meeting point is such that every other vessel starts 25 m from the own
one, beyond the 20 m at which vessels see each other, but it is from 12 s to 30 s: vessels on
nearly parallel courses are in sight from the start, at 10 m or more.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from marinenav_env.config import PerRobot, WorldConfig
from marinenav_env.scenarios.draws import GeneratorDraws
from marinenav_env.scenarios.encounters import draw_courses, meeting
from marinenav_env.state import Scenario
from train_RL_agents.evaluation.rules_suite import in_motion

IMAZU: tuple[tuple[float, ...], ...] = (
    (180,), (270,), (0,), (45,), (180, -90), (-10, -45), (0, -45), (180, -90), (-30, -90),
    (-90, 15), (90, -30), (180, -45, -10), (180, 10, 45), (-10, -45, -90), (0, -45, -90),
    (45, 90, -90), (0, 10, -45), (-135, -15, -30), (15, -15, -135), (0, -15, -90), (-15, 15, -90),
    (0, -45, -90),
)  # fmt: skip
"""Courses of the other vessels of each problem (degrees from north); one that goes north is
slow."""
SPEED, SLOW_SHARE, SLOW_THRUST = 2.0, 0.39, 120.0
"""Speed (m/s), the share of it that slow vessels make, and their largest thrust of a side (N)."""
APART, TIMES = 25.0, (12.0, 30.0)
"""Distance of the others from the own vessel at first (m), and range of the time to meet (s)."""
CLEAR = 10.0
"""Least distance of any two vessels at first (m)."""
RUN, SIDE = 20.0, 124.0
"""Distance from the meeting point to the goals, and side of the map (m)."""
KINDS = {
    "head-on": (180.0, 10.0), "crossing from starboard": (-90.0, 50.0),
    "crossing from port": (90.0, 50.0), "overtaking": (0.0, 20.0), "overtaken": (0.0, 20.0),
}  # fmt: skip
"""Encounters of two vessels: course of the other one, and its largest deviation (degrees)."""
SLOW_SLOT = {"overtaking": 1, "overtaken": 0}
"""Which vessel is slow."""
FLEETS = (3, 4, 5, 6)
"""Vessels of the larger encounters; in every second one the own vessel overtakes."""


def scenarios_of(
    course: Tensor, mask: Tensor, slow: int | None, group: int | Tensor, world: WorldConfig
) -> tuple[WorldConfig, Scenario]:
    """Place vessels so that their courses meet.

    Args:
        course: [P, R] (rad).
        mask: [P, R] bool, which vessels there are.
        slow: the slot of the slow vessel; None: there is none.
        group: index, or [P], of their group in the set.
        world: the world that they are put into.

    Returns:
        The world, with its larger map and the thrusters of the slow vessel, and P scenarios.
    """
    robots = course.shape[-1]
    is_slow = torch.arange(robots) == (-1 if slow is None else slow)
    speed = torch.where(is_slow, SLOW_SHARE * SPEED, SPEED).to(course.dtype).expand_as(course)
    velocity = speed[..., None] * torch.stack((course.cos(), course.sin()), -1)
    closing = (velocity[:, :, None] - velocity[:, None]).norm(dim=-1)
    both = mask[:, :, None] & mask[:, None] & (closing > 0.0)
    own = torch.where(both[:, 0], APART / closing[:, 0], 0.0).amax(-1, keepdim=True).clamp(*TIMES)
    time = torch.maximum(own, torch.where(both, CLEAR / closing, 0.0).amax((1, 2))[:, None])
    # Between two control steps: there, no two are at one point when collisions are told.
    time = 0.5 * (2.0 * time).ceil() + 0.25
    centre = torch.tensor(0.5 * SIDE, dtype=course.dtype)
    start, goal = meeting(course, speed * time, torch.full_like(course, RUN), centre)
    drawn = in_motion(start, goal, course, speed, mask, world.vessel)
    drawn.level = torch.as_tensor(group).expand(len(course)).clone()
    wide = replace(world, scenario=replace(world.scenario, width=SIDE, height=SIDE))
    if slow is not None:
        usual = world.vessel.max_thrust
        strongest = max(usual) if isinstance(usual, tuple) else usual
        thrust: PerRobot = tuple(SLOW_THRUST if each else strongest for each in is_slow.tolist())
        wide = replace(wide, vessel=replace(world.vessel, max_thrust=thrust))
    return wide, drawn


def imazu(world: WorldConfig, episodes: int) -> list[tuple[WorldConfig, Scenario]]:
    """The 22 problems, each so many times; worlds and scenarios without and with slow vessels."""
    drawn = []
    for slow in (None, 1):
        chosen = [row for row, others in enumerate(IMAZU) if (others[0] == 0) == (slow == 1)]
        groups = torch.tensor(chosen).repeat_interleave(episodes)
        rows = [torch.tensor((0.0, *IMAZU[row]), dtype=torch.float64) for row in groups.tolist()]
        degrees = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        mask = torch.arange(degrees.shape[-1]) < torch.tensor([[len(row)] for row in rows])
        drawn.append(scenarios_of(torch.deg2rad(degrees), mask, slow, groups, world))
    return drawn


def random_encounters(world: WorldConfig, episodes: int, seed: int) -> list[tuple[WorldConfig, Scenario]]:
    """Encounters of two vessels by KINDS, then of FLEETS; so many of each."""
    generator = torch.Generator().manual_seed(seed)
    drawn = []
    for group, (kind, (middle, spread)) in enumerate(KINDS.items()):
        off = 2.0 * torch.rand(episodes, generator=generator, dtype=torch.float64) - 1.0
        other = torch.deg2rad(middle + spread * off)
        course = torch.stack((torch.zeros_like(other), other), -1)
        drawn.append(_all_there(course, SLOW_SLOT.get(kind), group, world))
    for group, robots in enumerate(FLEETS, start=len(KINDS)):
        present = torch.ones(episodes, robots, dtype=torch.bool)
        course = draw_courses(present, GeneratorDraws(generator, episodes, torch.float64))
        half = episodes // 2
        drawn.append(_all_there(course[half:], None, group, world))
        if half:
            course[:half, 1] = 0.0
            drawn.append(_all_there(course[:half], 1, group, world))
    return drawn


def _all_there(course: Tensor, slow: int | None, group: int, world: WorldConfig) -> tuple[WorldConfig, Scenario]:
    """``scenarios_of`` without empty slots."""
    return scenarios_of(course, torch.ones_like(course, dtype=torch.bool), slow, group, world)
