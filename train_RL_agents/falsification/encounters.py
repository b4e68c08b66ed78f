"""Encounters that a search chooses from: one own vessel, and others that behave as their scenario says.

The own vessel heads north at SPEED, or at SLOW_SHARE of it with weaker thrusters if another vessel overtakes it. Each
other vessel has a kind of encounter and a behaviour, and five continuous parameters: course, passing distance and
speed, initial distance, and time from the onset of the behaviour to the closest approach. Without any action it would
pass the own vessel at the passing distance, at most PASSING, which is the range of the sensors; so the encounters are
all those in which vessels would come in sight of each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.levels import BEHAVIOURS
from marinenav_env.scenarios.encounter_sampler import ONSET_LEAD_TIMES
from marinenav_env.state import Scenario
from marinenav_env.support.validation import require
from train_RL_agents.evaluation.encounter_suites import KINDS, SLOW_SHARE, SLOW_THRUST, SPEED
from train_RL_agents.evaluation.rules_suite import in_motion, slow_thrust, with_slow_vessel
from train_RL_agents.evaluation.unruly_suite import INSTANT

COURSE, PASSING_SIDE, PACE, DISTANCE, LEAD = range(5)
"""Indices of the continuous parameters of a vessel."""
PARAMETERS = 5
CELLS = len(KINDS) * len(BEHAVIOURS)
"""Number of cells, which are pairs of a kind of encounter and a behaviour; the behaviour changes fastest."""
MOST_VESSELS = 6
"""Largest number of vessels of an encounter."""
PASSING = 20.0
"""Largest distance at which a vessel would pass the own one (m), on either side. Like the numbers below, it is for
published vessels; for boats with a name, lengths and speeds are scaled."""
DISTANCES, LONGEST = (25.0, 40.0), 40.0
"""Range of the initial distance (m), which the longest time until the closest approach (s) may shorten."""
PACES = {"overtaking": (0.2, 0.6), "overtaken": (1.5, 2.5)}
"""Ranges of the speed of the other vessel by kind: if the own vessel overtakes it, as a share of the own speed; if it
overtakes, in m/s."""
USUAL_PACES = (1.0, 2.5)
"""Range of the speed of the other vessel in all other kinds (m/s)."""
BEYOND, OWN_BEYOND = 40.0, 20.0
"""Distances to the goals: of the others from their closest approach, of the own vessel from the last of these (m)."""
SIDE, SOUTH = 300.0, 110.0
"""Side length of the map, and distance of the own vessel's start from the southern edge (m)."""
MAX_STEPS = 160
"""Control steps after which an episode ends."""
PER_SIDE = 4
"""Number of equal parts of a continuous parameter's range; failures within one part count as the same."""
_NAMES = tuple(KINDS)
_OVERTAKING, _OVERTAKEN = (_NAMES.index(name) for name in ("overtaking", "overtaken"))
Rows = TypeVar("Rows", bound=tuple[Any, ...])


class Encounters(NamedTuple):
    """P encounters of up to V other vessels."""

    others: Tensor
    """[P] int64 number of other vessels, from 1 to V."""
    cell: Tensor
    """[P, V] int64 kind and behaviour of each other vessel, an index below CELLS."""
    unit: Tensor
    """[P, V, PARAMETERS] continuous parameters, as shares in [0, 1] of their ranges."""

    def rows(self, chosen: Tensor) -> Encounters:
        """Return the encounters that indices or a bool mask [P] select."""
        return Encounters(*(tensor[chosen] for tensor in self))

    @property
    def kind(self) -> Tensor:
        """Return the index in KINDS of the kind of encounter of each other vessel, [P, V]."""
        return self.cell // len(BEHAVIOURS)

    @property
    def behaviour(self) -> Tensor:
        """Return the index in BEHAVIOURS of the behaviour of each other vessel, [P, V]."""
        return self.cell % len(BEHAVIOURS)

    @property
    def present(self) -> Tensor:
        """Return which of the slots of other vessels hold a vessel, [P, V] bool."""
        return torch.arange(self.cell.shape[1]) < self.others[:, None]


def joined(several: Sequence[Rows]) -> Rows:
    """Concatenate several batches of encounters, or of their outcomes."""
    return type(several[0])(*(torch.cat(tensors) for tensors in zip(*several, strict=True)))


@dataclass(frozen=True)
class Space:
    """Range of the encounters that a search may choose."""

    vessels: int = 3
    """Largest number of vessels, the own one included."""
    behaviours: tuple[str, ...] = BEHAVIOURS
    """Possible behaviours of the other vessels, from levels.BEHAVIOURS."""

    def __post_init__(self) -> None:
        require(2 <= self.vessels <= MOST_VESSELS, "--vessels", self.vessels, f"from 2 to {MOST_VESSELS}")
        are_known = len(self.behaviours) > 0 and {*self.behaviours} <= {*BEHAVIOURS}
        require(are_known, "--behaviours", " ".join(self.behaviours), f"one or more of {', '.join(BEHAVIOURS)}")

    @property
    def others(self) -> int:
        """Return the largest number V of other vessels."""
        return self.vessels - 1

    @property
    def prior(self) -> Tensor:
        """Return the probability [CELLS] of each pair of kind and behaviour in random encounters; 0 if not allowed."""
        allowed = torch.tensor([name in self.behaviours for name in BEHAVIOURS]).repeat(len(KINDS)).double()
        return allowed / allowed.sum()

    def draw(self, episodes: int, generator: torch.Generator) -> Encounters:
        """Return random encounters: every parameter is drawn uniformly and independently."""
        shape = (episodes, self.others)
        return Encounters(
            torch.randint(1, self.vessels, shape[:1], generator=generator),
            torch.multinomial(self.prior, episodes * self.others, True, generator=generator).view(shape),
            torch.rand(*shape, PARAMETERS, generator=generator, dtype=torch.float64),
        )


class Placed(NamedTuple):
    """Encounters that are run in one batch, as scenarios."""

    rows: Tensor
    """[N] indices of the encounters."""
    world: WorldConfig
    scenarios: Scenario


def place(encounters: Encounters, world: WorldConfig) -> Iterator[Placed]:
    """Yield the encounters as scenarios: those in which the own vessel is fast, and those in which it is slow.

    Args:
        encounters: P encounters.
        world: world from which the worlds of the scenarios are derived.
    """
    is_slow = ((encounters.kind == _OVERTAKEN) & encounters.present).any(-1)
    side = SIDE * world.scenario.scale
    size = replace(world.scenario, width=side, height=side)
    world = replace(world, scenario=size, max_steps=MAX_STEPS)
    for slow in (False, True):
        (rows,) = (is_slow == slow).nonzero(as_tuple=True)
        if not len(rows):
            continue
        chosen, slowed = encounters.rows(rows), world
        if slow:
            slowed = with_slow_vessel(world, 1 + chosen.cell.shape[1], 0, slow_thrust(world, SLOW_THRUST))
        yield Placed(rows, slowed, _scenarios(chosen, slow, world))


def _scenarios(encounters: Encounters, slow: bool, world: WorldConfig) -> Scenario:
    """Return the scenarios of encounters; the own vessel is slow in all of them, or in none."""
    unit, kind, present = encounters.unit, encounters.kind, encounters.present
    own_speed = SPEED * SLOW_SHARE if slow else SPEED
    course, speed = _courses(kind, unit[..., COURSE]), _speeds(kind, unit[..., PACE], own_speed)
    ahead = torch.stack((course.cos(), course.sin()), -1)
    own_velocity = torch.tensor([own_speed, 0.0], dtype=unit.dtype)
    closing = speed[..., None] * ahead - own_velocity
    rate = closing.norm(dim=-1)
    across = torch.stack((-closing[..., 1], closing[..., 0]), -1) / rate[..., None]
    passing = PASSING * (2.0 * unit[..., PASSING_SIDE] - 1.0)
    low, high = DISTANCES
    distance = low + (high - low) * unit[..., DISTANCE]
    time = ((distance**2 - passing**2).sqrt() / rate).clamp_max(LONGEST)
    origin = torch.tensor([SOUTH, 0.5 * SIDE], dtype=unit.dtype)
    start = origin + passing[..., None] * across - closing * time[..., None]
    run = speed * time + BEYOND
    latest = torch.where(present, time, 0.0).amax(-1)
    own_goal = origin + torch.stack((own_speed * latest + OWN_BEYOND, torch.zeros_like(latest)), -1)
    zero = torch.zeros_like(course[:, :1])
    length, pace = world.scenario.scale, world.scenario.speed_scale
    scenarios = in_motion(
        length * torch.cat((origin.expand(len(course), 1, 2), start), 1),
        length * torch.cat((own_goal[:, None], start + run[..., None] * ahead), 1),
        torch.cat((zero, course), 1),
        pace * torch.cat((zero + own_speed, speed), 1),
        torch.nn.functional.pad(present, (1, 0), value=True),
        world.vessel,
    )
    low, high = ONSET_LEAD_TIMES
    onset = (time - (low + (high - low) * unit[..., LEAD])).clamp_min(0.0) * world.scenario.time_scale
    onset = torch.where(torch.isin(encounters.behaviour, INSTANT), 0.0, onset)
    scenarios.level = torch.zeros_like(encounters.others)
    scenarios.scripted = torch.nn.functional.pad(present, (1, 0))
    scenarios.behaviour = torch.nn.functional.pad(torch.where(present, encounters.behaviour, 0), (1, 0))
    scenarios.onset = torch.nn.functional.pad(torch.where(present, onset, 0.0), (1, 0))
    return scenarios


def _courses(kind: Tensor, unit: Tensor) -> Tensor:
    """Return the courses of vessels (rad) from their kinds of encounter and their parameters in [0, 1]."""
    ranges = torch.tensor([*KINDS.values()], dtype=unit.dtype)[kind]
    return (ranges[..., 0] + ranges[..., 1] * (2.0 * unit - 1.0)) * (math.pi / 180.0)


def _speeds(kind: Tensor, unit: Tensor, own_speed: float) -> Tensor:
    """Return the speeds of vessels (m/s) from their kinds of encounter and their parameters in [0, 1]."""
    ranges = torch.tensor([PACES.get(name, USUAL_PACES) for name in _NAMES], dtype=unit.dtype)[kind]
    value = ranges[..., 0] + (ranges[..., 1] - ranges[..., 0]) * unit
    return torch.where(kind == _OVERTAKING, own_speed * value, value)


def signatures(encounters: Encounters, hit: Tensor) -> Tensor:
    """Return signatures [P, 7], which are equal for encounters that count as the same.

    A signature is the number of vessels, kind and behaviour of the vessel that is hit, and the quarters of the ranges
    of its course, passing distance, speed and time from the onset.

    Args:
        encounters: P encounters.
        hit: [P] index, among the others, of the vessel that is hit.
    """
    row = torch.arange(len(hit))
    quarter = (PER_SIDE * encounters.unit[row, hit]).to(torch.int64).clamp_max(PER_SIDE - 1)
    behaviour = encounters.behaviour[row, hit]
    lead = torch.where(torch.isin(behaviour, INSTANT), 0, quarter[:, LEAD])
    columns = (encounters.others, encounters.kind[row, hit], behaviour, quarter[:, COURSE], quarter[:, PASSING_SIDE])
    return torch.stack((*columns, quarter[:, PACE], lead), -1)


def describe(encounters: Encounters, hit: Tensor) -> list[str]:
    """Return a description of each encounter: kind and behaviour of the vessel that is hit, and number of vessels."""
    row = torch.arange(len(hit))
    columns = (encounters.kind[row, hit], encounters.behaviour[row, hit], encounters.others)
    return [
        f"{_NAMES[kind]}, {BEHAVIOURS[code]}, {count + 1} vessels"
        for kind, code, count in zip(*(column.tolist() for column in columns), strict=True)
    ]
