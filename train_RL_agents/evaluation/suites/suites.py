"""Evaluation suites by name: groups of scenarios with their worlds.

A new suite is one function here and one line in SUITES.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from marinenav_env import LEVELS, Level, WorldConfig
from marinenav_env.config import MODERATE_WEATHER, PerRobot
from marinenav_env.levels import NAMED_LEVELS
from marinenav_env.scenarios.dnv import ENCOUNTER_ABBREVIATIONS
from marinenav_env.scenarios.episode import episodes_from_scenarios
from marinenav_env.scenarios.reading import packaged_harbours, packaged_situations
from marinenav_env.scenarios.situations import scaled_episode
from marinenav_env.scenarios.varying import MAX_WAVE_DEVIATION
from marinenav_env.state import Scenario
from marinenav_env.support.validation import require
from marinenav_env.vessels import scaled_level, value_for_robot
from train_RL_agents.evaluation.running.episodes import draw_scenarios
from train_RL_agents.evaluation.suites.candidates import GROUPS, LARGER_GROUPS, draw_candidates
from train_RL_agents.evaluation.suites.encounter_suites import (
    COURSES_BY_KIND,
    IMAZU_COURSES,
    LARGER_SIZES,
    imazu_scenarios,
    random_encounters,
    with_group,
    with_points,
)
from train_RL_agents.evaluation.suites.misbehaving_suite import misbehaving_scenarios
from train_RL_agents.evaluation.suites.rules_suite import ENCOUNTERS, encounter_scenarios, with_slow_vessel
from train_RL_agents.evaluation.suites.sets import Part, ScenarioSet, Scoring
from train_RL_agents.utils.closest import did_you_mean

GroupsAndParts = tuple[tuple[str, ...], tuple[Part, ...]]
"""Names of the groups of a suite, and its scenarios in parts, each of which is run as one batch."""


@dataclass(frozen=True)
class Suite:
    """Factory of a scenario set, with its defaults."""

    about: str
    """Description in one line."""
    make: Callable[[WorldConfig, int, int], GroupsAndParts]
    """Function from a world, a number of episodes and a seed to the names of the groups, and the scenarios as parts."""
    episodes: int
    """Default number of episodes per group; per level in ``noise``, ``vessels``, ``weather`` and ``faults``, and per
    situation in ``dnv``."""
    seed: int | None = 0
    """Default seed; None: a random one."""
    is_fixed: bool = False
    """True if the number of episodes cannot be chosen."""
    scoring: Scoring = "episodes"


def level_names(count: int) -> tuple[str, ...]:
    """Return the names of ``count`` levels: "level 1" and so on."""
    return tuple(f"level {number}" for number in range(1, count + 1))


def scaled_levels(world: WorldConfig, levels: tuple[Level, ...] = LEVELS) -> tuple[Level, ...]:
    """Return levels scaled by the factors of a world on lengths and speeds."""
    return tuple(scaled_level(level, world.scenario.scale, world.scenario.speed_scale) for level in levels)


def _make_levels(world: WorldConfig, episodes: int, seed: int) -> GroupsAndParts:
    """Return scenarios of the six published levels."""
    drawn = draw_scenarios(world, scaled_levels(world), (episodes,) * len(LEVELS), seed)
    return level_names(len(LEVELS)), (Part(world, drawn),)


MAX_LONG_BATCH = 1_500
"""Largest number of episodes in a batch of ``long``; such a batch fits into a CPU cache."""


def _make_long(world: WorldConfig, episodes: int, seed: int) -> GroupsAndParts:
    """Return scenarios of the six published levels in batches, each of one level and with its own seeds."""
    levels = scaled_levels(world)
    sizes = [min(MAX_LONG_BATCH, episodes - first) for first in range(0, episodes, MAX_LONG_BATCH)]
    batches = [(index, size) for index in range(len(levels)) for size in sizes]
    seeds = torch.randint(2**31, (len(batches), 2), generator=torch.Generator().manual_seed(seed)).tolist()
    parts = [
        Part(world, with_group(draw_scenarios(world, (levels[index],), (size,), drawn), index), seed=noise)
        for (index, size), (drawn, noise) in zip(batches, seeds, strict=True)
    ]
    return level_names(len(levels)), tuple(parts)


def _make_currents(world: WorldConfig, episodes: int, seed: int) -> GroupsAndParts:
    """Return scenarios with strong currents in a crowded map."""
    drawn = draw_scenarios(world, scaled_levels(world, (Level(6, 8, 8, 40.0),)), (episodes,), seed)
    return ("6 robots, 8 obstacles, 8 cores",), (Part(world, drawn),)


CROWD_SIZES = (10, 20, 30, 40, 50)


def _make_crowd(world: WorldConfig, episodes: int, seed: int) -> GroupsAndParts:
    """Return scenarios on maps that grow with the number of robots, as dense in robots and obstacles as level 6."""
    parts = []
    for index, robots in enumerate(CROWD_SIZES):
        map_config, growth = world.scenario, math.sqrt(robots / LEVELS[-1].num_robots)
        large_map = replace(map_config, width=growth * map_config.width, height=growth * map_config.height)
        large_world = replace(world, scenario=large_map)
        level = Level(robots, 0, robots * LEVELS[-1].num_obstacles // LEVELS[-1].num_robots, 40.0)
        parts.append(
            Part(
                large_world,
                with_group(draw_scenarios(large_world, scaled_levels(world, (level,)), (episodes,), seed), index),
            )
        )
    return tuple(f"{robots} robots" for robots in CROWD_SIZES), tuple(parts)


NOISE_FACTORS = (0, 1, 2, 4)


def _make_noise(world: WorldConfig, episodes: int, seed: int) -> GroupsAndParts:
    """Return the same scenarios of all levels with different noise on positions and velocities."""
    drawn = draw_scenarios(world, scaled_levels(world), (episodes,) * len(LEVELS), seed)
    parts = []
    for index, factor in enumerate(NOISE_FACTORS):
        sensor = world.sensor
        noisy = replace(sensor, pos_std=_scale(sensor.pos_std, factor), vel_std=_scale(sensor.vel_std, factor))
        parts.append(Part(replace(world, sensor=noisy), with_group(drawn, index)))
    return tuple(f"noise x {factor}" for factor in NOISE_FACTORS), tuple(parts)


MAX_VESSEL_FACTOR = 2.0
"""Largest factor by which mass, inertia and thrust of vessels in the suite ``vessels`` grow or shrink."""


def _make_vessels(world: WorldConfig, episodes: int, seed: int) -> GroupsAndParts:
    """Return scenarios of all levels whose vessels have random masses (and inertia) and thrust limits."""
    drawn = draw_scenarios(world, scaled_levels(world), (episodes,) * len(LEVELS), seed)
    generator = torch.Generator().manual_seed(seed)
    factors = MAX_VESSEL_FACTOR ** (2.0 * torch.rand(2, *drawn.robot_mask.shape, generator=generator) - 1.0)
    base, varied = world.vessel, []
    for episode, mass_factors, thrust_factors in zip(
        episodes_from_scenarios(drawn, world, seed), *factors.tolist(), strict=True
    ):
        mass_factors, thrust_factors = (values[: len(episode.start)] for values in (mass_factors, thrust_factors))
        vessel = replace(
            base,
            m=_scale_per_robot(base.m, mass_factors),
            Izz=_scale_per_robot(base.Izz, mass_factors),
            min_thrust=_scale_per_robot(base.min_thrust, thrust_factors),
            max_thrust=_scale_per_robot(base.max_thrust, thrust_factors),
        )
        varied.append(replace(episode, world=replace(episode.world, vessel=vessel)))
    return ("random vessels",), (Part(world, varied),)


def _make_weather(world: WorldConfig, episodes: int, seed: int) -> GroupsAndParts:
    """Return scenarios of all levels in moderate wind and waves."""
    drawn = draw_scenarios(world, scaled_levels(world), (episodes,) * len(LEVELS), seed)
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.rand(len(drawn), 2, generator=generator, dtype=torch.float64)
    varied = []
    for number, (episode, (wind, waves)) in enumerate(
        zip(episodes_from_scenarios(drawn, world, seed), uniform.tolist(), strict=True)
    ):
        towards = 2.0 * math.pi * wind
        weather = replace(
            MODERATE_WEATHER,
            delay=0,
            missed=0.0,
            wind_direction=towards,
            wave_seed=number,
            wave_direction=towards + MAX_WAVE_DEVIATION * (2.0 * waves - 1.0),
        )
        varied.append(replace(episode, world=replace(episode.world, weather=weather)))
    return ("wind and waves",), (Part(world, varied),)


def _make_faults(world: WorldConfig, episodes: int, seed: int) -> GroupsAndParts:
    """Return scenarios of all levels with delayed commands and missed detections."""
    drawn = draw_scenarios(world, scaled_levels(world), (episodes,) * len(LEVELS), seed)
    calm = replace(MODERATE_WEATHER, wind_speed=0.0, wave_height=0.0)
    return ("late and missed",), (Part(replace(world, weather=calm), with_group(drawn, 0)),)


def _make_rules(world: WorldConfig, episodes: int, seed: int) -> GroupsAndParts:
    """Return encounters of two vessels, a group for each of ENCOUNTERS."""
    parts = []
    for index, encounter in enumerate(ENCOUNTERS.values()):
        scale = world.scenario.scale, world.scenario.speed_scale
        drawn = encounter_scenarios(encounter, world.vessel, episodes, seed + index, scale)
        # A vessel that is overtaken has weaker thrusters.
        thrust = encounter.other_thrust
        encounter_world = world if thrust is None else with_slow_vessel(world, 2, 1, thrust)
        parts.append(Part(encounter_world, with_group(drawn, index)))
    return tuple(ENCOUNTERS), tuple(parts)


def _make_imazu(world: WorldConfig, episodes: int, seed: int, only_own: bool = False) -> GroupsAndParts:
    """Return Imazu's problems; the seed is only that of the measurement noise."""
    parts = tuple(
        replace(_make_part(*drawn, only_own), situations=tuple(drawn[1].level.tolist()))
        for drawn in imazu_scenarios(world, episodes)
    )
    return _problem_names(len(IMAZU_COURSES)), parts


def _make_encounters(world: WorldConfig, episodes: int, seed: int, only_own: bool = False) -> GroupsAndParts:
    """Return random encounters of two to six vessels."""
    parts = tuple(_make_part(*drawn, only_own) for drawn in random_encounters(world, episodes, seed))
    return (*COURSES_BY_KIND, *(f"{robots} vessels" for robots in LARGER_SIZES)), parts


def _make_candidates(world: WorldConfig, episodes: int, seed: int, in_weather: bool = False) -> GroupsAndParts:
    """Return candidates for a collision."""
    return GROUPS, tuple(draw_candidates(world, episodes, seed, in_weather))


def _make_part(world: WorldConfig, scenarios: Scenario, only_own: bool) -> Part:
    """Return scenarios as a Part; with ``only_own``, the policy controls vessel 0, and others collide only with it."""
    if only_own:
        world = with_points(world, scenarios.robot_mask.shape[-1])
    return Part(world, scenarios, only_own)


def _make_packaged(name: str, world: WorldConfig, episodes: int, seed: int, only_own: bool = False) -> GroupsAndParts:
    """Return situations that DNV or NTNU wrote, each repeated, by kind of encounter, number of ships or problem."""
    situations = packaged_situations(name)
    scaled = [scaled_episode(situation, world) for situation in situations]
    if only_own:
        scaled = [replace(episode, world=with_points(episode.world, len(episode.start))) for episode in scaled]
    if name == "dnv":
        kinds = [*ENCOUNTER_ABBREVIATIONS.values()]
        groups = (*(kind.replace("-", " ") for kind in ENCOUNTER_ABBREVIATIONS), *LARGER_GROUPS)
        others = [len(situation.ships) - 1 for situation in situations]
        pairs = zip(others, situations, strict=True)
        levels = [kinds.index(each.name) if count == 1 else len(kinds) + count - 2 for count, each in pairs]
    else:
        groups, levels = _problem_names(len(scaled)), [*range(len(scaled))]
    numbers = tuple(number for number in range(len(scaled)) for _ in range(episodes))
    drawn = [scaled[number] for number in numbers]
    return groups, (Part(world, drawn, only_own, tuple(levels[number] for number in numbers), numbers),)


def _problem_names(count: int) -> tuple[str, ...]:
    return tuple(f"case {number}" for number in range(1, count + 1))


def _scale(value: PerRobot, factor: float) -> PerRobot:
    """Return a value, or the value of every robot, multiplied by a factor."""
    return tuple(factor * number for number in value) if isinstance(value, tuple) else factor * value


def _scale_per_robot(value: PerRobot, factors: Sequence[float]) -> tuple[float, ...]:
    """Return the value of every robot, multiplied by the factor of that robot."""
    return tuple(value_for_robot(value, robot) * factor for robot, factor in enumerate(factors))


HARBOUR_SIZES = (1, 2, 3, 4, 5)
"""Numbers of vessels in each window of ``harbours``."""


def _make_harbours(world: WorldConfig, episodes: int, seed: int) -> GroupsAndParts:
    """Return scenarios in windows of charts, a group for each window, with one to five vessels in turn."""
    charts = packaged_harbours()
    base = replace(NAMED_LEVELS["harbour"], num_obstacles=0)
    levels = [replace(base, num_robots=size, maps=str(chart)) for chart in charts for size in HARBOUR_SIZES]
    counts = [len(range(number, episodes, len(HARBOUR_SIZES))) for number in range(len(HARBOUR_SIZES))]
    drawn = draw_scenarios(world, levels, counts * len(charts), seed)
    drawn.level = drawn.level // len(HARBOUR_SIZES)
    return tuple(f"harbour {chart.stem}" for chart in charts), (Part(world, drawn),)


_encounters = partial(Suite, scoring="encounters")
_candidates = partial(Suite, episodes=2_860, scoring="candidates")
SUITES: dict[str, Suite] = {
    "paper": Suite("the fixed 60: ten scenarios of each published level", _make_levels, 10, is_fixed=True),
    "fresh": Suite("the published levels, scenarios never seen before", _make_levels, 100, None),
    "long": Suite("fresh for 10,000 vessel-hours, for rare collisions", _make_long, 66_000, None),
    "currents": Suite("6 robots among 8 obstacles and 8 vortex cores", _make_currents, 60),
    "crowd": Suite("10 to 50 robots on maps that grow with their number", _make_crowd, 10),
    "noise": Suite("the published levels with sensor noise x 0, 1, 2 and 4", _make_noise, 10),
    "vessels": Suite("the levels, vessels of mass and thrust x 0.5 to 2", _make_vessels, 100),
    "weather": Suite("the levels in moderate wind and waves", _make_weather, 100),
    "faults": Suite("the levels with late commands and missed detections", _make_faults, 100),
    "rules": _encounters(
        "two vessels head-on, crossing and overtaking, scored by safety, rules and delay", _make_rules, 25
    ),
    "imazu": _encounters("Imazu's 22 problems, scored likewise", _make_imazu, 20),
    "encounters": _encounters("random encounters of 2 to 6 vessels, scored likewise", _make_encounters, 25),
    "imazu_own": _encounters("imazu, the others keeping course and speed", partial(_make_imazu, only_own=True), 20),
    "encounters_own": _encounters(
        "encounters, the others keeping course and speed", partial(_make_encounters, only_own=True), 25
    ),
    "dnv": _encounters("DNV's 55 traffic situations, scored likewise", partial(_make_packaged, "dnv"), 10),
    "dnv_own": _encounters(
        "dnv, the others keeping course and speed", partial(_make_packaged, "dnv", only_own=True), 10
    ),
    "imazu_ntnu": _encounters(
        "Imazu's problems as NTNU wrote them, scored likewise", partial(_make_packaged, "imazu_ntnu"), 10
    ),
    "imazu_ntnu_own": _encounters(
        "imazu_ntnu, the others keeping course and speed", partial(_make_packaged, "imazu_ntnu", only_own=True), 10
    ),
    "harbours": Suite("windows of charts with shores, one to five vessels", _make_harbours, 25),
    "unruly": Suite(
        "one vessel among others that misbehave or follow other policies",
        misbehaving_scenarios,
        25,
        scoring="misbehaviour",
    ),
    "candidates": _candidates("encounters in which a vessel that only steers for its goal is hit", _make_candidates),
    "candidates_weather": _candidates(
        "candidates in wind and waves, with late commands and missed detections",
        partial(_make_candidates, in_weather=True),
    ),
}


def make_scenario_set(
    name: str, world: WorldConfig, episodes: int | None = None, seed: int | None = None
) -> ScenarioSet:
    """Return the scenarios of a suite in a world; with a seed, they are the same in every call.

    The numbers of episodes (see Suite) and the seed of scenarios and measurement noise are by default the suite's.
    """
    allowed = f"one of {', '.join(SUITES)}{did_you_mean(name, SUITES)}"
    require(name in SUITES, "--suite", name, allowed)
    suite = SUITES[name]
    is_allowed = episodes is None or not suite.is_fixed
    require(is_allowed, "--episodes", episodes, f"left out: {name} is a fixed set of {suite.episodes}")
    seed = suite.seed if seed is None else seed
    seed = secrets.randbelow(2**31) if seed is None else seed
    groups, parts = suite.make(world, suite.episodes if episodes is None else episodes, seed)
    return ScenarioSet(name, groups, parts, seed, suite.scoring)
