"""Learning from steps: algorithms, learner, flat weights, metrics."""

from collections.abc import Callable

from train_RL_agents.learning.algorithm import Algorithm, Setup
from train_RL_agents.learning.off_policy import OffPolicy
from train_RL_agents.learning.on_policy import OnPolicy

ALGORITHMS: dict[str, Callable[[Setup], Algorithm]] = {
    "off-policy": OffPolicy,
    "on-policy": OnPolicy,
}
"""The algorithm that drives an agent, by ``Agent.algorithm``."""

__all__ = ["ALGORITHMS", "Algorithm", "Setup"]
