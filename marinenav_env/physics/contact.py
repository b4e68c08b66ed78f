"""Contact of hulls and obstacles: physical and the same for both, whatever sensors perceive."""

from __future__ import annotations

import torch
from torch import Tensor

from marinenav_env.runtime.layout import env_first, env_last
from marinenav_env.state import Scenario, State, Vessel


def touching(state: State, scenario: Scenario, vessel: Vessel) -> Tensor:
    """Tell which active robots touch another active robot or an obstacle; all are discs.

    Args:
        state: batch [E].
        scenario: batch [E].
        vessel: parameters.

    Returns:
        [E, R] bool.
    """
    # Everything of the own robot is [R, E], of another disc [M, 1, E].
    x, y, _ = env_last(state.pose)
    radius = env_last(vessel.radius).expand_as(x)
    # What is not there is infinitely far away: compiled code handles bool slowly on a CPU.
    away, obstacle_away = (
        torch.where(env_last(there), 0.0, torch.inf) for there in (state.active, scenario.obstacle_mask)
    )
    obstacle_x, obstacle_y = env_last(scenario.obstacle_position)
    pairs = (
        (x, obstacle_x),
        (y, obstacle_y),
        (away, obstacle_away),
        (radius, env_last(scenario.obstacle_radius)),
    )
    other_x, other_y, other_away, other_radius = (torch.cat(pair)[:, None] for pair in pairs)
    index = torch.arange(other_x.shape[0], device=x.device)[:, None, None]
    itself = torch.where(index == index[: x.shape[0], 0], torch.inf, 0.0)
    square = (other_x - x).square() + (other_y - y).square() + (other_away + away + itself)
    reach = (other_radius + radius).square()
    return env_first(torch.where(square <= reach, 1.0, 0.0).amax(0) > 0.0)
