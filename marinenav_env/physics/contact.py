"""Contact of hulls with each other, with obstacles and with land, computed from true positions."""

from typing import NamedTuple

import torch
from torch import Tensor

from marinenav_env.physics.shores import Segments, crossing
from marinenav_env.runtime.layout import env_first, env_last
from marinenav_env.state import Scenario, State, Vessel


class Discs(NamedTuple):
    """Discs of all robots, then of all obstacles, each [M, 1, E]."""

    x: Tensor
    y: Tensor
    """Position (m)."""
    radius: Tensor
    """Radius (m)."""
    absent: Tensor
    """Infinite where the slot has no disc, else 0 (m). This is a distance instead of a flag, since
    compiled code handles bool slowly on a CPU."""

    @classmethod
    def of(cls, state: State, scenario: Scenario, radius: Tensor) -> "Discs":
        """Return the discs of active robots of a radius [E or 1, R or 1] (m), and of the obstacles."""
        x, y, _ = env_last(state.pose)
        obstacle_x, obstacle_y = env_last(scenario.obstacle_position)
        away, obstacle_away = (
            torch.where(env_last(exists), 0.0, torch.inf) for exists in (state.active, scenario.obstacle_mask)
        )
        radii = env_last(radius).expand_as(x), env_last(scenario.obstacle_radius)
        pairs = (x, obstacle_x), (y, obstacle_y), radii, (away, obstacle_away)
        return cls(*(torch.cat(pair)[:, None] for pair in pairs))

    def are_others(self, robots: int) -> Tensor:
        """Return whether each disc is another one than that of a robot, [M, R, 1] bool."""
        index = torch.arange(self.x.shape[0], device=self.x.device)[:, None, None]
        return index != index[:robots, 0]


def in_contact(state: State, scenario: Scenario, vessel: Vessel) -> Tensor:
    """Return which active robots [E, R] overlap another active robot or an obstacle; all are discs."""
    # Tensors of the own robot are [R, E], those of the other discs [M, 1, E].
    (x, y, _), discs = env_last(state.pose), Discs.of(state, scenario, vessel.radius)
    itself = torch.where(discs.are_others(len(x)), 0.0, torch.inf)
    away = discs.absent + discs.absent[: len(x), 0] + itself
    square = (discs.x - x).square() + (discs.y - y).square() + away
    reach = (discs.radius + env_last(vessel.radius)).square()
    return env_first(torch.where(square <= reach, 1.0, 0.0).amax(0) > 0.0)


def in_contact_with_land(before: State, after: State, near: Segments, vessel: Vessel) -> Tensor:
    """Return which robots [E, R] overlap land after a step or crossed a shore in it; ``near``: the nearest segments."""
    touches = near.squares().amin(0) <= env_last(vessel.radius).square()
    (x, y, _), (old_x, old_y, _) = env_last(after.pose), env_last(before.pose)
    return env_first(touches | (crossing(near, old_x - x, old_y - y) < 0.0))
