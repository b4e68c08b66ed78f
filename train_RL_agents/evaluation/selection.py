"""Which scenarios a command runs."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from marinenav_env import Level, WorldConfig, read_scenarios
from marinenav_env.support.validation import require
from train_RL_agents.config.levels import as_levels
from train_RL_agents.config.schema import LARGEST_SEED, EvalSchedule
from train_RL_agents.evaluation.contenders import Contender
from train_RL_agents.evaluation.episodes import draw_scenarios
from train_RL_agents.evaluation.suites import Part, ScenarioSet, level_names, make_set


def defaults(found: Sequence[Contender]) -> tuple[EvalSchedule, WorldConfig]:
    """Evaluation levels and world of the first trained policy, or the published ones."""
    for each in found:
        if each.trained is not None:
            return each.trained.config.eval_schedule, each.trained.config.world
    return EvalSchedule(), WorldConfig()


def choose_set(
    world: WorldConfig, schedule: EvalSchedule, given: dict[str, Any]
) -> tuple[ScenarioSet, dict[str, Any] | None]:
    """Read or draw the scenarios.

    Args:
        world: that they are in.
        schedule: the levels, and the size and seed of the fixed set.
        given: the options given.

    Returns:
        The scenarios, and what the levels are, if they are of levels.

    Raises:
        ConfigError: when there is no such file, suite, level or seed.
    """
    fine = 0 <= given.get("seed", 0) <= LARGEST_SEED
    require(fine, "--seed", given.get("seed"), f"from 0 to {LARGEST_SEED}")
    fine = "strict" not in given or "scenarios" in given
    require(fine, "--strict", True, "left out without --scenarios: levels and suites are drawn")
    fresh = secrets.randbelow(2**31) if "fresh" in given else None
    if "suite" in given:
        seed = given.get("seed", fresh)
        return make_set(given["suite"], world, given.get("episodes"), seed), None
    seed = int(given.get("seed", schedule.seed) if fresh is None else fresh)
    if "scenarios" not in given:
        return _draw(world, schedule, seed, given)

    file = str(given["scenarios"])
    fine = "episodes" not in given
    require(fine, "--episodes", given.get("episodes"), f"left out: {file} has its own")
    # A file does not say which level its episodes are of.
    episodes = read_scenarios(file, given.get("strict", False))
    return ScenarioSet("scenarios", (), (Part(world, episodes),), seed), None


def _draw(
    world: WorldConfig, schedule: EvalSchedule, seed: int, given: dict[str, Any]
) -> tuple[ScenarioSet, dict[str, Any]]:
    """Draw all levels and keep those asked for: a level's scenarios do not depend on the others."""
    levels, counts = as_levels(Level, schedule.levels), schedule.num_episodes
    if "episodes" in given:
        counts = (given["episodes"],) * len(levels)
    numbers = sorted(set(given.get("levels", range(1, len(levels) + 1))))
    for number in numbers:
        require(1 <= number <= len(levels), "--levels", number, f"from 1 to {len(levels)}")
    drawn = draw_scenarios(world, levels, counts, seed)
    wanted = torch.isin(drawn.level, torch.tensor(numbers) - 1)
    described = {f"level {n}": {**asdict(levels[n - 1]), "episodes": counts[n - 1]} for n in numbers}
    parts = (Part(world, drawn[wanted]),)
    return ScenarioSet("levels", level_names(len(levels)), parts, seed), described
