"""The world and the scenarios of a configuration during training."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache, partial
from operator import attrgetter
from typing import Any

from marinenav_env import Curriculum, WorldConfig, read_scenarios
from marinenav_env.scenarios.episode import Episode, overridden_settings
from marinenav_env.support.validation import ConfigError
from train_RL_agents.config.schema import TRAINING_REWARD_NAMES, TrainConfig, TrainingReward


def training_scenarios(config: TrainConfig[Any]) -> Curriculum | list[Episode]:
    """Return the training scenarios: a curriculum of levels, or the episodes of a scenario file.

    ``training.reward.collision_penalty`` replaces the penalty that a file states, with a warning, unless it is null.
    Vessels and sensors have the settings of the file or, where it has none, the defaults, also with a warning.
    """
    schedule = config.training_schedule
    if not schedule.scenarios:
        return schedule.curriculum()
    episodes = read_scenarios(schedule.scenarios, schedule.strict, config.world)
    trained = cache(
        partial(_with_training_rewards, config=config)
    )  # most episodes share a world, and its checks take time
    penalty, default = config.training.reward.collision_penalty, TrainingReward.collision_penalty
    stated = {episode.world.reward.collision_penalty for episode in episodes if episode.states_penalty}
    if penalty is not None and stated - {penalty}:
        warnings.warn(
            f"{schedule.scenarios}: training.reward.collision_penalty={penalty} replaces the "
            "penalty of a collision that the file states; null keeps that",
            stacklevel=2,
        )
    replaced = [f"world.{name}" for name in overridden_settings(episodes, config.world)]
    replaced = [name for name in replaced if name != "world.reward.collision_penalty"]  # see above
    for name in replaced:
        if name.startswith("world.reward."):
            value, allowed = attrgetter(name)(config), "left out beside training_schedule.scenarios"
            raise ConfigError(f"{name}={value}: must be {allowed}, which states rewards of its own")
    if replaced:
        warnings.warn(
            f"{schedule.scenarios}: its episodes are trained on with {', '.join(replaced)} of the file, "
            "or the defaults where it has none, not as stated; evaluations are as stated",
            stacklevel=2,
        )
    return [
        replace(episode, world=trained(episode.world, None if episode.states_penalty else default))
        for episode in episodes
    ]


def training_world(config: TrainConfig[Any]) -> WorldConfig:
    """Return the settings of the world during training, in which ``training.reward`` replaces the rewards."""
    return _with_training_rewards(config.world, None, config)


def _with_training_rewards(world: WorldConfig, penalty: float | None, config: TrainConfig[Any]) -> WorldConfig:
    """Return the settings of a world in which the stated values of ``training.reward`` replace the rewards."""
    stated = {name: getattr(config.training.reward, name) for name in TRAINING_REWARD_NAMES}
    defaults = {name: getattr(config.world.reward, name) for name in TRAINING_REWARD_NAMES}
    defaults["collision_penalty"] = world.reward.collision_penalty if penalty is None else penalty
    values = {name: defaults[name] if value is None else value for name, value in stated.items()}
    return replace(world, reward=replace(world.reward, **values))
