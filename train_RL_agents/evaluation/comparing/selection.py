"""Selection of the scenarios that a command runs."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from marinenav_env import Level, WorldConfig, read_scenarios
from marinenav_env.scenarios.episode import overridden_settings
from marinenav_env.support.validation import require
from train_RL_agents.config.levels import convert_levels
from train_RL_agents.config.schema import MAX_SEED, EvalSchedule
from train_RL_agents.evaluation.judging.policies import EvaluatedPolicy, common_world
from train_RL_agents.evaluation.running.episodes import draw_scenarios
from train_RL_agents.evaluation.suites.sets import Part, ScenarioSet
from train_RL_agents.evaluation.suites.suites import level_names, make_scenario_set

_SETTINGS_OF_EPISODES = ("sensor.max_objects", "vessel.max_thrust")
"""Settings that need not be those of the policy: it keeps its number of object slots, and slower vessels in situations
of other programs have weaker thrusters."""


def default_schedule_and_world(policies: Sequence[EvaluatedPolicy]) -> tuple[EvalSchedule, WorldConfig]:
    """Return the evaluation schedule and the world of the first trained policy; the published ones if there is none."""
    for evaluated in policies:
        if evaluated.trained is not None:
            evaluated.trained.config.env.require_built_in("levels, suites and scenario files")
            return evaluated.trained.config.eval_schedule, common_world(policies)
    return EvalSchedule(), WorldConfig()


def choose_scenarios(
    world: WorldConfig, schedule: EvalSchedule, options: dict[str, Any]
) -> tuple[ScenarioSet, dict[str, Any] | None]:
    """Read or draw the scenarios that a command's options, by name, request; the schedule is that of the fixed set.

    Return them with a description of their levels, None if they are not drawn from levels.
    """
    require(0 <= options.get("seed", 0) <= MAX_SEED, "--seed", options.get("seed"), f"from 0 to {MAX_SEED}")
    fresh = secrets.randbelow(2**31) if "fresh" in options else None
    if "suite" in options:
        seed = options.get("seed", fresh)
        return make_scenario_set(options["suite"], world, options.get("episodes"), seed), None
    seed = int(options.get("seed", schedule.seed) if fresh is None else fresh)
    if "scenarios" not in options:
        return _draw_levels(world, schedule, seed, options)

    file = str(options["scenarios"])
    # The episodes of a file have no levels.
    episodes = read_scenarios(file, options.get("strict", False), world)
    count = options.get("episodes", len(episodes))
    require(count <= len(episodes), "--episodes", count, f"at most the {len(episodes):,} of {file}")
    episodes = episodes[:count]
    changed = [name for name in overridden_settings(episodes, world) if name not in _SETTINGS_OF_EPISODES]
    if changed:
        sections = ", ".join(dict.fromkeys(f"world.{name.partition('.')[0]}" for name in changed))
        warnings.warn(f"{file}: episodes have {sections} of the file, or the defaults, not the policy's", stacklevel=2)
    return ScenarioSet("scenarios", (), (Part(world, episodes),), seed), None


def _draw_levels(
    world: WorldConfig, schedule: EvalSchedule, seed: int, options: dict[str, Any]
) -> tuple[ScenarioSet, dict[str, Any]]:
    """Draw all levels, so that scenarios do not depend on the request, keep the requested ones, and describe them."""
    levels, counts = convert_levels(Level, schedule.levels), schedule.num_episodes
    if "episodes" in options:
        counts = (options["episodes"],) * len(levels)
    numbers = sorted(set(options.get("levels", range(1, len(levels) + 1))))
    for number in numbers:
        require(1 <= number <= len(levels), "--levels", number, f"from 1 to {len(levels)}")
    drawn = draw_scenarios(world, levels, counts, seed)
    wanted = torch.isin(drawn.level, torch.tensor(numbers) - 1)
    described = {f"level {n}": {**asdict(levels[n - 1]), "episodes": counts[n - 1]} for n in numbers}
    parts = (Part(world, drawn[wanted]),)
    return ScenarioSet("levels", level_names(len(levels)), parts, seed), described
