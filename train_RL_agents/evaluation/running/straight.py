"""Baseline that steers straight to the goal without collision avoidance."""

from __future__ import annotations

from torch import Tensor

from marinenav_env.interfaces.scripted import CRUISE_SPEED
from marinenav_env.physics.thrust import velocity_to_goal
from train_RL_agents.evaluation.running.classical import Baseline
from train_RL_agents.networks.observation import Observation


class Straight(Baseline):
    """Controller that steers straight to the goal."""

    def desired_velocity(self, observation: Observation) -> Tensor:
        """Return the velocity straight towards the goal, with the magnitude CRUISE_SPEED."""
        return velocity_to_goal(observation["self_state"], CRUISE_SPEED)
