"""Reward of a control step: the published terms and weighted penalties by role, or a user-defined function.

A user-defined function is named by ``world.reward.function``, takes RewardInputs and returns the rewards [E, R] of all
robots; those of robots that were not active are set to zero. The function is compiled with the world, so it must be a
pure function of tensors, without Python loops over environments, without random numbers and without reading values on
the host.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from marinenav_env.config import WorldConfig
from marinenav_env.physics.dynamics import wrap_to_pi
from marinenav_env.physics.routes import next_waypoint
from marinenav_env.physics.shores import hidden_pairs, hiding_shores
from marinenav_env.rules.encounters import newly_broken_duties
from marinenav_env.rules.roles import (
    GIVE_WAY,
    HEAD_ON,
    OVERTAKEN,
    OVERTAKING,
    STAND_ON,
    RelativeMotion,
    relative_motion,
    roles,
)
from marinenav_env.runtime.layout import env_first, env_last
from marinenav_env.state import Parameters, RewardParameters, Scenario, State
from marinenav_env.support import plugins
from marinenav_env.support.validation import ConfigError, require

MAX_PENALTY_ASTERN_SPEED = 0.5
"""Speed astern at which the penalty for going astern reaches its maximum (m/s)."""
MAX_PENALTY_TURN, MAX_PENALTY_SPEED_CHANGE = 0.1, 0.5
"""Changes of course (rad) and of speed (m/s) in a step at which the penalties for manoeuvres reach their maximum."""


class RewardInputs(NamedTuple):
    """Argument of a reward function: a control step of all robots, with its events, states and parameters."""

    progress: Tensor
    """[E, R] decrease of the distance to the goal in this step, along the route (m)."""
    phi: Tensor
    """[E, R] turn angle that the rules of the sea require (rad), 0 if no rule applies."""
    collided: Tensor
    """[E, R] bool: the robot collided in this step."""
    arrived: Tensor
    """[E, R] bool: the robot arrived in this step, without a collision."""
    active: Tensor
    """[E, R] bool: the robot was active before the step."""
    before: State
    """State before the step, batch [E]."""
    after: State
    """State after the motion of the step, batch [E]; the flags of the robots are still those before the step."""
    scenario: Scenario
    """Scenarios, batch [E]."""
    parameters: Parameters
    """Parameters of vessels, sensors and the published reward, batch [E], or [1] when shared."""
    observation: dict[str, Tensor]
    """Entries of the observation after the step by name, [E, R, ...]."""
    config: WorldConfig
    """Configuration shared by all environments."""


class _HostReadRefusal(TorchDispatchMode):
    """Context that refuses to read a value of a tensor, which would stand for all environments."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            raise TypeError("it reads a value of a tensor, as if and float do; torch.where chooses for each robot")
        return func(*args, **kwargs or {})


RewardFunction = Callable[[RewardInputs], Tensor]
"""Function that returns the rewards [E, R] of all robots in a step."""
PUBLISHED_TERMS = ("timestep", "progress", "COLREGs", "collision", "goal")
"""Names of the terms of the published reward (arXiv 2412.09466)."""
ROLE_TERMS = ("give_way", "stand_on", "port_turn", "slowing", "astern", "off_course", "broken_duty")
"""Names of the penalties by role under the COLREGs; their weights are the settings ``world.reward.NAME_penalty``."""


def custom_reward_function(config: WorldConfig) -> RewardFunction | None:
    """Return the user-defined reward function of a configuration; None if it names none.

    Raises:
        ConfigError: when the configuration names a function that cannot be loaded or called.
    """
    name = config.reward.function
    if not name:
        return None
    require(not role_term_names(config), "world.reward.function", name, "left out with penalties by role")
    plugin = plugins.resolve(plugins.REWARDS, name)
    require(callable(plugin), "world.reward.function", name, "a function of RewardInputs")
    function: RewardFunction = plugin

    def checked_function(step: RewardInputs) -> Tensor:
        """Return the rewards of the user-defined function; refuse reads of values, and fewer rewards than robots."""
        context: Any = nullcontext if torch.compiler.is_compiling() else _HostReadRefusal  # the compiler refuses, too
        with context():
            reward: Any = function(step)
        if not isinstance(reward, Tensor) or reward.numel() < step.active.numel():
            shape = list(reward.shape) if isinstance(reward, Tensor) else type(reward).__name__
            allowed = f"a tensor [E, R], a reward for each robot, here {list(step.active.shape)}"
            raise ConfigError(f"{name}: gives {shape}; must be {allowed}")
        return reward

    return checked_function


def role_term_names(config: WorldConfig) -> tuple[str, ...]:
    """Return the names of the ROLE_TERMS whose weights, in the settings ``world.reward``, are not 0."""
    return tuple(name for name in ROLE_TERMS if getattr(config.reward, f"{name}_penalty"))


def term_names(config: WorldConfig) -> tuple[str, ...]:
    """Return the names of the terms that add up to the reward of a configuration.

    The terms of a user-defined function are unknown; penalties by role of weight 0 are left out.
    """
    if config.reward.function:
        return ()
    return (*PUBLISHED_TERMS, *role_term_names(config))


def reward_and_terms(function: RewardFunction | None, step: RewardInputs) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the rewards [E, R] and their terms by name ([E, R] or broadcastable); none for a user-defined function."""
    if function is not None:
        return function(step), {}
    terms = published_terms(step.progress, step.phi, step.collided, step.arrived, step.parameters.rules)
    reward = reduce(add, terms.values())
    if role_term_names(step.config):
        by_role = role_terms(step)
        reward, terms = reward + reduce(add, by_role.values()), terms | by_role
    return reward, {name: terms[name] for name in term_names(step.config)}


def role_terms(step: RewardInputs) -> dict[str, Tensor]:
    """Return the weighted penalties by role, and those for going astern and off course, by name, all [E, R].

    Penalties by role apply between vessels in sensor range whose closest approach is ahead, within
    ``colregs.horizon``; d is ``passing_distance``, or ``colregs.domain`` where that is 0. Positions and
    velocities are the true ones.

    - give_way, for a vessel that must keep clear: the passage that the current courses lead to. The penalty rises from
      0 at a distance of d or more on the required side, through 1 at a collision, to 2 at d on the wrong side, and
      falls to 0 at twice that; for overtaking, it rises from 0 to 1 on either side. It is multiplied by a factor that
      rises from 0 at the edge of the sensor range to 1 at a distance of d. With a ``passing_margin``, the rise is the
      mean of this rise and of a steeper one, from 0 at d to 1 at this margin within d (1.5 at d on the wrong side), so
      that passing at d pays off, and so does every metre where d is not possible.
    - stand_on, for a vessel that must stand on: changes of course and speed while both would pass within
      d and are farther apart than ``stand_on_until``, unless it must keep clear of a third vessel.
    - port_turn, for both, head-on or crossing: turns to port while they come closer and would pass
      within 2 d (rules 14, 15, 17 c).
    - slowing, for both, head-on: slowing down without a turn to starboard where they would pass
      within d. Otherwise they would stop as soon as they detect each other, which leaves no passage
      to penalise. With a ``steerage_speed`` both are assumed to make at least this speed ahead.
    - broken_duty: 1 in a step in which a vessel breaks a duty of an encounter, see rules.encounters.
    - off_course, for a vessel that detects nothing: speed across the line to its goal. Otherwise it
      could leave its course before it detects another vessel, so that no rule ever applies.
    """
    weights, rules = step.config.reward, step.config.colregs
    seen = relative_motion(step.after.pose, step.after.velocity_ground)
    role = roles(seen, rules)
    if weights.steerage_speed:
        seen = _assume_steerage(step.after, seen, role == HEAD_ON, weights.steerage_speed)
    passing = weights.passing_distance or rules.domain
    share = seen.dcpa / passing
    reach, near = _approaching(step, seen)

    clear = _passage_penalty(share, role, min(weights.passing_margin, passing) / passing)
    # 0 at the edge of the sensor range, since otherwise vessels would keep clear of those they cannot detect.
    span = (reach - passing).clamp_min(1e-3)  # the sensor range may be below the passing distance
    clear = clear * ((reach - seen.distance) / span).clamp(0.0, 1.0)
    give_way = torch.where(near, clear, 0.0).amax(1)

    held = near & (share.abs() < 1.0) & (seen.distance > rules.stand_on_until)
    held = held & ((role == STAND_ON) | (role == OVERTAKEN))
    stands = torch.where(held, 1.0, 0.0).amax(1) * torch.where(give_way > 0.0, 0.0, 1.0)
    port = torch.where((role != OVERTAKING) & (role != OVERTAKEN) & (share.abs() < 2.0), 1.0, 0.0)
    meets = torch.where(near, port, 0.0).amax(1)
    turn = _heading_change(step.before, step.after) / MAX_PENALTY_TURN  # to starboard
    slowing = (_speed_ahead(step.before) - _speed_ahead(step.after)) / MAX_PENALTY_SPEED_CHANGE
    slower = slowing.clamp(0.0, 1.0) * (1.0 - turn.clamp(0.0, 1.0))
    head_on = torch.where(near & (role == HEAD_ON) & (share.abs() < 1.0), 1.0, 0.0).amax(1)
    astern = (-_speed_ahead(step.after) / MAX_PENALTY_ASTERN_SPEED).clamp(0.0, 1.0)
    terms = {
        "give_way": weights.give_way_penalty * give_way,
        "stand_on": weights.stand_on_penalty * stands * _manoeuvre_share(step.before, step.after),
        "port_turn": weights.port_turn_penalty * (-turn).clamp(0.0, 1.0) * meets,
        "slowing": weights.slowing_penalty * slower * head_on,
        "astern": weights.astern_penalty * astern,
        "off_course": weights.off_course_penalty * _off_course_speed(step),
    }
    if weights.broken_duty_penalty:
        terms["broken_duty"] = weights.broken_duty_penalty * _breaks_duty(step)
    return {name: env_first(term) for name, term in terms.items()}


def _approaching(step: RewardInputs, seen: RelativeMotion) -> tuple[Tensor, Tensor]:
    """Return the distance at which vessels see others (m), and which pairs do and come closer, [R, R, E] each."""
    active = env_last(step.active)
    sensor, vessel = step.parameters.sensor, step.parameters.vessel
    # As in perception: the range of the own sensor, and the radius of the other vessel.
    reach = env_last(sensor.range)[:, None] + env_last(vessel.detect_radius)
    near = (seen.distance <= reach) & (seen.tcpa > 0.0) & (seen.tcpa <= step.config.colregs.horizon)
    near = near & active & active[:, None]
    shores = hiding_shores(step.config, step.scenario)
    if shores is not None:
        near = near & ~hidden_pairs(step.after.pose, shores)
    return reach, near


def _assume_steerage(state: State, seen: RelativeMotion, chosen: Tensor, min_speed: float) -> RelativeMotion:
    """Return pairs of vessels, with both of chosen pairs assumed to make at least a speed (m/s) ahead."""
    heading = env_last(state.pose)[2]
    vx, vy, turn = env_last(state.velocity_ground)
    lacking = (min_speed - _speed_ahead(state)).clamp_min(0.0)
    velocity = torch.stack((vx + lacking * heading.cos(), vy + lacking * heading.sin(), turn))
    assumed = relative_motion(state.pose, env_first(velocity))
    tcpa, dcpa = (torch.where(chosen, new, old) for new, old in ((assumed.tcpa, seen.tcpa), (assumed.dcpa, seen.dcpa)))
    return seen._replace(tcpa=tcpa, dcpa=dcpa)


def _passage_penalty(share: Tensor, role: Tensor, margin: float) -> Tensor:
    """Return the penalty [R, R, E] of each vessel for how it is about to pass each other one; arguments as below."""
    wrong_side = torch.minimum(_distance_penalty(share, margin), 2.0 * (2.0 + share)).clamp_min(0.0)
    too_close = _distance_penalty(share.abs(), margin).clamp_min(0.0)
    clear = torch.where((role == HEAD_ON) | (role == GIVE_WAY), wrong_side, 0.0)
    return torch.where(role == OVERTAKING, too_close, clear)


def _distance_penalty(share: Tensor, margin: float) -> Tensor:
    """Return the penalty for a distance and a margin of steeper rise (0: none), as shares of the passing distance."""
    whole = 1.0 - share
    return 0.5 * (whole + (whole / margin).clamp_max(1.0)) if margin else whole


def _off_course_speed(step: RewardInputs) -> Tensor:
    """Return the speed across the line to the goal (m/s) of vessels that detect nothing, at most 1, [R, E]."""
    (x, y, _), (vx, vy, _) = env_last(step.after.pose), env_last(step.after.velocity_ground)
    goal_x, goal_y = env_last(next_waypoint(step.after, step.scenario))
    dx, dy = goal_x - x, goal_y - y
    across = (dx * vy - dy * vx).abs() / torch.sqrt(dx * dx + dy * dy).clamp_min(1e-3)
    free = ~step.observation["objects_mask"].any(-1)
    return across.clamp_max(1.0) * env_last(free)


def _breaks_duty(step: RewardInputs) -> Tensor:
    """Return 1 for vessels that break a duty in this step, else 0, [R, E]."""
    before, after = step.before.encounters, step.after.encounters
    if before is None or after is None:
        weight = step.config.reward.broken_duty_penalty
        raise ConfigError(f"world.reward.broken_duty_penalty={weight}: must be 0 for states without encounters")
    return newly_broken_duties(before, after).to(after.dtype)


def _manoeuvre_share(before: State, after: State) -> Tensor:
    """Return the change of course and speed in a step, as a share of a full manoeuvre from 0 to 1, [R, E]."""
    turn = _heading_change(before, after)
    change = _speed_through_water(after) - _speed_through_water(before)
    return (turn.abs() / MAX_PENALTY_TURN + change.abs() / MAX_PENALTY_SPEED_CHANGE).clamp_max(1.0)


def _heading_change(before: State, after: State) -> Tensor:
    """Return the change of heading in a step (rad), positive to starboard, [R, E]."""
    return wrap_to_pi(env_last(after.pose)[2] - env_last(before.pose)[2])


def _speed_ahead(state: State) -> Tensor:
    """Return the speed ahead through the water (m/s), [R, E]."""
    heading = env_last(state.pose)[2]
    vx, vy = env_last(state.velocity_water)[:2]
    return heading.cos() * vx + heading.sin() * vy


def _speed_through_water(state: State) -> Tensor:
    """Return the speed through the water in any direction (m/s), [R, E]."""
    vx, vy = env_last(state.velocity_water)[:2]
    return torch.sqrt(vx * vx + vy * vy)


def published_terms(
    progress: Tensor, phi: Tensor, collided: Tensor, arrived: Tensor, rules: RewardParameters
) -> dict[str, Tensor]:
    """Return the terms of the published reward by name, [E, R] or broadcastable; arguments as in RewardInputs."""
    # One of the last two terms is 0, so that their sum with the other terms is rounded once.
    return {
        "timestep": rules.timestep_penalty[:, None],
        "progress": progress,
        "COLREGs": rules.COLREGs_penalty[:, None] * phi,
        "collision": torch.where(collided, rules.collision_penalty[:, None], 0.0),
        "goal": torch.where(arrived & ~collided, rules.goal_reward[:, None], 0.0),
    }
