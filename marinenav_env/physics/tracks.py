"""Vessels that follow a recorded or planned track exactly, whatever their thrust, current and weather."""

import torch
from torch import Tensor

from marinenav_env.physics.dynamics import wrap_to_two_pi
from marinenav_env.runtime.layout import env_first, env_last, stack_last
from marinenav_env.state import Scenario, State


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


def passes_goal(state: State, scenario: Scenario, within: Tensor, seconds: float) -> Tensor:
    """Return which robots [E, R] come within a distance [E, R] (m) of their goals on their tracks in the last step.

    Robots without a track have any value. The step before ``state`` has a length in seconds; all legs that are sailed
    in it count, so that no goal is stepped over.
    """
    assert scenario.track is not None
    now = state.steps.to(scenario.track.dtype) * seconds
    times, x, y = env_last(scenario.track)
    (goal_x, goal_y), begin, span = env_last(scenario.goal), times[:-1], times.diff(dim=0).clamp_min(1e-6)
    vx, vy, to_x, to_y = x.diff(dim=0) / span, y.diff(dim=0) / span, goal_x - x[:-1], goal_y - y[:-1]
    # Seconds on each leg, of which the first began long ago and the last never ends: first, last, and nearest the goal.
    always = torch.full_like(begin[:1], torch.inf)
    first = torch.cat((-always, begin[1:])).maximum(now - seconds) - begin
    last = torch.cat((times[1:-1], always)).minimum(now) - begin
    nearest = ((to_x * vx + to_y * vy) / (vx.square() + vy.square()).clamp_min(1e-6)).maximum(first).minimum(last)
    square = (to_x - nearest * vx).square() + (to_y - nearest * vy).square()
    return env_first(((first <= last) & (square <= env_last(within).square())).any(0))
