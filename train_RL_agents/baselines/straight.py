"""Straight to the goal, without avoiding anything: a lower bound."""

from __future__ import annotations

from torch import Tensor

from marinenav_env.interfaces.scripted import SPEED
from marinenav_env.physics.thrust import to_the_goal
from train_RL_agents.baselines.base import Baseline
from train_RL_agents.networks.observation import Observation


class Straight(Baseline):
    """See the module."""

    def wanted_velocity(self, observation: Observation) -> Tensor:
        """Full ahead to the goal."""
        return to_the_goal(observation["self_state"], SPEED)
