"""Behaviours of vessels that no policy controls (``Scenario.scripted``), by their codes.

A code is the index of a name in ``levels.BEHAVIOURS``. Until its onset, a vessel keeps course and speed,
and so does one of the behaviour ``keep`` for ever. From the onset on

- ``act_late`` steers TURN to starboard of its first course for TURN_SECONDS, then for its goal;
- ``turn_wrong`` does the same to port;
- ``stop`` goes full astern until it is slow, and then stays where it is;
- ``speed_up`` goes full ahead on its first course;
- ``lose_left`` and ``lose_right`` have no thrust on that side, and no longer change that of the other one.

``see_nothing`` steers for its goal from the start, as if it were alone. Vessels that steer keep the speed
at which they started. All of them ignore the other vessels.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from marinenav_env.config import STEERING
from marinenav_env.levels import BEHAVIOURS
from marinenav_env.physics.dynamics import continuous_rates
from marinenav_env.physics.thrust import ThrustController, to_the_goal
from marinenav_env.sensing.perception import own_state
from marinenav_env.state import Extras, Scenario, State, Vessel
from marinenav_env.support.validation import require

KEEP, ACT_LATE, TURN_WRONG, STOP, SPEED_UP, LOSE_LEFT, LOSE_RIGHT, SEE_NOTHING = range(len(BEHAVIOURS))
"""Codes of the behaviours."""
TURN, TURN_SECONDS = math.radians(60.0), 8.0
"""Change of course of a vessel that acts late or the wrong way (rad), and how long it lasts (s)."""
SPEED, FULL = 2.0, 10.0
"""Speed of vessels that steer but started at rest, and a speed that only full thrust approaches (m/s)."""
SLOW = 0.6
"""Speed below which a vessel that stops no longer goes full astern (m/s)."""


def require_thrusters(scenario: Scenario, extras: Extras | None) -> None:
    """Refuse vessels that misbehave without two thrusters, whose left and right thrust behaviours change.

    Args:
        scenario: batch [P].
        extras: actuators, batch [P or 1]; None: all vessels have two thrusters.

    Raises:
        ConfigError: when there is such a vessel.
    """
    if scenario.behaviour is None or extras is None:
        return
    is_steered = (scenario.behaviour != KEEP) & (extras.steering != STEERING.index("thrusters"))
    has_thrusters = not is_steered.any()  # host: at the start
    require(has_thrusters, "world.vessel.actuators.steering", "...", "thrusters for vessels that misbehave")


def behaviour_rates(state: State, scenario: Scenario, vessel: Vessel, seconds: float) -> Tensor:
    """Return the thrust rates of robots that behave as their scenario says.

    Args:
        state: batch [E], before the step.
        scenario: batch [E], with behaviours and onsets.
        vessel: parameters.
        seconds: length of a control step (s).

    Returns:
        [E, R, 2] left and right thrust rate (N/s), zero for robots that keep course and speed.
    """
    code, onset = scenario.behaviour, scenario.onset
    assert code is not None and onset is not None
    elapsed = (state.steps.to(onset.dtype) * seconds)[:, None] - onset
    rates = _steered_rates(state, scenario, vessel, seconds, code, elapsed)
    is_lost = torch.stack((code == LOSE_LEFT, code == LOSE_RIGHT), -1)
    failing = torch.where(is_lost, -state.thrust / seconds, 0.0)
    rates = torch.where(is_lost.any(-1, keepdim=True), failing, rates)
    acts = ((elapsed >= 0.0) & (code != KEEP)) | (code == SEE_NOTHING)
    return torch.where(acts[..., None], rates, 0.0)


def _steered_rates(
    state: State, scenario: Scenario, vessel: Vessel, seconds: float, code: Tensor, elapsed: Tensor
) -> Tensor:
    """Return the thrust rates [E, R, 2] of the behaviours that steer, since ``elapsed`` [E, R] (s)."""
    own = own_state(state, scenario.goal)
    first_speed = torch.linalg.vector_norm(scenario.velocity[..., :2], dim=-1)
    speed = torch.where(first_speed > 0.0, first_speed, SPEED)
    speed = torch.where(code == SPEED_UP, FULL, torch.where(code == STOP, 0.0, speed))
    side = (code == ACT_LATE).to(own.dtype) - (code == TURN_WRONG).to(own.dtype)
    turn = scenario.heading + TURN * side - state.pose[..., 2]
    on_course = torch.stack((turn.cos(), turn.sin()), -1)
    turns = (side != 0.0) & (elapsed < TURN_SECONDS)
    direction = torch.where((turns | (code == SPEED_UP))[..., None], on_course, to_the_goal(own, 1.0))
    commands = ThrustController(vessel, seconds)(own, speed[..., None] * direction)
    is_fast = (code == STOP) & (own[..., 2] > SLOW)
    return continuous_rates(torch.where(is_fast[..., None], -1.0, commands), vessel)
