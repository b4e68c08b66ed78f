"""Straight to the goal, blind to everything on the way: the floor."""

from __future__ import annotations

from torch import Tensor

from train_RL_agents.baselines.base import Baseline, to_the_goal
from train_RL_agents.networks import Inputs

SPEED = 2.5
"""Speed over ground (m/s)."""


class Straight(Baseline):
    """See the module."""

    def wanted_velocity(self, inputs: Inputs) -> Tensor:
        """Full ahead to the goal."""
        return to_the_goal(inputs, SPEED)
