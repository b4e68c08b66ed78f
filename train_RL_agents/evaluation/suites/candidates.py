"""Candidates for a collision: encounters in which the own vessel is hit if it only steers for its goal.

The others steer for goals straight ahead, at the speed that they begin with, and give way to nobody. That the own
vessel is hit is checked by simulation. Collisions per candidate compare with the causation factors of ships with crews.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from marinenav_env import WorldConfig
from marinenav_env.config import MODERATE_WEATHER
from marinenav_env.levels import DRAWN_BEHAVIOURS
from marinenav_env.physics.thrust import ThrustController, velocity_to_goal
from marinenav_env.scenarios.parameters import build_parameters
from marinenav_env.state import Scenario
from marinenav_env.stepping.behaviours import SEE_NOTHING
from marinenav_env.support.validation import require
from marinenav_env.vessels import largest_value
from train_RL_agents.evaluation.running.episodes import run_episodes
from train_RL_agents.evaluation.running.others import ACTION_KEY
from train_RL_agents.evaluation.suites.encounter_suites import with_group, with_points
from train_RL_agents.evaluation.suites.passing_encounters import (
    KIND_NAMES,
    MAX_PASSING_DISTANCE,
    NUM_PARAMETERS,
    PASSING_SIDE,
    Encounters,
    encounter_batches,
)
from train_RL_agents.evaluation.suites.sets import Part
from train_RL_agents.networks.observation import OBSERVATION_KEY

LARGER_GROUPS = {"2 others": 2, "3 others": 3}
"""Numbers of other vessels of the groups with more than one. All but the first of them pass at any distance, and none
overtakes the own vessel."""
GROUPS = (*KIND_NAMES, *LARGER_GROUPS)
"""Names of the groups: the kinds of encounter with one other vessel, then those with several."""
MAX_BATCH = 500
"""Largest number of candidates that are run as one batch."""
SPARE_SHARE = 1.5
"""Number of encounters that are drawn for each candidate; in some the own vessel is not hit."""
MAX_EMPTY = 10
"""Number of batches without a candidate in a row, as in a wind from one side, after which none are drawn any more."""


def draw_candidates(world: WorldConfig, episodes: int, seed: int, in_weather: bool) -> Iterator[Part]:
    """Yield candidates, ``episodes`` of each group, in batches; ``in_weather``, with wind and waves and with faults.

    Wind and waves differ from batch to batch; faults are late commands and missed detections. Vessels that are not
    steered by two thrusters are refused, and MAX_EMPTY batches in a row in which no vessel is hit.
    """
    generator = torch.Generator().manual_seed(seed)
    for group, name in enumerate(GROUPS):
        missing, empty = episodes, 0
        while missing:
            wanted = min(MAX_BATCH, missing)
            size = math.ceil(SPARE_SHARE * wanted)
            (batch,) = encounter_batches(_draw(name, size, world, generator), world)
            noise, wind, waves = torch.randint(2**31, (3,), generator=generator).tolist()
            towards = math.radians(wind % 360)
            weather = replace(MODERATE_WEATHER, wind_direction=towards, wave_direction=towards, wave_seed=waves)
            varied = replace(batch.world, weather=weather) if in_weather else batch.world
            varied = with_points(varied, batch.scenarios.robot_mask.shape[-1])
            drawn = with_group(batch.scenarios, group)
            hit = is_hit(drawn, varied, noise)
            empty = 0 if hit.any() else empty + 1
            require(empty < MAX_EMPTY, "suite candidates", name, "encounters in which the own vessel is hit")
            if not empty:
                kept = drawn[hit.nonzero()[:wanted, 0]]
                missing -= len(kept)
                yield Part(varied, kept, only_own=True, seed=noise)


def _draw(group: str, episodes: int, world: WorldConfig, generator: torch.Generator) -> Encounters:
    """Return random encounters of a group, in which the first of the others would pass within the hulls."""
    others = LARGER_GROUPS.get(group, 1)
    contact = 2.0 * largest_value(world.vessel.radius) / world.scenario.scale
    unit = torch.rand(episodes, others, NUM_PARAMETERS, generator=generator, dtype=torch.float64)
    unit[:, 0, PASSING_SIDE] = 0.5 + (unit[:, 0, PASSING_SIDE] - 0.5) * contact / MAX_PASSING_DISTANCE
    kinds = len(KIND_NAMES) - 1  # the last one is that the own vessel is overtaken
    kind = torch.randint(kinds, (episodes, others), generator=generator)
    if group in KIND_NAMES:
        kind = torch.full_like(kind, KIND_NAMES.index(group))
    return Encounters(torch.full((episodes,), others), kind * len(DRAWN_BEHAVIOURS) + SEE_NOTHING, unit)


def is_hit(scenarios: Scenario, world: WorldConfig, seed: int) -> torch.Tensor:
    """Return in which encounters [N] the own vessel is hit if it only steers for its goal, at its initial speed."""
    like = scenarios.velocity
    parameters, _ = build_parameters([world], scenarios.robot_mask.shape[-1], like.device, torch.float32)
    controller = ThrustController.from_parameters(parameters, world.control_step, world.scenario.time_scale)
    speed = float(like[0, 0, :2].norm())  # equal in the whole batch

    def steer(step: Any) -> Any:
        own = step.get((*OBSERVATION_KEY, "self_state"))
        return step.set(ACTION_KEY, controller(own, velocity_to_goal(own, speed)))

    return run_episodes(steer, scenarios, world, continuous=True, only_own=True, seed=seed).collision
