"""Scripted policies for vessels that are not trained: idle, or straight to the goal.

A scripted policy gives continuous actions [E, R, 2]; ``write_actions`` turns them into what the
environment takes.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env.env import MarineNavEnv
from marinenav_env.physics.thrust import ThrustController, to_the_goal
from marinenav_env.specs import GROUP

SPEED = 2.5
"""Speed over ground of those who head straight for their goal (m/s)."""


def idle(self_state: Tensor, env: MarineNavEnv) -> Tensor:
    """No change of thrust, [E, R, 2], for states [E, R, 7]."""
    return torch.zeros_like(self_state[..., :2])


def straight(self_state: Tensor, env: MarineNavEnv) -> Tensor:
    """Straight to the goal without avoidance: actions [E, R, 2] for states [E, R, 7]."""
    seconds = env.config.dt * env.config.substeps
    controller = ThrustController(env.constants.vessel, seconds)
    return controller(self_state, to_the_goal(self_state, SPEED))


SCRIPTED: dict[str, Callable[[Tensor, MarineNavEnv], Tensor]] = {
    "idle": idle,
    "straight": straight,
}
"""Scripted policies by name."""


def write_actions(step: TensorDictBase, env: MarineNavEnv, name: str) -> TensorDictBase:
    """Write the actions of a scripted policy for all robots.

    Args:
        step: what the environment gave.
        env: the environment.
        name: from SCRIPTED.
    """
    action = SCRIPTED[name](step.get((GROUP, "observation", "self_state")), env)
    return step.set((GROUP, "action"), action if env.continuous else _nearest_pair(action, env))


def _nearest_pair(action: Tensor, env: MarineNavEnv) -> Tensor:
    """The discrete action [E, R] closest to a continuous one [E, R, 2], side by side."""
    vessel = env.constants.vessel
    rates = action * vessel.max_thrust_rate[..., None]
    left, right = (
        (wanted[..., None] - offered).abs().argmin(-1)
        for wanted, offered in zip(
            rates.unbind(-1), (vessel.left_thrust_change, vessel.right_thrust_change), strict=True
        )
    )
    return left * vessel.right_thrust_change.shape[-1] + right
