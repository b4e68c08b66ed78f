"""Encounters given by parameters: one own vessel, and others that would pass it if nobody acted.

The own vessel heads north at VESSEL_SPEED, or at SLOW_SPEED_SHARE of it with weaker thrusters if another vessel
overtakes it. Each other vessel has a kind of encounter and a behaviour, and five continuous parameters: course,
passing distance and speed, initial distance, and time from the onset of the behaviour to the closest approach. Without
any action it would pass the own vessel at the passing distance, at most MAX_PASSING_DISTANCE, which is the range of
the sensors; so the encounters are all those in which vessels would come in sight of each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.levels import DRAWN_BEHAVIOURS
from marinenav_env.scenarios.encounter_sampler import ONSET_LEAD_TIMES
from marinenav_env.state import Scenario
from marinenav_env.stepping.behaviours import INSTANT_BEHAVIOURS
from train_RL_agents.evaluation.suites.encounter_suites import (
    COURSES_BY_KIND,
    SLOW_MAX_THRUST,
    SLOW_SPEED_SHARE,
    VESSEL_SPEED,
)
from train_RL_agents.evaluation.suites.rules_suite import moving_vessels, with_slow_vessel

COURSE, PASSING_SIDE, PACE, DISTANCE, LEAD = range(5)
"""Indices of the continuous parameters of a vessel: course, passing distance, speed, initial distance, and time from
the onset of its behaviour to the closest approach."""
NUM_PARAMETERS = 5
MAX_PASSING_DISTANCE = 20.0
"""Largest distance at which a vessel would pass the own one (m), on either side. Like the numbers below, it is for the
default vessel; for boats with a name, lengths and speeds are scaled."""
INITIAL_DISTANCES = (25.0, 40.0)
"""Range of the initial distance to the own vessel (m)."""
MAX_APPROACH_TIME = 40.0
"""Longest time until the closest approach (s), which may shorten the initial distance."""
SPEED_RANGES = {"overtaking": (0.2, 0.6), "overtaken": (1.5, 2.5)}
"""Ranges of the speed of the other vessel by kind: if the own vessel overtakes it, as a share of the own speed; if it
overtakes, in m/s."""
USUAL_SPEED_RANGE = (1.0, 2.5)
"""Range of the speed of the other vessel in all other kinds (m/s)."""
GOAL_DISTANCE = 40.0
"""Distance of another vessel's goal from its closest approach (m)."""
OWN_GOAL_DISTANCE = 20.0
"""Distance of the own vessel's goal from the last closest approach (m)."""
MAP_SIDE = 300.0
"""Side length of the map (m)."""
SOUTHERN_DISTANCE = 110.0
"""Distance of the own vessel's start from the southern edge of the map (m)."""
MAX_STEPS = 160
"""Control steps after which an episode ends."""
KIND_NAMES = tuple(COURSES_BY_KIND)
_OVERTAKING, _OVERTAKEN = (KIND_NAMES.index(name) for name in ("overtaking", "overtaken"))


class Encounters(NamedTuple):
    """P encounters of up to V other vessels."""

    num_others: Tensor
    """[P] int64 number of other vessels, from 1 to V."""
    cell: Tensor
    """[P, V] int64 kind and behaviour of each other vessel: index of the kind times the number of behaviours, plus
    that of the behaviour."""
    unit: Tensor
    """[P, V, NUM_PARAMETERS] continuous parameters, as shares in [0, 1] of their ranges."""

    def rows(self, chosen: Tensor) -> Encounters:
        """Return the encounters that indices or a bool mask [P] select."""
        return Encounters(*(tensor[chosen] for tensor in self))

    @property
    def kind(self) -> Tensor:
        """Return the index in COURSES_BY_KIND of the kind of encounter of each other vessel, [P, V]."""
        return self.cell // len(DRAWN_BEHAVIOURS)

    @property
    def behaviour(self) -> Tensor:
        """Return the index in DRAWN_BEHAVIOURS of the behaviour of each other vessel, [P, V]."""
        return self.cell % len(DRAWN_BEHAVIOURS)

    @property
    def present(self) -> Tensor:
        """Return which of the slots of other vessels hold a vessel, [P, V] bool."""
        return torch.arange(self.cell.shape[1]) < self.num_others[:, None]


class EncounterBatch(NamedTuple):
    """Encounters that are run in one batch, as scenarios."""

    rows: Tensor
    """[N] indices of the encounters."""
    world: WorldConfig
    scenarios: Scenario


def encounter_batches(encounters: Encounters, world: WorldConfig) -> Iterator[EncounterBatch]:
    """Yield the encounters as scenarios: those in which the own vessel is fast, and those in which it is slow."""
    is_slow = ((encounters.kind == _OVERTAKEN) & encounters.present).any(-1)
    side = MAP_SIDE * world.scenario.scale
    size = replace(world.scenario, width=side, height=side)
    world = replace(world, scenario=size, max_steps=MAX_STEPS)
    for slow in (False, True):
        (rows,) = (is_slow == slow).nonzero(as_tuple=True)
        if not len(rows):
            continue
        chosen, slowed = encounters.rows(rows), world
        if slow:
            slowed = with_slow_vessel(world, 1 + chosen.cell.shape[1], 0, SLOW_MAX_THRUST)
        yield EncounterBatch(rows, slowed, _scenarios(chosen, slow, world))


def _scenarios(encounters: Encounters, slow: bool, world: WorldConfig) -> Scenario:
    """Return the scenarios of encounters; the own vessel is slow in all of them, or in none."""
    unit, kind, present = encounters.unit, encounters.kind, encounters.present
    own_speed = VESSEL_SPEED * SLOW_SPEED_SHARE if slow else VESSEL_SPEED
    course, spread = torch.tensor([*COURSES_BY_KIND.values()], dtype=unit.dtype)[kind].unbind(-1)
    course = (course + spread * (2.0 * unit[..., COURSE] - 1.0)) * (math.pi / 180.0)
    slowest, fastest = torch.tensor(
        [SPEED_RANGES.get(name, USUAL_SPEED_RANGE) for name in KIND_NAMES], dtype=unit.dtype
    )[kind].unbind(-1)
    speed = slowest + (fastest - slowest) * unit[..., PACE]
    speed = torch.where(kind == _OVERTAKING, own_speed * speed, speed)
    ahead = torch.stack((course.cos(), course.sin()), -1)
    own_velocity = torch.tensor([own_speed, 0.0], dtype=unit.dtype)
    closing = speed[..., None] * ahead - own_velocity
    rate = closing.norm(dim=-1)
    across = torch.stack((-closing[..., 1], closing[..., 0]), -1) / rate[..., None]
    passing = MAX_PASSING_DISTANCE * (2.0 * unit[..., PASSING_SIDE] - 1.0)
    low, high = INITIAL_DISTANCES
    distance = low + (high - low) * unit[..., DISTANCE]
    time = ((distance**2 - passing**2).sqrt() / rate).clamp_max(MAX_APPROACH_TIME)
    origin = torch.tensor([SOUTHERN_DISTANCE, 0.5 * MAP_SIDE], dtype=unit.dtype)
    start = origin + passing[..., None] * across - closing * time[..., None]
    run = speed * time + GOAL_DISTANCE
    latest = torch.where(present, time, 0.0).amax(-1)
    own_goal = origin + torch.stack((own_speed * latest + OWN_GOAL_DISTANCE, torch.zeros_like(latest)), -1)
    zero = torch.zeros_like(course[:, :1])
    length, pace = world.scenario.scale, world.scenario.speed_scale
    scenarios = moving_vessels(
        length * torch.cat((origin.expand(len(course), 1, 2), start), 1),
        length * torch.cat((own_goal[:, None], start + run[..., None] * ahead), 1),
        torch.cat((zero, course), 1),
        pace * torch.cat((zero + own_speed, speed), 1),
        torch.nn.functional.pad(present, (1, 0), value=True),
        world.vessel,
    )
    low, high = ONSET_LEAD_TIMES
    onset = (time - (low + (high - low) * unit[..., LEAD])).clamp_min(0.0) * world.scenario.time_scale
    onset = torch.where(torch.isin(encounters.behaviour, INSTANT_BEHAVIOURS), 0.0, onset)
    scenarios.level = torch.zeros_like(encounters.num_others)
    scenarios.scripted = torch.nn.functional.pad(present, (1, 0))
    scenarios.behaviour = torch.nn.functional.pad(torch.where(present, encounters.behaviour, 0), (1, 0))
    scenarios.onset = torch.nn.functional.pad(torch.where(present, onset, 0.0), (1, 0))
    return scenarios
