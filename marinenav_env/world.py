"""One control step of the whole world: dynamics, perception, rules of the sea, reward, endings.

A pure function of tensors: no random numbers are drawn here and nothing is read on the host, so
that it compiles into one graph and can be captured.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from tensordict import TensorClass
from torch import Tensor

from marinenav_env.colregs import required_turn
from marinenav_env.config import WorldConfig
from marinenav_env.current import current_velocity
from marinenav_env.dynamics import control_step, wrap_to_two_pi
from marinenav_env.endings import endings
from marinenav_env.host_reads import cheap_to_ask
from marinenav_env.layout import reverse
from marinenav_env.perception import Noise, observe
from marinenav_env.reward import step_reward
from marinenav_env.state import Observation, Outcome, Parameters, Scenario, State

Tensors = TypeVar("Tensors", bound=TensorClass)


def where(mask: Tensor, new: Tensors, old: Tensors) -> Tensors:
    """Take environments from ``new`` where the mask [E] is true and from ``old`` elsewhere."""

    def pick(a: Tensor, b: Tensor) -> Tensor:
        # The old ones come first: the first operand decides the layout of the result.
        return torch.where(kept.view(-1, *[1] * (b.ndim - 1)), b, a)

    kept = ~mask
    return new.apply(pick, old)


def restart(done: Tensor, pool: Tensors, index: Tensor, old: Tensors) -> Tensors:
    """Take environments from a pool where ``done`` [E] is true and from ``old`` elsewhere.

    Args:
        done: [E] bool.
        pool: what to take from.
        index: [E] int64, which entry of the pool each environment would take.
        old: batch [E]; is not changed.
    """
    if not cheap_to_ask(done.device):
        return where(done, pool[index], old)
    # Only the few that are done are gathered.
    rows = done.nonzero().squeeze(-1)  # host: see cheap_to_ask
    chosen = index[rows]

    def pick(a: Tensor, b: Tensor) -> Tensor:
        return a.clone().index_copy_(0, rows, b.index_select(0, chosen))

    return old.apply(pick, pool)


def initial_state(scenario: Scenario, core_radius: Tensor) -> State:
    """State at the start of an episode.

    Args:
        scenario: batch [E].
        core_radius: [E or 1] (m).
    """
    x, y = scenario.start.unbind(-1)
    current = current_velocity(x, y, scenario.core_position, scenario.core_circulation, core_radius)
    drift = torch.stack((*current, torch.zeros_like(x)), -1)
    heading = wrap_to_two_pi(scenario.heading)
    never = torch.zeros_like(scenario.robot_mask)
    return State(
        pose=torch.cat((scenario.start, heading[..., None]), -1),
        velocity_water=scenario.velocity.clone(),
        velocity_ground=scenario.velocity + drift,
        thrust=scenario.thrust.clone(),
        active=scenario.robot_mask.clone(),
        collided=never,
        arrived=never.clone(),
        steps=torch.zeros_like(scenario.level),
        batch_size=scenario.batch_size,
    )


def goal_distance(state: State, scenario: Scenario) -> Tensor:
    """Distance of every robot to its goal (m), [E, R]."""
    goal_x, goal_y = reverse(scenario.goal)
    x, y, _ = reverse(state.pose)
    return reverse(torch.sqrt((goal_x - x).square() + (goal_y - y).square()))


def advance(
    state: State,
    scenario: Scenario,
    parameters: Parameters,
    rates: Tensor,
    noise: Noise,
    quantiles: Tensor,
    config: WorldConfig,
) -> tuple[State, Observation, Outcome]:
    """Advance every environment by one control step.

    The observation that comes back is that of the robots active before the step: a robot that
    ends in this step still gets its last one, and is still seen by the others.

    Args:
        state: batch [E].
        scenario: batch [E].
        parameters: batch [E or 1].
        rates: [E, R, 2] commanded thrust rates (N/s); those of inactive robots are ignored.
        noise: one draw of measurement noise.
        quantiles: von Mises quantile table.
        config: everything that is the same for all environments.

    Returns:
        The next state, the observation, and the outcome.
    """
    vessel, sensor, rules = parameters.vessel, parameters.sensor, parameters.rules
    before = goal_distance(state, scenario)
    moved = _moved(state, scenario, parameters, rates, config)
    observation, touching = observe(
        moved, scenario, vessel, sensor, quantiles, noise, config.sensor.slots
    )
    colregs, phi = required_turn(observation, vessel.radius, config.colregs)
    after = goal_distance(moved, scenario)
    collided = touching & state.active
    arrived = (after <= vessel.goal_distance) & state.active & ~collided
    reward = step_reward(before - after, phi, collided, arrived, rules)
    energy = vessel.power_coefficient * moved.thrust.abs().sum(-1) * (config.dt * config.substeps)

    moved.collided = state.collided | collided
    moved.arrived = state.arrived | arrived
    moved.active = state.active & ~collided & ~arrived
    ended = endings(
        moved.collided,
        moved.arrived,
        scenario.robot_mask,
        moved.steps,
        config.max_steps,
        config.ends_at_first_collision,
    )
    outcome = Outcome(
        reward=torch.where(state.active, reward, 0.0),
        collided=collided,
        arrived=arrived,
        colregs=colregs & state.active,
        phi=phi,
        energy=torch.where(state.active, energy, 0.0),
        terminated=ended.terminated,
        truncated=ended.truncated,
        episode_terminated=ended.episode_terminated,
        episode_done=ended.episode_done,
        batch_size=state.batch_size,
    )
    return moved, observation, outcome


def _moved(
    state: State, scenario: Scenario, parameters: Parameters, rates: Tensor, config: WorldConfig
) -> State:
    """The state after the motion of a control step; nobody has collided or arrived yet."""
    new = control_step(
        state, rates, scenario, parameters.vessel, parameters.rules.core_radius, config.dt,
        config.substeps,
    )  # fmt: skip
    old = (state.pose, state.velocity_water, state.velocity_ground, state.thrust)
    pose, velocity_water, velocity_ground, thrust = (
        torch.where(state.active[..., None], after, before)
        for after, before in zip(new, old, strict=True)
    )
    return State(
        pose=pose,
        velocity_water=velocity_water,
        velocity_ground=velocity_ground,
        thrust=thrust,
        active=state.active,
        collided=state.collided,
        arrived=state.arrived,
        steps=state.steps + 1,
        batch_size=state.batch_size,
    )
