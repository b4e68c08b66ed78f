"""Water currents: the sum of Rankine vortices (docs/world.md, "Current")."""

import math

import torch
from torch import Tensor

from marinenav_env.runtime.layout import env_first, env_last


def current_velocity(
    x: Tensor, y: Tensor, core_position: Tensor, core_circulation: Tensor, core_radius: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the velocity of the water along x and y at the positions of robots (m/s), both [E, R].

    A core at distance d moves the water at the speed G d / (2 pi r_c^2) inside its radius r_c and
    G / (2 pi d) outside. The tangent of a clockwise core is the direction towards the core turned by
    +90 degrees; written with the offset instead of the unit vector, both branches become
    offset_turned * G / (2 pi max(d, r_c)^2), which has no singularity.
    """
    if core_position.shape[-2] == 0:
        return torch.zeros_like(x), torch.zeros_like(y)
    # The tensors from here on are [C, R, E].
    core_x, core_y = env_last(core_position)[:, :, None]
    dx, dy = core_x - env_last(x), core_y - env_last(y)
    strength = env_last(core_circulation)[:, None] / (
        2.0 * math.pi * torch.maximum(dx.square() + dy.square(), core_radius.square())
    )
    return env_first((-dy * strength).sum(0)), env_first((dx * strength).sum(0))
