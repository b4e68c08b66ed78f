"""Water currents: the sum of Rankine vortices, which fades near land (docs/world.md, "Current")."""

import math

import torch
from torch import Tensor

from marinenav_env.physics.shores import shore_clearance
from marinenav_env.runtime.layout import env_first, env_last

_FADE_RADII = 10.0
"""Distance from land within which a current fades, in radii of cores."""


def current_share(position: Tensor, shores: Tensor | None, cores: Tensor, core_radius: Tensor) -> Tensor | None:
    """Return the share of the current that land leaves at positions [E, R, 2], [E, R]; None without land or cores.

    It falls linearly to 0 at the shore, so that no water flows into land.
    """
    if shores is None or cores.shape[-2] == 0:
        return None
    return (shore_clearance(position, shores) / (_FADE_RADII * core_radius[:, None])).clamp(0.0, 1.0)


def current_velocity(
    x: Tensor, y: Tensor, cores: Tensor, circulation: Tensor, core_radius: Tensor, share: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the velocity of the water along x and y at the positions of robots (m/s), both [E, R].

    A core at distance d moves the water at the speed G d / (2 pi r_c^2) inside its radius r_c and
    G / (2 pi d) outside. The tangent of a clockwise core is the direction towards the core turned by
    +90 degrees; written with the offset instead of the unit vector, both branches become
    offset_turned * G / (2 pi max(d, r_c)^2), which has no singularity. ``share`` [E, R] is that of current_share.
    """
    if cores.shape[-2] == 0:
        return torch.zeros_like(x), torch.zeros_like(y)
    # The tensors from here on are [C, R, E].
    core_x, core_y = env_last(cores)[:, :, None]
    dx, dy = core_x - env_last(x), core_y - env_last(y)
    square = torch.maximum(dx.square() + dy.square(), core_radius.square())
    strength = env_last(circulation)[:, None] / (2.0 * math.pi * square)
    if share is not None:
        strength = strength * env_last(share)
    return env_first((-dy * strength).sum(0)), env_first((dx * strength).sum(0))
