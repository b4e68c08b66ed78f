"""Vessels that follow a recorded or planned track exactly, whatever their thrust, current and weather."""

import torch
from torch import Tensor

from marinenav_env.physics.dynamics import wrap_to_two_pi
from marinenav_env.runtime.layout import env_last, stack_last
from marinenav_env.state import State


def follow_tracks(state: State, track: Tensor, follows: Tensor, seconds: float) -> State:
    """Return a state, after a step of a length in seconds, in which robots are where their tracks have them.

    Between two points of a track [E, R, T, 3] (time, x, y) a vessel keeps course and speed; before the first and after
    the last one it keeps those of the nearest leg. Where it does not move, it keeps its heading. ``follows`` [E, R]
    says which robots have a track; the others are as in ``state``.
    """
    time = state.steps.to(track.dtype) * seconds
    times, x, y = env_last(track)
    # The leg that is sailed: the last one that begins before now, and at least the first.
    leg = (times[1:-1] <= time).sum(0)[None]
    (begin, end), (x0, x1), (y0, y1) = ((each.gather(0, leg)[0], each.gather(0, leg + 1)[0]) for each in (times, x, y))
    rate = 1.0 / (end - begin).clamp_min(1e-6)
    vx, vy = (x1 - x0) * rate, (y1 - y0) * rate
    since = time - begin
    _, _, heading = env_last(state.pose)
    moves = vx.square() + vy.square() > 1e-6
    course = torch.where(moves, wrap_to_two_pi(torch.atan2(vy, vx)), heading)
    pose = stack_last((x0 + since * vx, y0 + since * vy, course))
    velocity = stack_last((vx, vy, torch.zeros_like(vx)))
    chosen = (follows & state.active)[..., None]
    followed = state.clone(recurse=False)
    followed.pose = torch.where(chosen, pose, state.pose)
    followed.velocity_water = torch.where(chosen, velocity, state.velocity_water)
    followed.velocity_ground = torch.where(chosen, velocity, state.velocity_ground)
    return followed
