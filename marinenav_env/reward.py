"""Reward of a control step: the published one, or a function of the user's.

A user's function is named by ``world.reward.function``, takes RewardInputs and returns the rewards
[E, R] of all robots; those of robots that were not active are set to zero. It is compiled with the
world, so it must be a pure function of tensors, without Python loops over environments, without
random numbers and without reading values on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from marinenav_env import plugins
from marinenav_env.config import WorldConfig
from marinenav_env.state import Parameters, Rules, Scenario, State
from marinenav_env.validation import require


class RewardInputs(NamedTuple):
    """What a reward may depend on."""

    progress: Tensor
    """[E, R] decrease of the distance to the goal in this step (m)."""
    phi: Tensor
    """[E, R] turn angle that the rules of the sea ask for (rad), 0 if they do not apply."""
    collided: Tensor
    """[E, R] bool: collided in this step."""
    arrived: Tensor
    """[E, R] bool: arrived in this step, without a collision."""
    active: Tensor
    """[E, R] bool: active before the step."""
    before: State
    """Batch [E], before the step."""
    after: State
    """Batch [E], after its motion; the flags of robots are those before the step."""
    scenario: Scenario
    """Batch [E]."""
    parameters: Parameters
    """Batch [E], or [1] when shared: vessels, sensors, and the weights of the published reward."""
    observation: dict[str, Tensor]
    """Every entry of the observation after the step by name, [E, R, ...]."""
    config: WorldConfig
    """What is the same for all environments."""


RewardFunction = Callable[[RewardInputs], Tensor]


def reward_function(config: WorldConfig) -> RewardFunction:
    """The reward that a configuration asks for.

    Raises:
        ConfigError: when it names a function that cannot be loaded or called.
    """
    name = config.reward.function
    if not name:
        return published_reward
    found = plugins.resolve(plugins.REWARDS, name)
    require(callable(found), "world.reward.function", name, "a function of RewardInputs")
    function: RewardFunction = found
    return function


def published_reward(step: RewardInputs) -> Tensor:
    """The published reward [E, R]; see ``step_reward``."""
    rules = step.parameters.rules
    return step_reward(step.progress, step.phi, step.collided, step.arrived, rules)


def step_reward(
    progress: Tensor, phi: Tensor, collided: Tensor, arrived: Tensor, rules: Rules
) -> Tensor:
    """Reward of robots that were active before the step.

    Args:
        progress: [E, R] decrease of the distance to the goal (m).
        phi: [E, R] turn angle that the rules of the sea ask for (rad).
        collided: [E, R] bool.
        arrived: [E, R] bool; a collision in the same step outweighs it.
        rules: [E or 1].

    Returns:
        [E, R].
    """
    event = torch.where(
        collided,
        rules.collision_penalty[:, None],
        torch.where(arrived, rules.goal_reward[:, None], 0.0),
    )
    shaping = rules.timestep_penalty[:, None] + progress + rules.COLREGs_penalty[:, None] * phi
    return shaping + event
