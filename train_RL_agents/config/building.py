"""Building the agent that a configuration asks for."""

from __future__ import annotations

from typing import Any

import torch

from marinenav_env import WorldConfig
from marinenav_env.sensing.observation import observation_entries
from marinenav_env.support.validation import require
from train_RL_agents.agents import Agent, agent_class
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.networks.observation import ObservationSpec

_COMMANDS = ("left_thrust_change", "right_thrust_change", "max_thrust_rate")


def spec_of(world: WorldConfig) -> ObservationSpec:
    """Return what vessels of a world observe; with several vessel sizes the largest radius is used."""
    radius = world.vessel.radius
    largest = max(radius) if isinstance(radius, tuple) else radius
    # Rounded to millimetres, as policies were trained with 2.795 m for the published vessel.
    return ObservationSpec(observation_entries(world), round(largest, 3))


def num_world_actions(config: TrainConfig[Any]) -> int:
    """Return the number of discrete actions of the vessels of ``config.world``."""
    return config.world.vessel.num_actions


def require_same_world(config: TrainConfig[Any], teacher: TrainConfig[Any], name: str) -> None:
    """Check that a teacher was trained for the observations, commands and time steps of a run.

    Args:
        config: configuration of the run.
        teacher: configuration of the teacher.
        name: name of the teacher.

    Raises:
        ConfigError: when it was trained for others.
    """
    require(
        teacher.env.task == config.env.task,
        f"{name}: env.name",
        teacher.env.name,
        f"that of the run, {config.env.name}",
    )
    own, its = config.world, teacher.world
    require(
        spec_of(its) == spec_of(own),
        "teacher",
        name,
        "one that observes what robots of this run observe (world.sensor, world.vessel.radius)",
    )
    same = [(key, getattr(its, key), getattr(own, key)) for key in ("dt", "substeps")]
    same += [(f"vessel.{key}", getattr(its.vessel, key), getattr(own.vessel, key)) for key in _COMMANDS]
    for key, value, expected in same:
        require(value == expected, f"{name}: world.{key}", value, f"that of the run, {expected}")


def make_agent(
    config: TrainConfig[Any], num_actions: int, device: torch.device, spec: ObservationSpec | None = None
) -> Agent[Any]:
    """Build the agent that a configuration asks for.

    Args:
        config: configuration of the run.
        num_actions: number of discrete actions.
        device: device of the agent.
        spec: specification of the observation and of continuous actions; None: that of ``config.world``.
    """
    spec = spec or spec_of(config.world)
    return agent_class(config.agent_type)(config.agent, num_actions, spec).to(device)
