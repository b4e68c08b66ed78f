"""Statistics of the current episode of every environment, accumulated over its steps.

Rewards are means over the robots that actions control. At the step that ends an episode the statistics
cover the whole episode; they restart at 0 with the next episode.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.rules.reward import term_names
from marinenav_env.runtime.layout import env_last, stack_last
from marinenav_env.state import State

_COMMON_STATISTICS = ("return", "length", "success", "collision")
"""Names of the first statistics of an episode; those of the terms of the reward follow, and then ``grounding``."""


def statistic_names(config: WorldConfig) -> tuple[str, ...]:
    """Return the names of the statistics of an episode, in the order of their columns.

    ``return`` is the undiscounted sum of the rewards, as a mean over robots, and ``reward/NAME`` is the
    contribution of one term of the reward to it; ``length`` is in control steps; ``success`` is 1 when every
    robot has arrived without a collision, and ``collision`` is 1 when one or more have collided, else 0. In a
    world with shores, ``grounding`` counts collisions with land alone, which ``collision`` leaves out.
    """
    grounding = ("grounding",) if config.scenario.shore_segments else ()
    return (*_COMMON_STATISTICS, *(f"reward/{name}" for name in term_names(config)), *grounding)


def update_statistics(
    before: Tensor, reward: Tensor, terms: Mapping[str, Tensor], controlled: Tensor, present: Tensor, after: State
) -> Tensor:
    """Return the statistics of the current episodes after a step, [E, S], with columns as in ``statistic_names``.

    ``before`` is 0 at the start of an episode; ``terms`` are [E, R] or broadcastable, in the order of the columns;
    robots [E, R] are ``controlled`` if actions controlled them in this step, ``present`` if they exist and actions
    control them.
    """
    robots = env_last(present).sum(0).clamp_min(1)

    def mean(values: Tensor) -> Tensor:
        return env_last(torch.where(controlled, values, 0.0)).sum(0) / robots

    total, *parts = env_last(before)[:1], *env_last(before)[len(_COMMON_STATISTICS) :]
    success = (after.arrived | ~present).all(-1)
    grounded = after.grounded
    columns = [
        total[0] + mean(reward),
        after.steps,
        success,
        (after.collided if grounded is None else after.collided & ~grounded).any(-1),
        *(old + mean(new) for old, new in zip(parts, terms.values(), strict=grounded is None)),
        *(() if grounded is None else (grounded.any(-1),)),
    ]
    return stack_last([column.to(before.dtype) for column in columns])
