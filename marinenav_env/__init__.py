"""Batched simulator of autonomous surface vessels in PyTorch, with its TorchRL environment."""

import gymnasium

from marinenav_env.config import WorldConfig
from marinenav_env.env import MarineNavEnv
from marinenav_env.levels import LEVELS, Level
from marinenav_env.scenarios.reading import read_scenarios
from marinenav_env.scenarios.scenario_file import Episode, write_scenarios
from marinenav_env.sensing.entries import Entry, EntrySensor, Scene
from marinenav_env.sensing.observation import observation_entries
from marinenav_env.specs import GROUP
from marinenav_env.stepping.reset_pool import Curriculum
from marinenav_env.support import plugins as plugins
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

gymnasium.register(
    "MarineNav-v0",
    "marinenav_env.interfaces.gymnasium_env:MarineNavGymEnv",
    vector_entry_point="marinenav_env.interfaces.gymnasium_env:MarineNavVectorEnv",
)
