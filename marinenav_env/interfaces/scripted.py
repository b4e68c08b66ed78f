"""Scripted policies for vessels that are not trained: idle, or straight to the goal.

A scripted policy returns continuous actions [E, R, 2]; ``write_actions`` converts them to indices if
the environment has discrete actions.
"""

from collections.abc import Callable

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env.env import MarineNavEnv
from marinenav_env.physics.thrust import ThrustController, velocity_to_goal
from marinenav_env.specs import GROUP

CRUISE_SPEED = 2.5
"""Desired speed over ground of default vessels that go straight to their goal (m/s); scaled for other vessels."""


def straight_actions(self_state: Tensor, env: MarineNavEnv) -> Tensor:
    """Return actions [E, R, 2] that steer straight to the goal, without avoidance; ``self_state`` is [E, R, 7]."""
    seconds, scale = env.config.control_step, env.config.scenario
    controller = ThrustController.from_parameters(env.constants, seconds, scale.time_scale)
    return controller(self_state, velocity_to_goal(self_state, CRUISE_SPEED * scale.speed_scale))


SCRIPTED_POLICIES: dict[str, Callable[[Tensor, MarineNavEnv], Tensor]] = {
    "idle": lambda self_state, env: torch.zeros_like(self_state[..., :2]),
    "straight": straight_actions,
}
"""Scripted policies by name; each takes ``self_state`` [E, R, 7] and the environment, and returns actions [E, R, 2].
``idle`` does not change the thrust."""


def write_actions(step: TensorDictBase, env: MarineNavEnv, name: str) -> TensorDictBase:
    """Write the actions of the scripted policy ``name`` for all robots into the environment's output, and return it."""
    action = SCRIPTED_POLICIES[name](step.get((GROUP, "observation", "self_state")), env)
    return step.set((GROUP, "action"), action if env.continuous else _nearest_discrete_actions(action, env))


def _nearest_discrete_actions(action: Tensor, env: MarineNavEnv) -> Tensor:
    """Return the discrete actions [E, R] whose left and right thrust rates are closest to continuous ones [E, R, 2]."""
    vessel = env.constants.vessel
    rates = action * vessel.max_thrust_rate[..., None]
    left, right = (
        (rates[..., side, None] - offered).abs().argmin(-1)
        for side, offered in enumerate((vessel.left_thrust_change, vessel.right_thrust_change))
    )
    return left * vessel.right_thrust_change.shape[-1] + right
