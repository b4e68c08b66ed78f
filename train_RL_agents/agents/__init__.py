"""The agents, by name. A new agent is one module here, one line below and one config."""

from typing import Any

from train_RL_agents.agents.ac_iqn import ACIQN
from train_RL_agents.agents.base import Agent, AgentConfig, Batch, Losses
from train_RL_agents.agents.dqn import DQN

AGENTS: dict[str, type[Agent[Any]]] = {
    "AC-IQN": ACIQN,
    "DQN": DQN,
}

__all__ = ["AGENTS", "Agent", "AgentConfig", "Batch", "Losses"]
