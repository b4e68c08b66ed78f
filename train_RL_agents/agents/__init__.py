"""Registry of agents; a new agent needs a module in this package, an entry in ``AGENTS`` and a configuration file."""

from typing import Any

from marinenav_env.support import plugins
from marinenav_env.support.validation import require
from train_RL_agents.agents.a2c import A2C
from train_RL_agents.agents.ac_iqn import ACIQN
from train_RL_agents.agents.actor_critic import ActorCriticAgent
from train_RL_agents.agents.actor_critic_network import ActorCriticConfig
from train_RL_agents.agents.base import Agent, AgentConfig
from train_RL_agents.agents.batches import Batch, Losses, RolloutBatch
from train_RL_agents.agents.ddpg import DDPG
from train_RL_agents.agents.dqn import DQN
from train_RL_agents.agents.iqn import IQN
from train_RL_agents.agents.ppo import PPO
from train_RL_agents.agents.rainbow import Rainbow
from train_RL_agents.agents.sac import SAC
from train_RL_agents.utils.closest import did_you_mean

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
"""Class of each built-in agent by its name, the value of the setting ``agent_type``."""
BASE_CLASSES: dict[str, Any] = {"off-policy": Agent, "on-policy": ActorCriticAgent}
"""Base class that the agents of each algorithm are derived from, by name of the algorithm."""


def agent_class(name: str) -> type[Agent[Any]]:
    """Return the class of an agent, from ``AGENTS`` or from a plugin; see support.plugins.

    Raises:
        ConfigError: when there is no such class, or it is not derived from the base class of its algorithm.
    """
    require(isinstance(name, str), "agent_type", name, f"one of {', '.join(AGENTS)}")
    if name in AGENTS:
        return AGENTS[name]
    is_plugin = ":" in name or name in plugins.registered_names(plugins.AGENTS)
    allowed = f"one of {', '.join(AGENTS)}, or package.module:Class{did_you_mean(name, AGENTS)}"
    require(is_plugin, "agent_type", name, allowed)
    plugin = plugins.resolve(plugins.AGENTS, name)
    is_agent = isinstance(plugin, type) and issubclass(plugin, Agent)
    require(is_agent, "agent_type", name, "a class derived from train_RL_agents.agents.Agent")
    kind: type[Agent[Any]] = plugin
    algorithms = f"one of {', '.join(BASE_CLASSES)}"
    require(kind.algorithm in BASE_CLASSES, f"{name}.algorithm", kind.algorithm, algorithms)
    base = BASE_CLASSES[kind.algorithm]
    derived = f"derived from {base.__name__}, as it is {kind.algorithm}"
    require(issubclass(kind, base), "agent_type", name, derived)
    return kind


__all__ = [
    "AGENTS",
    "ActorCriticAgent",
    "ActorCriticConfig",
    "Agent",
    "AgentConfig",
    "Batch",
    "Losses",
    "RolloutBatch",
    "agent_class",
]
