"""Evaluation suites, by name: groups of scenarios, each in a world of its own.

A new suite is one function here and one line in SUITES.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from marinenav_env import LEVELS, Episode, Level, WorldConfig
from marinenav_env.config import MODERATE, PerRobot
from marinenav_env.scenarios.scenario_file import episodes_of
from marinenav_env.scenarios.varying import SPREAD
from marinenav_env.state import Scenario
from marinenav_env.support.validation import require
from train_RL_agents.evaluation.encounter_suites import (
    FLEETS,
    IMAZU,
    KINDS,
    imazu,
    random_encounters,
)
from train_RL_agents.evaluation.episodes import draw_scenarios
from train_RL_agents.evaluation.rules_suite import ENCOUNTERS, encounter_scenarios
from train_RL_agents.utils.closest import did_you_mean


@dataclass(frozen=True)
class Part:
    """Scenarios that are run in one batch."""

    world: WorldConfig
    """The world that they are in."""
    scenarios: Scenario | Sequence[Episode]
    """N of them; the ``level`` of scenario tensors is the index of their group in the set."""
    only_own: bool = False
    """Whether the policy steers robot 0 alone, and the others keep course and speed."""


@dataclass(frozen=True)
class ScenarioSet:
    """Scenarios that policies are evaluated on."""

    name: str
    """Of the suite; else levels, or scenarios of a file."""
    groups: tuple[str, ...]
    """Names of the groups that figures are reported of."""
    parts: tuple[Part, ...]
    """The scenarios, in one or more batches."""
    seed: int
    """Of the drawing and of the measurement noise."""

    def __len__(self) -> int:
        return sum(len(part.scenarios) for part in self.parts)


Drawn = tuple[tuple[str, ...], tuple[Part, ...]]
"""Names of the groups, and the scenarios."""


@dataclass(frozen=True)
class Suite:
    """A way to make a scenario set."""

    about: str
    """What it is, in one line."""
    make: Callable[[WorldConfig, int, int], Drawn]
    """From a world, the number of episodes and a seed to group names and parts."""
    episodes: int
    """Episodes by default, of each group (of each level in ``noise``)."""
    seed: int | None = 0
    """Seed by default; None: another one each time."""
    fixed: bool = False
    """Whether the number of episodes cannot be chosen."""


def level_names(count: int) -> tuple[str, ...]:
    """Names of levels, counted from 1."""
    return tuple(f"level {number}" for number in range(1, count + 1))


def _levels(world: WorldConfig, episodes: int, seed: int) -> Drawn:
    """The six published levels."""
    drawn = draw_scenarios(world, LEVELS, (episodes,) * len(LEVELS), seed)
    return level_names(len(LEVELS)), (Part(world, drawn),)


def _currents(world: WorldConfig, episodes: int, seed: int) -> Drawn:
    """Strong currents in a crowded map."""
    drawn = draw_scenarios(world, (Level(6, 8, 8, 40.0),), (episodes,), seed)
    return ("6 robots, 8 obstacles, 8 cores",), (Part(world, drawn),)


CROWDS = (10, 20, 30, 40, 50)
"""Robots of the groups of ``crowd``."""


def _crowd(world: WorldConfig, episodes: int, seed: int) -> Drawn:
    """Maps that grow with the fleet: as many robots and obstacles an area as in level 6."""
    parts = []
    for index, robots in enumerate(CROWDS):
        area, growth = world.scenario, math.sqrt(robots / LEVELS[-1].num_robots)
        wide = replace(area, width=growth * area.width, height=growth * area.height)
        own = replace(world, scenario=wide)
        level = Level(robots, 0, robots * LEVELS[-1].num_obstacles // LEVELS[-1].num_robots, 40.0)
        parts.append(Part(own, _of_group(draw_scenarios(own, (level,), (episodes,), seed), index)))
    return tuple(f"{robots} robots" for robots in CROWDS), tuple(parts)


NOISE = (0, 1, 2, 4)
"""Factors of the groups of ``noise``."""


def _noise(world: WorldConfig, episodes: int, seed: int) -> Drawn:
    """The same scenarios of all levels with more and less noise on positions and velocities."""
    drawn = draw_scenarios(world, LEVELS, (episodes,) * len(LEVELS), seed)
    parts = []
    for index, factor in enumerate(NOISE):
        sensor = world.sensor
        noisy = replace(sensor, pos_std=_times(sensor.pos_std, factor), vel_std=_times(sensor.vel_std, factor))
        parts.append(Part(replace(world, sensor=noisy), _of_group(drawn, index)))
    return tuple(f"noise x {factor}" for factor in NOISE), tuple(parts)


VESSELS = 2.0
"""Mass, inertia and thrust of the vessels of ``vessels`` are up to this factor larger or less."""


def _vessels(world: WorldConfig, episodes: int, seed: int) -> Drawn:
    """All levels with vessels whose mass (and inertia) and thrust are drawn, each by itself."""
    drawn = draw_scenarios(world, LEVELS, (episodes,) * len(LEVELS), seed)
    generator = torch.Generator().manual_seed(seed)
    factors = VESSELS ** (2.0 * torch.rand(2, *drawn.robot_mask.shape, generator=generator) - 1.0)
    usual, given = world.vessel, []
    for episode, heavy, strong in zip(episodes_of(drawn, world, seed), *factors.tolist(), strict=True):
        heavy, strong = (each[: len(episode.start)] for each in (heavy, strong))
        own = replace(
            usual,
            m=_each(usual.m, heavy),
            Izz=_each(usual.Izz, heavy),
            min_thrust=_each(usual.min_thrust, strong),
            max_thrust=_each(usual.max_thrust, strong),
        )
        given.append(replace(episode, world=replace(episode.world, vessel=own)))
    return ("random vessels",), (Part(world, given),)


def _weather(world: WorldConfig, episodes: int, seed: int) -> Drawn:
    """All levels in moderate wind and waves."""
    drawn = draw_scenarios(world, LEVELS, (episodes,) * len(LEVELS), seed)
    generator = torch.Generator().manual_seed(seed)
    chance = torch.rand(len(drawn), 2, generator=generator, dtype=torch.float64)
    given = []
    for number, (episode, (wind, waves)) in enumerate(
        zip(episodes_of(drawn, world, seed), chance.tolist(), strict=True)
    ):
        towards = 2.0 * math.pi * wind
        own = replace(
            MODERATE,
            delay=0,
            missed=0.0,
            wind_direction=towards,
            wave_seed=number,
            wave_direction=towards + SPREAD * (2.0 * waves - 1.0),
        )
        given.append(replace(episode, world=replace(episode.world, weather=own)))
    return ("wind and waves",), (Part(world, given),)


def _faults(world: WorldConfig, episodes: int, seed: int) -> Drawn:
    """All levels with late commands and missed detections."""
    drawn = draw_scenarios(world, LEVELS, (episodes,) * len(LEVELS), seed)
    calm = replace(MODERATE, wind_speed=0.0, wave_height=0.0)
    return ("late and missed",), (Part(replace(world, weather=calm), _of_group(drawn, 0)),)


def _each(value: PerRobot, factors: Sequence[float]) -> tuple[float, ...]:
    """A value of every robot, times a factor each."""
    values = value if isinstance(value, tuple) else (value,) * len(factors)
    return tuple(one * factor for one, factor in zip(values, factors, strict=False))


def _rules(world: WorldConfig, episodes: int, seed: int) -> Drawn:
    """Encounters of two vessels."""
    parts = []
    for index, encounter in enumerate(ENCOUNTERS.values()):
        drawn = encounter_scenarios(encounter, world.vessel, episodes, seed + index)
        # The vessel that is to be overtaken is given weaker thrusters.
        strongest: PerRobot = world.vessel.max_thrust
        if encounter.other_thrust is not None:
            strongest = (max(strongest) if isinstance(strongest, tuple) else strongest, encounter.other_thrust)
        own = replace(world, vessel=replace(world.vessel, max_thrust=strongest))
        parts.append(Part(own, _of_group(drawn, index)))
    return tuple(ENCOUNTERS), tuple(parts)


GHOST = 0.01
"""Collision radius of the others where the own vessel alone is controlled (m): they meet at a point.
That of the own vessel is larger by as much as theirs are smaller."""


def _imazu(world: WorldConfig, episodes: int, seed: int, only_own: bool = False) -> Drawn:
    """Imazu's problems; the seed is that of the measurement noise alone."""
    parts = tuple(_meeting(*each, only_own) for each in imazu(world, episodes))
    return tuple(f"case {number}" for number in range(1, len(IMAZU) + 1)), parts


def _encounters(world: WorldConfig, episodes: int, seed: int, only_own: bool = False) -> Drawn:
    """Random encounters of two to six vessels."""
    parts = tuple(_meeting(*each, only_own) for each in random_encounters(world, episodes, seed))
    return (*KINDS, *(f"{robots} vessels" for robots in FLEETS)), parts


def _meeting(world: WorldConfig, scenarios: Scenario, only_own: bool) -> Part:
    """Scenarios as a part of a suite; vessels that are not controlled hit the own vessel only."""
    if only_own:
        usual, others = world.vessel.radius, scenarios.robot_mask.shape[-1] - 1
        contact = 2.0 * (usual[0] if isinstance(usual, tuple) else usual)
        radius = (contact - GHOST, *[GHOST] * others)
        world = replace(world, vessel=replace(world.vessel, radius=radius))
    return Part(world, scenarios, only_own)


def _of_group(scenarios: Scenario, index: int) -> Scenario:
    """The same scenarios, as a group of that index."""
    marked = scenarios.clone()
    marked.level = torch.full_like(scenarios.level, index)
    return marked


def _times(value: PerRobot, factor: float) -> PerRobot:
    if isinstance(value, tuple):
        return tuple(factor * each for each in value)
    return factor * value


RULES = "rules"
"""The suite that is scored by the rules of the sea, too."""

SUITES: dict[str, Suite] = {
    "paper": Suite("the fixed 60: ten scenarios of each published level", _levels, 10, fixed=True),
    "fresh": Suite("the published levels, scenarios never seen before", _levels, 100, None),
    "currents": Suite("6 robots among 8 obstacles and 8 vortex cores", _currents, 60),
    "crowd": Suite("10 to 50 robots on maps that grow with their number", _crowd, 10),
    "noise": Suite("the published levels with sensor noise x 0, 1, 2 and 4", _noise, 10),
    "vessels": Suite("the levels, vessels of mass and thrust x 0.5 to 2", _vessels, 100),
    "weather": Suite("the levels in moderate wind and waves", _weather, 100),
    "faults": Suite("the levels with late commands and missed detections", _faults, 100),
    RULES: Suite("two vessels head-on, crossing and overtaking, scored by the rules", _rules, 25),
    "imazu": Suite("Imazu's 22 problems, scored by safety, rules and delay", _imazu, 20),
    "encounters": Suite("random encounters of 2 to 6 vessels, scored likewise", _encounters, 25),
    "imazu_own": Suite("imazu, the others keeping course and speed", partial(_imazu, only_own=True), 20),
    "encounters_own": Suite("encounters, the others keeping course and speed", partial(_encounters, only_own=True), 25),
}
ENCOUNTER_SUITES = ("imazu", "encounters", "imazu_own", "encounters_own")
"""Suites that are scored by the role of every vessel (see seamanship)."""


def make_set(name: str, world: WorldConfig, episodes: int | None = None, seed: int | None = None) -> ScenarioSet:
    """Draw the scenarios of a suite.

    Args:
        name: of the suite.
        world: the world that it varies.
        episodes: how many, see Suite; its default if None.
        seed: of the drawing and of the measurement noise; its default if None.

    Returns:
        The same scenarios for the same arguments, if there is a seed.

    Raises:
        ConfigError: when there is no such suite, its size is fixed, or the map is too small.
    """
    allowed = f"one of {', '.join(SUITES)}{did_you_mean(name, SUITES)}"
    require(name in SUITES, "--suite", name, allowed)
    suite = SUITES[name]
    fine = episodes is None or not suite.fixed
    require(fine, "--episodes", episodes, f"left out: {name} is a fixed set of {suite.episodes}")
    seed = suite.seed if seed is None else seed
    seed = secrets.randbelow(2**31) if seed is None else seed
    groups, parts = suite.make(world, suite.episodes if episodes is None else episodes, seed)
    return ScenarioSet(name, groups, parts, seed)
