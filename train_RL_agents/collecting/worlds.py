"""The training world of a configuration."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache, partial
from operator import attrgetter
from typing import Any

import torch

from marinenav_env import Curriculum, MarineNavEnv, WorldConfig, read_scenarios
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.scenario_file import Episode, replaced_by
from marinenav_env.support.validation import ConfigError
from train_RL_agents.agents import Agent
from train_RL_agents.config.schema import TRAINED, TrainConfig, TrainingReward
from train_RL_agents.evaluation.episodes import step_bytes
from train_RL_agents.utils.memory import require_room


def make_world(
    config: TrainConfig[Any],
    agent: Agent[Any],
    device: torch.device,
    seed: int,
    noise: RandomSource | None = None,
) -> MarineNavEnv:
    """Return the training world, with all environments of a configuration; see MarineNavEnv."""
    return MarineNavEnv(
        training_world(config),
        config.trainer.num_envs,
        scenarios=training_scenarios(config),
        continuous=agent.continuous,
        device=device,
        seed=seed,
        noise=noise,
        compile_step=config.execution.compile,
        episode_statistics=True,
        # Without workers; the graph collector captures more.
        capture_step=config.execution.capture and config.trainer.collector != "local",
        kernel=config.execution.kernel,
        check_actions=False,  # see Algorithm.health
    )


def training_scenarios(config: TrainConfig[Any]) -> Curriculum | list[Episode]:
    """Return the scenarios of the training: levels, or the episodes of a scenario file.

    Collisions cost ``training.reward.collision_penalty``, which replaces what a file states with a
    warning; null keeps that. Other settings of vessels and sensors are the file's, also with a
    warning.

    Raises:
        ConfigError: when another reward is stated than the file's, or there is not enough memory.
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
    penalty, default = config.training.reward.collision_penalty, TrainingReward.collision_penalty
    theirs = {each.world.reward.collision_penalty for each in episodes if each.states_penalty}
    if penalty is not None and theirs - {penalty}:
        warnings.warn(
            f"{schedule.scenarios}: training.reward.collision_penalty={penalty} replaces the "
            "penalty of a collision that the file states; null keeps that",
            stacklevel=2,
        )
    own = [f"world.{name}" for name in replaced_by(episodes, config.world)]
    own = [name for name in own if name != "world.reward.collision_penalty"]  # see above
    for name in own:
        if name.startswith("world.reward."):
            value, allowed = attrgetter(name)(config), "left out beside training_schedule.scenarios"
            raise ConfigError(f"{name}={value}: must be {allowed}, which states rewards of its own")
    if own:
        warnings.warn(
            f"{schedule.scenarios}: its episodes are trained on with {', '.join(own)} of the file, "
            "or the defaults where it has none, not as stated; evaluations are as stated",
            stacklevel=2,
        )
    return [replace(each, world=trained(each.world, None if each.states_penalty else default)) for each in episodes]


def training_world(config: TrainConfig[Any]) -> WorldConfig:
    """Return the world's settings while training."""
    return _trained(config.world, None, config)


def _trained(world: WorldConfig, penalty: float | None, config: TrainConfig[Any]) -> WorldConfig:
    """Return the world with the rewards of training.

    Args:
        world: of the scenarios.
        penalty: of a collision, where training has none; None: as the world has it.
        config: of the run.
    """
    stated = {name: getattr(config.training.reward, name) for name in TRAINED}
    usual = {name: getattr(config.world.reward, name) for name in TRAINED}
    usual["collision_penalty"] = world.reward.collision_penalty if penalty is None else penalty
    values = {name: usual[name] if value is None else value for name, value in stated.items()}
    return replace(world, reward=replace(world.reward, **values))
