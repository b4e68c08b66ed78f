"""The agents, by name. A new agent is one module here, one line below and one config."""

from typing import Any

from marinenav_env.support import plugins
from marinenav_env.support.validation import require
from train_RL_agents.agents.a2c import A2C
from train_RL_agents.agents.ac_iqn import ACIQN
from train_RL_agents.agents.actor_critic import ActorCriticAgent
from train_RL_agents.agents.actor_critic_network import ActorCriticConfig
from train_RL_agents.agents.base import Agent, AgentConfig, Batch, Losses
from train_RL_agents.agents.ddpg import DDPG
from train_RL_agents.agents.dqn import DQN
from train_RL_agents.agents.iqn import IQN
from train_RL_agents.agents.ppo import PPO
from train_RL_agents.agents.rainbow import Rainbow
from train_RL_agents.agents.rollout_batch import RolloutBatch
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
BASES: dict[str, Any] = {"off-policy": Agent, "on-policy": ActorCriticAgent}
"""The class that agents of each algorithm are derived from."""


def agent_class(name: str) -> type[Agent[Any]]:
    """The class of an agent: one of ``AGENTS``, or a user's own (see support.plugins).

    Args:
        name: from the registry, of an entry point in ``marinenav.agents``, or
            ``package.module:Class``.

    Raises:
        ConfigError: when there is none, or it is no agent.
    """
    require(isinstance(name, str), "agent_type", name, f"one of {', '.join(AGENTS)}")
    if name in AGENTS:
        return AGENTS[name]
    own = ":" in name or name in plugins.registered(plugins.AGENTS)
    known = f"one of {', '.join(AGENTS)}, or package.module:Class{did_you_mean(name, AGENTS)}"
    require(own, "agent_type", name, known)
    found = plugins.resolve(plugins.AGENTS, name)
    fine = isinstance(found, type) and issubclass(found, Agent)
    require(fine, "agent_type", name, "a class derived from train_RL_agents.agents.Agent")
    kind: type[Agent[Any]] = found
    there = kind.algorithm in BASES
    require(there, f"{name}.algorithm", kind.algorithm, f"one of {', '.join(BASES)}")
    base = BASES[kind.algorithm]
    fine = issubclass(kind, base)
    require(fine, "agent_type", name, f"derived from {base.__name__}, as it is {kind.algorithm}")
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
