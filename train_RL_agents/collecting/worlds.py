"""The training world of a configuration."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch

from marinenav_env import Curriculum, MarineNavEnv, WorldConfig, read_scenarios
from marinenav_env.philox import RandomSource
from marinenav_env.scenario_file import Episode
from train_RL_agents.agents import Agent
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.evaluation.episodes import step_bytes
from train_RL_agents.utils.memory import require_room

TRAINED = ("collision_penalty", "give_way_penalty", "stand_on_penalty", "port_turn_penalty",
           "slowing_penalty", "steerage_speed", "astern_penalty", "off_course_penalty",
           "passing_distance", "passing_margin")  # fmt: skip
"""Settings of the reward that the trainer has values of its own for."""


def make_world(
    config: TrainConfig[Any],
    agent: Agent[Any],
    device: torch.device,
    seed: int,
    noise: RandomSource | None = None,
) -> MarineNavEnv:
    """The training world, with all environments of a configuration; see MarineNavEnv."""
    return MarineNavEnv(
        training_world(config),
        config.trainer.num_envs,
        scenarios=training_scenarios(config),
        continuous=agent.continuous,
        device=device,
        seed=seed,
        noise=noise,
        compile_step=config.compile,
        # Without workers; the graph collector captures more.
        capture_step=config.capture and config.trainer.collector != "local",
        check_actions=False,  # see Algorithm.health
    )


def training_scenarios(config: TrainConfig[Any]) -> Curriculum | list[Episode]:
    """Scenarios of the training: levels, or the episodes of a scenario file.

    Collisions cost ``trainer.collision_penalty`` in both.
    """
    schedule = config.training_schedule
    if not schedule.scenarios:
        return schedule.curriculum()
    episodes = read_scenarios(schedule.scenarios, schedule.strict)
    shape = (max(len(getattr(each, key)) for each in episodes) for key in ("start", "obstacles"))
    # The first state and observation of all of them is made at once.
    needed = len(episodes) * step_bytes(config.world, *shape)
    require_room(f"{schedule.scenarios}: {len(episodes):,} episodes", needed)
    trained = cache(partial(_trained, config=config))  # most share theirs, and checks take time
    return [replace(each, world=trained(each.world)) for each in episodes]


def training_world(config: TrainConfig[Any]) -> WorldConfig:
    """The world's settings while training."""
    return _trained(config.world, config)


def _trained(world: WorldConfig, config: TrainConfig[Any]) -> WorldConfig:
    """The world with the trainer's settings of the reward."""
    trained = {name: getattr(config.trainer, name) for name in TRAINED}
    return replace(world, reward=replace(world.reward, **trained))
