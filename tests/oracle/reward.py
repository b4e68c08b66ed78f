"""Rewards and endings (world specification, section Reward, endings)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RewardParams:
    """Weights; the defaults are those of the world specification."""

    timestep_penalty: float = -0.1
    colregs_penalty: float = -0.1
    collision_penalty: float = -5.0
    goal_reward: float = 10.0


@dataclass(frozen=True)
class Ending:
    """How a robot stands after a control step."""

    terminated: bool
    truncated: bool


def reward(
    distance_before: float,
    distance_after: float,
    phi: float,
    has_collided: bool,
    has_reached: bool,
    params: RewardParams = RewardParams(),
) -> float:
    """Reward of one active robot for one control step; a collision outweighs an arrival."""
    value = params.timestep_penalty + (distance_before - distance_after)
    value += params.colregs_penalty * phi
    if has_collided:
        value += params.collision_penalty
    elif has_reached:
        value += params.goal_reward
    return value


def endings(has_collided: bool, has_reached: bool, steps_taken: int, max_steps: int = 1000) -> Ending:
    """Ending of one robot after steps_taken control steps; a terminated robot is not truncated."""
    terminated = has_collided or has_reached
    return Ending(terminated, not terminated and steps_taken >= max_steps)
