"""Reward of a control step: the published one, or a function of the user's.

A user's function is named by ``world.reward.function``, takes RewardInputs and returns the rewards
[E, R] of all robots; those of robots that were not active are set to zero. It is compiled with the
world, so it must be a pure function of tensors, without Python loops over environments, without
random numbers and without reading values on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import torch
from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.physics.dynamics import wrap_to_pi
from marinenav_env.rules.roles import (
    GIVE_WAY,
    HEAD_ON,
    OVERTAKEN,
    OVERTAKING,
    STAND_ON,
    Pairs,
    pairs,
    roles,
)
from marinenav_env.runtime.layout import env_first, env_last
from marinenav_env.state import Parameters, Rules, Scenario, State
from marinenav_env.support import plugins
from marinenav_env.support.validation import ConfigError, require

ASTERN = 0.5
"""Going astern at this speed or faster costs most (m/s)."""
TURN, CHANGE = 0.1, 0.5
"""A step's change of course (rad) or of speed (m/s) that counts as leaving course and speed."""


class RewardInputs(NamedTuple):
    """Arguments of a reward function."""

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
PUBLISHED_TERMS = ("timestep", "progress", "COLREGs", "collision", "goal")
ROLE_TERMS = ("give_way", "stand_on", "port_turn", "slowing", "astern", "off_course")
"""Each has a weight ``NAME_penalty`` in ``world.reward``."""


def reward_function(config: WorldConfig) -> RewardFunction:
    """The reward that a configuration asks for.

    Raises:
        ConfigError: when it names a function that cannot be loaded or called.
    """
    name, by_role = config.reward.function, any(_role_weights(config).values())
    if not name:
        return reward_by_role if by_role else published_reward
    require(not by_role, "world.reward.function", name, "left out with penalties by role")
    found = plugins.resolve(plugins.REWARDS, name)
    require(callable(found), "world.reward.function", name, "a function of RewardInputs")
    function: RewardFunction = found

    def of_every_robot(step: RewardInputs) -> Tensor:
        """The function's rewards, unless they are fewer than robots."""
        reward: Any = function(step)
        if not isinstance(reward, Tensor) or reward.numel() < step.active.numel():
            shape = list(reward.shape) if isinstance(reward, Tensor) else type(reward).__name__
            raise ConfigError(
                f"{name}: gives {shape}; must be a tensor [E, R], a reward for each "
                f"robot, here {list(step.active.shape)}"
            )
        return reward

    return of_every_robot


def goal_distance(state: State, scenario: Scenario) -> Tensor:
    """Distance of every robot to its goal (m), [E, R]."""
    goal_x, goal_y = env_last(scenario.goal)
    x, y, _ = env_last(state.pose)
    return env_first(torch.sqrt((goal_x - x).square() + (goal_y - y).square()))


def _role_weights(config: WorldConfig) -> dict[str, float]:
    """Return the weights of ROLE_TERMS by name."""
    return {name: getattr(config.reward, f"{name}_penalty") for name in ROLE_TERMS}


def term_names(config: WorldConfig) -> tuple[str, ...]:
    """Return the names of the terms that the reward of a configuration is the sum of.

    A function of the user's has no known terms; role terms of weight 0 are left out.
    """
    if config.reward.function:
        return ()
    return (*PUBLISHED_TERMS, *(name for name, each in _role_weights(config).items() if each))


def reward_and_terms(function: RewardFunction, step: RewardInputs) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the rewards [E, R] by a function, and their terms by name, see ``term_names``."""
    if function not in (published_reward, reward_by_role):
        return function(step), {}
    terms = published_terms(step.progress, step.phi, step.collided, step.arrived, step.parameters.rules)
    reward = _total(terms)
    if function is reward_by_role:
        by_role = role_terms(step)
        reward, terms = reward + _total(by_role), terms | by_role
    return reward, {name: terms[name] for name in term_names(step.config)}


def published_reward(step: RewardInputs) -> Tensor:
    """The published reward [E, R]; see ``step_reward``."""
    return reward_and_terms(published_reward, step)[0]


def reward_by_role(step: RewardInputs) -> Tensor:
    """The published reward and the penalties by role [E, R]."""
    return reward_and_terms(reward_by_role, step)[0]


def _total(terms: dict[str, Tensor]) -> Tensor:
    """Return the sum of terms, in their order."""
    return reduce(add, terms.values())


def role_terms(step: RewardInputs) -> dict[str, Tensor]:
    """Penalties for breaking the rules by role, for going astern and off course, [E, R] each.

    In force between vessels in sensor range that come closest within ``colregs.horizon``. Who must
    keep clear pays for the passage that the present courses lead to: from 0 at a distance of d
    (``passing_distance``; ``colregs.domain`` where that is 0) or more on the required side, through
    1 at a collision, to 2 at d on the wrong side, and 0 again at twice that; overtaking, from 0 to
    1 on either side; times a factor that rises from 0 at first sight to 1 where they are d apart.
    With a ``passing_margin`` the rise is the mean of that and of a steeper one, from 0 at d to 1 so
    far within d and 1 from there on (1.5 at d on the wrong side): keeping clear pays, and so does
    every metre where that is not possible.
    The other one pays for changes of course and speed while they are farther apart than
    ``stand_on_until``, unless it must keep clear of a third. Meeting head-on or crossing, either
    one pays for turns to port while they come closer and would pass within 2 d (rules 14, 15,
    17 c). Meeting head-on, they pay for slowing down without a turn to starboard where they
    would pass within d: else they stop at first sight, and there is no passage to pay for. With a
    ``steerage_speed`` there is one: each is taken to make at least this speed ahead.

    A vessel that detects nothing pays for its speed across the line to its goal: else one may leave
    its course before it sees anybody, so that no rule ever applies. Positions and velocities
    are the true ones.
    """
    weights, rules = step.config.reward, step.config.colregs
    seen = pairs(step.after.pose, step.after.velocity_ground)
    role = roles(seen)
    if weights.steerage_speed:
        seen = _under_way(step.after, seen, role == HEAD_ON, weights.steerage_speed)
    passing = weights.passing_distance or rules.domain
    share = seen.miss / passing
    active = env_last(step.active)
    sensor, vessel = step.parameters.sensor, step.parameters.vessel
    # As in perception: the own sensor's range, and the other's radius.
    reach = env_last(sensor.range)[:, None] + env_last(vessel.detect_radius)
    near = (seen.distance <= reach) & (seen.time > 0.0) & (seen.time <= rules.horizon)
    near = near & active & active[:, None]

    clear = _unclear(share, role, min(weights.passing_margin, passing) / passing)
    # Nothing is due at first sight: else vessels would keep clear of those that they cannot see.
    span = (reach - passing).clamp_min(1e-3)  # sensors may reach less far than that
    clear = clear * ((reach - seen.distance) / span).clamp(0.0, 1.0)
    give_way = torch.where(near, clear, 0.0).amax(1)

    held = near & (share.abs() < 1.0) & (seen.distance > rules.stand_on_until)
    held = held & ((role == STAND_ON) | (role == OVERTAKEN))
    stands = torch.where(held, 1.0, 0.0).amax(1) * torch.where(give_way > 0.0, 0.0, 1.0)
    port = torch.where((role != OVERTAKING) & (role != OVERTAKEN) & (share.abs() < 2.0), 1.0, 0.0)
    meets = torch.where(near, port, 0.0).amax(1)
    turn = _turn(step.before, step.after) / TURN  # to starboard
    slower = ((_ahead(step.before) - _ahead(step.after)) / CHANGE).clamp(0.0, 1.0)
    slower = slower * (1.0 - turn.clamp(0.0, 1.0))
    head_on = torch.where(near & (role == HEAD_ON) & (share.abs() < 1.0), 1.0, 0.0).amax(1)
    astern = (-_ahead(step.after) / ASTERN).clamp(0.0, 1.0)
    terms = {
        "give_way": weights.give_way_penalty * give_way,
        "stand_on": weights.stand_on_penalty * stands * _manoeuvre(step.before, step.after),
        "port_turn": weights.port_turn_penalty * (-turn).clamp(0.0, 1.0) * meets,
        "slowing": weights.slowing_penalty * slower * head_on,
        "astern": weights.astern_penalty * astern,
        "off_course": weights.off_course_penalty * _off_course(step),
    }
    return {name: env_first(each) for name, each in terms.items()}


def _under_way(state: State, seen: Pairs, chosen: Tensor, least: float) -> Pairs:
    """Pairs in which vessels slower ahead than ``least`` (m/s) are taken to make it.

    Args:
        state: of the vessels.
        seen: the pairs as they are, [R, R, E] each.
        chosen: [R, R, E] bool, of which pairs; the others stay as they are.
        least: speed ahead (m/s).
    """
    heading = env_last(state.pose)[2]
    vx, vy, turn = env_last(state.velocity_ground)
    lacking = (least - _ahead(state)).clamp_min(0.0)
    velocity = torch.stack((vx + lacking * heading.cos(), vy + lacking * heading.sin(), turn))
    there = pairs(state.pose, env_first(velocity))
    time, miss = (torch.where(chosen, new, old) for new, old in ((there.time, seen.time), (there.miss, seen.miss)))
    return seen._replace(time=time, miss=miss)


def _unclear(share: Tensor, role: Tensor, margin: float) -> Tensor:
    """What who must keep clear pays for a passage, [R, R, E], before its rise with nearness.

    Args:
        share: signed distance at the closest approach over the passing distance.
        role: of the vessels; 0 for roles that need not keep clear.
        margin: steeper part of the rise, as a share of the passing distance.
    """
    wrong_side = torch.minimum(_missing(share, margin), 2.0 * (2.0 + share)).clamp_min(0.0)
    too_close = _missing(share.abs(), margin).clamp_min(0.0)
    clear = torch.where((role == HEAD_ON) | (role == GIVE_WAY), wrong_side, 0.0)
    return torch.where(role == OVERTAKING, too_close, clear)


def _missing(share: Tensor, margin: float) -> Tensor:
    """Penalty for passing at this share of the passing distance; ``margin`` is a share, too."""
    whole = 1.0 - share
    return 0.5 * (whole + (whole / margin).clamp_max(1.0)) if margin else whole


def _off_course(step: RewardInputs) -> Tensor:
    """Speed across the line to the goal (m/s) of vessels that detect nothing, at most 1, [R, E]."""
    (x, y, _), (vx, vy, _) = env_last(step.after.pose), env_last(step.after.velocity_ground)
    goal_x, goal_y = env_last(step.scenario.goal)
    dx, dy = goal_x - x, goal_y - y
    across = (dx * vy - dy * vx).abs() / torch.sqrt(dx * dx + dy * dy).clamp_min(1e-3)
    free = ~step.observation["objects_mask"].any(-1)
    return across.clamp_max(1.0) * env_last(free)


def _manoeuvre(before: State, after: State) -> Tensor:
    """How much vessels change course and speed in a step, from 0 to 1, [R, E]."""
    turn = _turn(before, after)
    change = _speed(after) - _speed(before)
    return (turn.abs() / TURN + change.abs() / CHANGE).clamp_max(1.0)


def _turn(before: State, after: State) -> Tensor:
    """Change of heading in a step (rad), positive to starboard, [R, E]."""
    return wrap_to_pi(env_last(after.pose)[2] - env_last(before.pose)[2])


def _ahead(state: State) -> Tensor:
    """Speed ahead through the water (m/s), [R, E]."""
    heading = env_last(state.pose)[2]
    vx, vy = env_last(state.velocity_water)[:2]
    return heading.cos() * vx + heading.sin() * vy


def _speed(state: State) -> Tensor:
    """Speed through the water in any direction (m/s), [R, E]."""
    vx, vy = env_last(state.velocity_water)[:2]
    return torch.sqrt(vx * vx + vy * vy)


def step_reward(progress: Tensor, phi: Tensor, collided: Tensor, arrived: Tensor, rules: Rules) -> Tensor:
    """Reward [E, R] of robots that were active before the step; see ``published_terms``."""
    return _total(published_terms(progress, phi, collided, arrived, rules))


def published_terms(
    progress: Tensor, phi: Tensor, collided: Tensor, arrived: Tensor, rules: Rules
) -> dict[str, Tensor]:
    """Return the terms of the published reward by name, [E, R] or broadcast to that.

    Args:
        progress: [E, R] decrease of the distance to the goal (m).
        phi: [E, R] turn angle that the rules of the sea ask for (rad).
        collided: [E, R] bool.
        arrived: [E, R] bool; a collision in the same step outweighs it.
        rules: [E or 1].
    """
    # One of the last two is 0, so that their sum with the others is rounded once.
    return {
        "timestep": rules.timestep_penalty[:, None],
        "progress": progress,
        "COLREGs": rules.COLREGs_penalty[:, None] * phi,
        "collision": torch.where(collided, rules.collision_penalty[:, None], 0.0),
        "goal": torch.where(arrived & ~collided, rules.goal_reward[:, None], 0.0),
    }
