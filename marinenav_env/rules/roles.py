"""Relative motion of pairs of vessels, and their roles under the rules of the sea.

International Regulations for Preventing Collisions at Sea, 1972: overtaking (rule 13), head-on
(14), crossing (15), the give-way vessel (16), the stand-on vessel (17). Roles follow from the current
positions and headings only, as for a policy without memory.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from marinenav_env.config import ColregsConfig
from marinenav_env.physics.dynamics import wrap_to_pi
from marinenav_env.runtime.layout import env_last

HEAD_ON, GIVE_WAY, STAND_ON, OVERTAKING, OVERTAKEN = range(1, 6)
"""Numbers of the roles, their indices in ROLES."""
ROLES = ("none", "head-on", "give-way", "stand-on", "overtaking", "overtaken")
"""Names of the roles by number; "none" is the role of a vessel towards itself."""
DEFAULT_RULES = ColregsConfig()
MIN_RELATIVE_SPEED = 1e-6
"""Relative speed up to which two vessels count as at rest towards each other (m/s), since rounding would decide the
sign of the time to the closest approach."""


class RelativeMotion(NamedTuple):
    """Relative motion of every vessel (first axis, own) and every vessel (second axis, other); all [R, R, E]."""

    distance: Tensor
    """Distance between the centres (m)."""
    tcpa: Tensor
    """Time to the closest point of approach (TCPA, s) if both keep course and speed; below 0 for vessels that move
    apart, and 0 for vessels at rest towards each other, see MIN_RELATIVE_SPEED."""
    dcpa: Tensor
    """Signed distance at the closest point of approach (DCPA, m), equal for both vessels; above 0 if the line of sight
    turns to port, as when vessels meet port to port, or when a vessel from starboard passes ahead."""
    bearing: Tensor
    """Bearing of the other vessel from the own bow (rad, positive to starboard)."""
    aspect: Tensor
    """Bearing of the own vessel from the bow of the other vessel (rad, positive to starboard)."""
    relative_heading: Tensor
    """Heading of the other vessel minus the own heading, in [-pi, pi) (rad)."""


def relative_motion(pose: Tensor, velocity: Tensor) -> RelativeMotion:
    """Return the relative positions and motion of all pairs, from pose and velocity over ground of State."""

    def difference(values: Tensor) -> Tensor:
        return values[None] - values[:, None]

    x, y, heading = env_last(pose)
    px, py = difference(x), difference(y)
    wx, wy = (difference(component) for component in env_last(velocity)[:2])
    speed = torch.sqrt(wx * wx + wy * wy).clamp_min(MIN_RELATIVE_SPEED)
    direction = torch.atan2(py, px)
    bearing = wrap_to_pi(direction - heading[:, None])
    return RelativeMotion(
        distance=torch.sqrt(px * px + py * py),
        tcpa=torch.where(speed > MIN_RELATIVE_SPEED, -(px * wx + py * wy) / speed.square(), 0.0),
        dcpa=(py * wx - px * wy) / speed,
        bearing=bearing,
        aspect=bearing.transpose(0, 1),
        relative_heading=wrap_to_pi(difference(heading)),
    )


def roles(seen: RelativeMotion, rules: ColregsConfig = DEFAULT_RULES) -> Tensor:
    """Return the role of every vessel towards every other, as if there were a risk of collision, [R, R, E].

    A vessel that comes from astern, with the other ahead, is overtaking. Vessels on nearly reciprocal courses, or that
    both have each other to port, are head-on. Otherwise, the vessel that has the other one to starboard gives way.
    """
    to_port = seen.bearing <= 0.0
    bearing, aspect = seen.bearing.abs(), seen.aspect.abs()
    head_on = (seen.relative_heading.abs() > rules.head_on_courses) | (to_port & (seen.aspect <= 0.0))
    crossing = torch.where(to_port, STAND_ON, GIVE_WAY)
    role = torch.where(head_on, HEAD_ON, crossing)
    role = torch.where((bearing > rules.stern_bearing) & (aspect <= rules.overtaking_bearing), OVERTAKEN, role)
    role = torch.where((aspect > rules.stern_bearing) & (bearing <= rules.overtaking_bearing), OVERTAKING, role)
    return torch.where(seen.distance > 0.0, role, 0)
