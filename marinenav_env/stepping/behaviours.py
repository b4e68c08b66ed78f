"""Behaviours of scripted vessels (``Scenario.scripted``), which no policy controls.

A behaviour has a code, the index of its name in ``levels.BEHAVIOURS``. A vessel keeps course and speed until the onset
of its behaviour, and always with the behaviour ``keep``. From the onset on, a vessel with

- ``act_late`` steers TURN_ANGLE to starboard of its initial course for TURN_DURATION, then for its goal;
- ``turn_wrong`` does the same to port;
- ``stop`` goes full astern until it is slow, and then holds a speed of zero;
- ``speed_up`` goes full ahead on its initial course;
- ``lose_left`` or ``lose_right`` has no thrust on that side, and keeps the thrust of the other side constant.

``see_nothing`` steers for its goal from the start of the episode. Vessels that steer keep the speed
at which they started. A vessel with ``track`` is where its track has it (physics.tracks). All scripted
vessels ignore the other vessels.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from marinenav_env.levels import BEHAVIOURS
from marinenav_env.physics.actuators import THRUSTERS
from marinenav_env.physics.dynamics import thrust_rates_of_commands
from marinenav_env.physics.thrust import ThrustController, velocity_to_goal
from marinenav_env.sensing.perception import own_state
from marinenav_env.state import ActuatorParameters, Parameters, Scenario, State
from marinenav_env.support.validation import require

KEEP, ACT_LATE, TURN_WRONG, STOP, SPEED_UP, LOSE_LEFT, LOSE_RIGHT, SEE_NOTHING, TRACK = range(len(BEHAVIOURS))
"""Codes of the behaviours, which are their indices in levels.BEHAVIOURS."""
INSTANT_BEHAVIOURS = torch.tensor([KEEP, SEE_NOTHING, TRACK])
"""Codes of the behaviours that begin with the episode."""
TURN_ANGLE, TURN_DURATION = math.radians(60.0), 8.0
"""Change of course of the behaviours act_late and turn_wrong (rad), and its duration (s). This time and the speeds
below are for the default vessel; behaviour_rates scales them for others."""
DEFAULT_SPEED = 2.0
"""Desired speed of vessels that steer but started at rest (m/s)."""
FULL_THRUST_SPEED = 10.0
"""Desired speed of the behaviour speed_up (m/s), so high that it requires full thrust."""
STOPPING_SPEED = 0.6
"""Surge speed below which a vessel with the behaviour stop no longer goes full astern (m/s)."""


def require_thrusters(scenario: Scenario, extras: ActuatorParameters | None) -> None:
    """Raise ConfigError if a vessel that misbehaves lacks the two thrusters that behaviours control."""
    if scenario.behaviour is None or extras is None:
        return
    is_steered = (scenario.behaviour != KEEP) & (scenario.behaviour != TRACK) & (extras.steering != THRUSTERS)
    has_thrusters = not is_steered.any()  # host: at the start
    require(has_thrusters, "world.vessel.actuators.steering", "...", "thrusters for vessels that misbehave")


def behaviour_rates(
    state: State,
    scenario: Scenario,
    parameters: Parameters,
    seconds: float,
    time_scale: float = 1.0,
    speed_scale: float = 1.0,
) -> Tensor:
    """Return the left and right thrust rate (N/s) [E, R, 2] of robots that follow the behaviours of their scenario.

    They are 0 for robots that keep course and speed. A control step lasts ``seconds``; the scales are those of
    ScenarioConfig, 1 for published vessels.
    """
    code, onset = scenario.behaviour, scenario.onset
    assert code is not None and onset is not None
    elapsed = (state.steps.to(onset.dtype) * seconds)[:, None] - onset
    controller = ThrustController.from_parameters(parameters, seconds, time_scale)
    commands = _steered_commands(state, scenario, controller, code, elapsed, speed_scale)
    rates = thrust_rates_of_commands(commands, parameters.vessel)
    is_lost = torch.stack((code == LOSE_LEFT, code == LOSE_RIGHT), -1)
    failing = torch.where(is_lost, -state.thrust / seconds, 0.0)
    rates = torch.where(is_lost.any(-1, keepdim=True), failing, rates)
    acts = ((elapsed >= 0.0) & (code != KEEP) & (code != TRACK)) | (code == SEE_NOTHING)
    return torch.where(acts[..., None], rates, 0.0)


def _steered_commands(
    state: State, scenario: Scenario, controller: ThrustController, code: Tensor, elapsed: Tensor, speed_scale: float
) -> Tensor:
    """Return the commands (left, right) in [-1, 1] of behaviours that steer, a time [E, R] after their onset (s)."""
    own = own_state(state, scenario)
    first_speed = torch.linalg.vector_norm(scenario.velocity[..., :2], dim=-1)
    speed = torch.where(first_speed > 0.0, first_speed, DEFAULT_SPEED * speed_scale)
    speed = torch.where(code == SPEED_UP, FULL_THRUST_SPEED * speed_scale, torch.where(code == STOP, 0.0, speed))
    side = (code == ACT_LATE).to(own.dtype) - (code == TURN_WRONG).to(own.dtype)
    turn = scenario.heading + TURN_ANGLE * side - state.pose[..., 2]
    on_course = torch.stack((turn.cos(), turn.sin()), -1)
    turns = (side != 0.0) & (elapsed < TURN_DURATION * controller.time_scale)
    direction = torch.where((turns | (code == SPEED_UP))[..., None], on_course, velocity_to_goal(own, 1.0))
    commands = controller(own, speed[..., None] * direction)
    is_fast = (code == STOP) & (own[..., 2] > STOPPING_SPEED * speed_scale)
    return torch.where(is_fast[..., None], -1.0, commands)
