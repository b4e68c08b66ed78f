"""The agents, by name. A new agent is one module here, one line below and one config."""

from typing import Any

from train_RL_agents.agents.a2c import A2C
from train_RL_agents.agents.ac_iqn import ACIQN
from train_RL_agents.agents.base import Agent, AgentConfig, Batch, Losses
from train_RL_agents.agents.ddpg import DDPG
from train_RL_agents.agents.dqn import DQN
from train_RL_agents.agents.iqn import IQN
from train_RL_agents.agents.ppo import PPO
from train_RL_agents.agents.rainbow import Rainbow
from train_RL_agents.agents.sac import SAC

AGENTS: dict[str, type[Agent[Any]]] = {
    "AC-IQN": ACIQN,
    "IQN": IQN,
    "DDPG": DDPG,
    "DQN": DQN,
    "SAC": SAC,
    "Rainbow": Rainbow,
    "PPO": PPO,
    "A2C": A2C,
}

__all__ = ["AGENTS", "Agent", "AgentConfig", "Batch", "Losses"]
