"""Reward of a control step (the world specification, "Reward, endings")."""

from __future__ import annotations

import torch
from torch import Tensor

from marinenav_env.state import Rules


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
