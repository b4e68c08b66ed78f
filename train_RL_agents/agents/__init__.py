"""Registry of agents; a new agent needs a module in this package, an entry in ``AGENTS`` and a configuration file."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from marinenav_env.support import plugins
from marinenav_env.support.lazy import LazyRegistry, lazy_exports
from marinenav_env.support.validation import require
from train_RL_agents.agents.agent_configs import AGENT_TRAITS, AgentTraits
from train_RL_agents.agents.trainer_configs import TRAINER_CONFIGS
from train_RL_agents.utils.closest import did_you_mean, normalized_name

if TYPE_CHECKING:
    from train_RL_agents.agents.actor_critic import ActorCriticAgent
    from train_RL_agents.agents.agent_configs import ActorCriticConfig, AgentConfig
    from train_RL_agents.agents.base import Agent
    from train_RL_agents.agents.batches import Batch, Losses, RolloutBatch

AGENTS: Mapping[str, type["Agent[Any]"]] = LazyRegistry(
    __name__,
    {
        "AC-IQN": "ac_iqn:ACIQN",
        "IQN": "iqn:IQN",
        "DDPG": "ddpg:DDPG",
        "DQN": "dqn:DQN",
        "SAC": "sac:SAC",
        "Rainbow": "rainbow:Rainbow",
        "PPO": "ppo:PPO",
        "A2C": "a2c:A2C",
    },
)
"""Class of each built-in agent by its name, the value of the setting ``agent_type``."""


def registered_agent_name(name: str) -> str:
    """Return the registered spelling of an agent's name, such as AC-IQN for ac_iqn; return unknown names unchanged."""
    return {normalized_name(agent): agent for agent in AGENTS}.get(normalized_name(name), name)


def require_agent_name(name: Any) -> None:
    """Raise a ConfigError for a name that is neither in ``AGENTS`` nor that of a plugin; nothing is imported."""
    require(isinstance(name, str), "agent_type", name, f"one of {', '.join(AGENTS)}")
    is_known = name in AGENTS or ":" in name or name in plugins.registered_names(plugins.AGENTS)
    allowed = f"one of {', '.join(AGENTS)}, or package.module:Class{did_you_mean(name, AGENTS)}"
    require(is_known, "agent_type", name, allowed)


def agent_class(name: str) -> type["Agent[Any]"]:
    """Return the class of an agent, from ``AGENTS`` or from a plugin (support.plugins), after checking its base."""
    require_agent_name(name)
    if name in AGENTS:
        return AGENTS[name]
    from train_RL_agents.agents import actor_critic, base

    plugin = plugins.resolve(plugins.AGENTS, name)
    is_agent = isinstance(plugin, type) and issubclass(plugin, base.Agent)
    require(is_agent, "agent_type", name, "a class derived from train_RL_agents.agents.Agent")
    kind: type[Agent[Any]] = plugin
    algorithms = f"one of {', '.join(TRAINER_CONFIGS)}"
    require(kind.algorithm in TRAINER_CONFIGS, f"{name}.algorithm", kind.algorithm, algorithms)
    is_fit = kind.algorithm != "on-policy" or issubclass(kind, actor_critic.ActorCriticAgent)
    require(is_fit, "agent_type", name, "derived from ActorCriticAgent, as it is on-policy")
    return kind


def agent_traits(name: str) -> AgentTraits:
    """Return what a configuration needs to know of an agent; the class of a built-in one is not imported."""
    if name in AGENT_TRAITS:
        return AGENT_TRAITS[name]
    kind = agent_class(name)
    return AgentTraits(kind.config_type, kind.algorithm, kind.trainer_defaults, kind.uses_priorities)


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
    "agent_traits",
    "registered_agent_name",
    "require_agent_name",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "ActorCriticAgent": "actor_critic",
        "ActorCriticConfig": "agent_configs",
        "Agent": "base",
        "AgentConfig": "agent_configs",
        "Batch": "batches",
        "Losses": "batches",
        "RolloutBatch": "batches",
    },
)
