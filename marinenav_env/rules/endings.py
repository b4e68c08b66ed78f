"""Endings of robots and of episodes, by collision, arrival or time limit (docs/world.md, "Time")."""

from torch import Tensor


def compute_endings(
    collided: Tensor, arrived: Tensor, present: Tensor, steps: Tensor, max_steps: int, ends_at_first_collision: bool
) -> dict[str, Tensor]:
    """Return which robots and episodes have ended, by the names in state.Outcome.

    ``collided``, ``arrived`` (in this step or earlier) and ``present`` (exists, controlled by actions) are [E, R] bool,
    ``steps`` [E] counts the control steps since the start of the episode.
    """
    terminated = collided | arrived | ~present
    episode_terminated = terminated.all(-1)
    if ends_at_first_collision:
        episode_terminated = episode_terminated | collided.any(-1)
    episode_done = episode_terminated | (steps >= max_steps)
    return {
        "terminated": terminated,
        "truncated": episode_done[:, None] & ~terminated,
        "episode_terminated": episode_terminated,
        "episode_done": episode_done,
    }
