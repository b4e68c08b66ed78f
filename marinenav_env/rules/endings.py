"""Endings of robots and of episodes, by collision, arrival or time limit (docs/world.md, "Time")."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Endings(NamedTuple):
    """Flags of robots and of episodes that have ended, after a step."""

    terminated: Tensor
    """[E, R] bool: the robot has collided or arrived, is absent, or is scripted."""
    truncated: Tensor
    """[E, R] bool: the episode is over before the robot has ended."""
    episode_terminated: Tensor
    """[E] bool: every robot has ended, or a collision ended the episode."""
    episode_done: Tensor
    """[E] bool: the episode is over, by termination or by the time limit."""


def compute_endings(
    collided: Tensor, arrived: Tensor, present: Tensor, steps: Tensor, max_steps: int, ends_at_first_collision: bool
) -> Endings:
    """Return which robots and episodes have ended; absent and scripted robots are terminated.

    ``collided``, ``arrived`` (in this step or earlier) and ``present`` (exists, controlled by actions) are [E, R] bool,
    ``steps`` [E] counts the control steps since the start of the episode.
    """
    terminated = collided | arrived | ~present
    episode_terminated = terminated.all(-1)
    if ends_at_first_collision:
        episode_terminated = episode_terminated | collided.any(-1)
    episode_done = episode_terminated | (steps >= max_steps)
    truncated = episode_done[:, None] & ~terminated
    return Endings(terminated, truncated, episode_terminated, episode_done)
