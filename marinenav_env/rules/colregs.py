"""Rules of the sea (COLREGs): the angle by which a robot should turn to starboard for another vessel."""

from __future__ import annotations

import torch
from torch import Tensor

from marinenav_env.config import ColregsConfig
from marinenav_env.physics.dynamics import wrap_to_pi
from marinenav_env.runtime.layout import env_first, env_last
from marinenav_env.state import Observation


def required_turn(observation: Observation, own_radius: Tensor, config: ColregsConfig) -> tuple[Tensor, Tensor]:
    """Return the turn that the rules of the sea require (docs/world.md, "Rules of the sea").

    Returns:
        Whether a rule applies, [E, R] bool, and the turn to starboard phi (rad), [E, R], for the nearest object to
        which a rule applies; 0 if there is none.
    """
    # Tensors of the own vessel are [R, E], those of other vessels [K, R, E].
    u, v = env_last(observation.self_state)[2:4]
    px, py, vx, vy, radius = env_last(observation.objects_state)
    # Stacked, so that compiled code computes them once per robot, not once per slot.
    own_speed, course = torch.stack((torch.sqrt(u * u + v * v), torch.atan2(v, u)))
    other_speed = torch.sqrt(vx * vx + vy * vy)
    fast = (own_speed >= config.min_speed) & (other_speed >= config.min_speed)

    # Own position and velocity in the frame at the object with x along its velocity. The direction
    # of a slow object is meaningless, but no rule applies to it either.
    speed = other_speed.clamp_min(1e-6)
    cos, sin = vx / speed, vy / speed
    x, y = -(cos * px + sin * py), -(cos * py - sin * px)
    psi = torch.atan2(cos * v - sin * u, cos * u + sin * v)
    crossing = (
        (x >= config.crossing_x[0])
        & (x <= config.crossing_x[1])
        & (y >= config.crossing_y[0])
        & (y <= config.crossing_y[1])
        & ~(y - config.crossing_corner_y > -config.crossing_corner_slope * (x - config.crossing_x[1]))
        & (psi >= config.crossing_heading[0])
        & (psi <= config.crossing_heading[1])
    )
    head_on = (
        (x >= config.head_on_x[0])
        & (x <= config.head_on_x[1])
        & (y.abs() <= config.head_on_half_width)
        & (psi.abs() > config.head_on_heading)
    )

    # Pass the object on the tangent to its disc, with room for the own hull.
    pass_radius = radius + config.clearance
    distance = torch.sqrt(px * px + py * py)
    outside = distance >= pass_radius
    safe_distance = torch.where(outside, distance, pass_radius).clamp_min(1e-6)
    tangent = torch.sqrt((safe_distance.square() - pass_radius.square()).clamp_min(0.0))
    desired = (
        torch.atan2(py, px)
        + torch.asin((pass_radius / safe_distance).clamp(-1.0, 1.0))
        + torch.atan2(env_last(own_radius), tangent)
    )
    angle = wrap_to_pi(desired - course)
    seen = env_last(observation.objects_mask)
    applies = seen & fast & (crossing | head_on) & outside & (angle > 0.0)
    return _first_applicable(applies, angle)


def _first_applicable(applies: Tensor, angle: Tensor) -> tuple[Tensor, Tensor]:
    """Return whether a rule applies for any slot [K, R, E], and the angle of the first such slot or 0; both [E, R]."""
    # Numbers, since compiled code handles bool and int64 slowly on a CPU.
    count = applies.shape[0]
    slot = torch.arange(count, dtype=angle.dtype, device=angle.device)[:, None, None]
    place = torch.where(applies, slot, count)
    first = place.amin(0)
    phi = torch.where((place == first) & (place < count), angle, 0.0).sum(0)
    return env_first(first < count), env_first(phi)
