"""Which vessels are in contact (world specification, section Reward, endings)."""

import math
from collections.abc import Sequence

from .perception import Obstacle, Robot


def touches(ego_index: int, robots: Sequence[Robot], obstacles: Sequence[Obstacle]) -> bool:
    """Whether the ego touches an obstacle or another active robot; nobody needs to see it."""
    ego = robots[ego_index]
    if not ego.active:
        return False
    others = [
        (robot.state[0], robot.state[1], robot.radius)
        for j, robot in enumerate(robots)
        if j != ego_index and robot.active
    ]
    return any(
        math.hypot(x - ego.state[0], y - ego.state[1]) <= ego.radius + radius for x, y, radius in [*others, *obstacles]
    )
