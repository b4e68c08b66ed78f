"""Batched simulator of autonomous surface vessels in PyTorch, with its TorchRL environment."""

from typing import TYPE_CHECKING

import gymnasium

from marinenav_env.support.lazy import lazy_exports

if TYPE_CHECKING:
    from marinenav_env.config import WorldConfig
    from marinenav_env.env import MarineNavEnv
    from marinenav_env.levels import LEVELS, Level
    from marinenav_env.scenarios.episode import Episode
    from marinenav_env.scenarios.reading import read_scenarios
    from marinenav_env.scenarios.scenario_file import write_scenarios
    from marinenav_env.sensing.entries import Entry, EntrySensor, Scene
    from marinenav_env.sensing.observation import observation_entries
    from marinenav_env.specs import GROUP
    from marinenav_env.stepping.reset_pool import Curriculum
    from marinenav_env.support.validation import ConfigError
    from marinenav_env.vessels import read_vessel, scaled_world

__all__ = [
    "GROUP",
    "LEVELS",
    "ConfigError",
    "Curriculum",
    "Entry",
    "EntrySensor",
    "Episode",
    "Level",
    "MarineNavEnv",
    "Scene",
    "WorldConfig",
    "observation_entries",
    "read_scenarios",
    "read_vessel",
    "scaled_world",
    "write_scenarios",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "GROUP": "specs",
        "LEVELS": "levels",
        "ConfigError": "support.validation",
        "Curriculum": "stepping.reset_pool",
        "Entry": "sensing.entries",
        "EntrySensor": "sensing.entries",
        "Episode": "scenarios.episode",
        "Level": "levels",
        "MarineNavEnv": "env",
        "Scene": "sensing.entries",
        "WorldConfig": "config",
        "observation_entries": "sensing.observation",
        "read_scenarios": "scenarios.reading",
        "read_vessel": "vessels",
        "scaled_world": "vessels",
        "write_scenarios": "scenarios.scenario_file",
    },
)

gymnasium.register(
    "MarineNav-v0",
    "marinenav_env.interfaces.gymnasium_env:MarineNavGymEnv",
    vector_entry_point="marinenav_env.interfaces.gymnasium_env:MarineNavVectorEnv",
)
