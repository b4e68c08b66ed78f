"""Encounters of one vessel, which the policy controls, with others that misbehave or are steered by other policies.

The encounters of every group are the same: the own vessel meets one other vessel in every kind of encounter (see
``encounter_suites.COURSES_BY_KIND``), or two or three others. Groups differ in what the others do.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from marinenav_env import WorldConfig
from marinenav_env.levels import BEHAVIOURS
from marinenav_env.scenarios.draws import GeneratorDraws
from marinenav_env.scenarios.encounter_sampler import ONSET_LEAD_TIMES, draw_courses
from marinenav_env.state import Scenario
from marinenav_env.stepping.behaviours import INSTANT_BEHAVIOURS
from train_RL_agents.evaluation.suites.encounter_suites import (
    COURSES_BY_KIND,
    MAP_SIDE,
    SLOW_VESSEL_SLOTS,
    meeting_scenarios,
    with_group,
    with_points,
)
from train_RL_agents.evaluation.suites.sets import Part

BEHAVIOUR_GROUPS: dict[str, tuple[str, ...]] = {
    "keeps course and speed": ("keep",),
    "acts late": ("act_late",),
    "turns the wrong way": ("turn_wrong",),
    "stops": ("stop",),
    "speeds up": ("speed_up",),
    "loses a thruster": ("lose_left", "lose_right"),
    "sees nothing": ("see_nothing",),
}
"""Behaviours of the other vessels by group; in a group with two, encounters and vessels alternate between them."""
POLICY_GROUPS = {"steered by orca": "orca", "steered by ppo": "ppo", "steered by a blind ppo": "blind:ppo"}
"""Names of the policies that steer the other vessels by group, see policies.shipped_policy."""
GROUP_NAMES = (*BEHAVIOUR_GROUPS, *POLICY_GROUPS)
SIZES_ABOVE_TWO = (3, 4)
"""Numbers of vessels in the encounters with more than two vessels."""
MAX_STEPS = 200
"""Control steps after which an episode ends; the goals are reached in about half of them."""


def misbehaving_scenarios(world: WorldConfig, episodes: int, seed: int) -> tuple[tuple[str, ...], tuple[Part, ...]]:
    """Return the names of the groups, and ``episodes`` encounters of each."""
    generator = torch.Generator().manual_seed(seed)
    course, mask, kind = _draw_courses(episodes, generator)
    lead = torch.rand(course.shape, generator=generator, dtype=course.dtype)
    # In encounters of more than two vessels, none is slow.
    slots = [*map(SLOW_VESSEL_SLOTS.get, COURSES_BY_KIND), *[None] * len(SIZES_ABOVE_TWO)]
    drawn: list[Part] = []
    for slow in (None, 1, 0):
        rows = torch.tensor([slots[number] == slow for number in kind])
        if not rows.any():
            continue
        robots = int(mask[rows].sum(-1).max())
        new_world, scenarios = meeting_scenarios(course[rows, :robots], slow, 0, world, mask[rows, :robots])
        new_world = replace(new_world, max_steps=MAX_STEPS)
        behaving = [
            _with_behaviour(scenarios, group, codes, lead[rows, :robots], new_world)
            for group, codes in enumerate(BEHAVIOUR_GROUPS.values())
        ]
        drawn.append(Part(new_world, Scenario.cat(behaving)))
        steered = with_points(new_world, robots)
        for group, name in enumerate(POLICY_GROUPS.values(), start=len(BEHAVIOUR_GROUPS)):
            drawn.append(Part(steered, with_group(scenarios, group), only_own=True, others=name))
    return GROUP_NAMES, tuple(drawn)


def _draw_courses(episodes: int, generator: torch.Generator) -> tuple[Tensor, Tensor, list[int]]:
    """Return the courses [N, R] (rad) and the mask [N, R] of the vessels, and the index of each encounter's kind."""
    most = SIZES_ABOVE_TWO[-1]
    kind = [number % (len(COURSES_BY_KIND) + len(SIZES_ABOVE_TWO)) for number in range(episodes)]
    present = torch.ones(episodes, most, dtype=torch.bool)
    course = draw_courses(present, GeneratorDraws(generator, episodes, torch.float64))
    deviation = 2.0 * torch.rand(episodes, generator=generator, dtype=torch.float64) - 1.0
    sizes = []
    ranges = list(COURSES_BY_KIND.values())
    for row, number in enumerate(kind):
        if number < len(ranges):
            mean, spread = ranges[number]
            course[row, 1] = torch.deg2rad(mean + spread * deviation[row])
        sizes.append(2 if number < len(ranges) else SIZES_ABOVE_TWO[number - len(ranges)])
    return course, torch.arange(most) < torch.tensor(sizes)[:, None], kind


def _with_behaviour(
    scenarios: Scenario, group: int, names: tuple[str, ...], lead: Tensor, world: WorldConfig
) -> Scenario:
    """Return P scenarios as a group whose vessels misbehave, all but the first; ``lead`` [P, R] in [0, 1] sets when."""
    behaving = with_group(scenarios, group)
    present = scenarios.robot_mask
    is_other = present & (torch.arange(present.shape[-1]) > 0)
    codes = torch.tensor([BEHAVIOURS.index(name) for name in names])
    turn = torch.arange(len(present))[:, None] + torch.arange(present.shape[-1])
    speed = scenarios.velocity[:, :1, :2].norm(dim=-1)
    time = (scenarios.start[:, :1] - 0.5 * world.scenario.scale * MAP_SIDE).norm(dim=-1) / speed
    low, high = (limit * world.scenario.time_scale for limit in ONSET_LEAD_TIMES)
    onset = (time - (low + (high - low) * lead)).clamp_min(0.0)
    behaving.scripted = is_other
    behaving.behaviour = torch.where(is_other, codes[turn % len(codes)], 0)
    begins_later = is_other & ~torch.isin(behaving.behaviour, INSTANT_BEHAVIOURS)
    behaving.onset = torch.where(begins_later, onset, 0.0)
    return behaving
