"""Statistics of the present episode of every environment, accumulated along its steps.

They are means over the robots that actions control. At the step that ends an episode they are those
of the whole episode; the next one begins at 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.rules.reward import term_names
from marinenav_env.runtime.layout import env_last, stack_last
from marinenav_env.state import ResetState, State

_OWN = ("return", "length", "success", "collision")


def statistic_names(config: WorldConfig) -> tuple[str, ...]:
    """Return the names of the statistics of an episode, in their order.

    ``return`` is the sum of the rewards per robot, without discount, and ``reward/NAME`` the part
    of it from one term of the reward; ``length`` is in control steps; ``success`` is 1 when every
    robot has arrived without a collision, and ``collision`` when one or more have collided, else 0.
    """
    return (*_OWN, *(f"reward/{name}" for name in term_names(config)))


def updated_statistics(
    before: Tensor,
    reward: Tensor,
    terms: Mapping[str, Tensor],
    controlled: Tensor,
    present: Tensor,
    after: State,
) -> Tensor:
    """Return the statistics [E, S] after a step.

    Args:
        before: [E, S] before the step, 0 at the start of an episode.
        reward: [E, R].
        terms: [E, R] or broadcast to that, in the order of ``statistic_names``.
        controlled: [E, R] bool: robots whose actions counted in this step.
        present: [E, R] bool: the robot exists and actions control it.
        after: batch [E], after the step.
    """
    robots = env_last(present).sum(0).clamp_min(1)

    def mean(values: Tensor) -> Tensor:
        return env_last(torch.where(controlled, values, 0.0)).sum(0) / robots

    total, *parts = env_last(before)[:1], *env_last(before)[len(_OWN) :]
    success = (after.arrived | ~present).all(-1)
    columns = [
        total[0] + mean(reward),
        after.steps,
        success,
        after.collided.any(-1),
        *(old + mean(new) for old, new in zip(parts, terms.values(), strict=True)),
    ]
    return stack_last([each.to(before.dtype) for each in columns])


def with_statistics(saved: dict[str, Any], now: ResetState) -> dict[str, Any]:
    """Return a saved state with statistics if the present one has them; missing ones begin at 0."""
    if now.statistics is None:
        return {name: each for name, each in saved.items() if name != "statistics"}
    if "statistics" in saved:
        return saved
    return saved | {"statistics": torch.zeros_like(now.statistics)}
