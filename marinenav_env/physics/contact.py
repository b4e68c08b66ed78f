"""Contact of hulls with each other, with obstacles and with land, computed from true positions."""

import torch
from torch import Tensor

from marinenav_env.physics.shores import Segments, crossing
from marinenav_env.runtime.layout import env_first, env_last
from marinenav_env.state import Scenario, State, Vessel


def in_contact(state: State, scenario: Scenario, vessel: Vessel) -> Tensor:
    """Return which active robots [E, R] overlap another active robot or an obstacle; all are discs."""
    # Tensors of the own robot are [R, E], those of the other discs [M, 1, E].
    x, y, _ = env_last(state.pose)
    radius = env_last(vessel.radius).expand_as(x)
    # Absent discs are infinitely far away, since compiled code handles bool slowly on a CPU.
    away, obstacle_away = (
        torch.where(env_last(exists), 0.0, torch.inf) for exists in (state.active, scenario.obstacle_mask)
    )
    obstacle_x, obstacle_y = env_last(scenario.obstacle_position)
    pairs = ((x, obstacle_x), (y, obstacle_y), (away, obstacle_away), (radius, env_last(scenario.obstacle_radius)))
    other_x, other_y, other_away, other_radius = (torch.cat(pair)[:, None] for pair in pairs)
    index = torch.arange(other_x.shape[0], device=x.device)[:, None, None]
    itself = torch.where(index == index[: x.shape[0], 0], torch.inf, 0.0)
    square = (other_x - x).square() + (other_y - y).square() + (other_away + away + itself)
    reach = (other_radius + radius).square()
    return env_first(torch.where(square <= reach, 1.0, 0.0).amax(0) > 0.0)


def in_contact_with_land(before: State, after: State, near: Segments, vessel: Vessel) -> Tensor:
    """Return which robots [E, R] overlap land after a step or crossed a shore in it; ``near``: the nearest segments."""
    touches = near.squares().amin(0) <= env_last(vessel.radius).square()
    (x, y, _), (old_x, old_y, _) = env_last(after.pose), env_last(before.pose)
    return env_first(touches | (crossing(near, old_x - x, old_y - y) < 0.0))
