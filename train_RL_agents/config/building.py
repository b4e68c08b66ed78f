"""What follows from a configuration: the agent, its observation specification, and what a run will not reach."""

from dataclasses import replace
from operator import attrgetter
from typing import Any

import torch

from marinenav_env import WorldConfig
from marinenav_env.sensing.observation import observation_entries
from marinenav_env.support.validation import require
from marinenav_env.vessels import largest_value
from train_RL_agents.agents import Agent, agent_class
from train_RL_agents.agents.trainer_configs import OffPolicyConfig
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.networks.observation import ObservationSpec

_TEACHER_SETTINGS = (
    "world.dt",
    "world.substeps",
    "world.vessel.left_thrust_change",
    "world.vessel.right_thrust_change",
    "world.vessel.max_thrust_rate",
)
"""Keys of the settings that must be the same for a teacher as for the run."""


def make_observation_spec(world: WorldConfig) -> ObservationSpec:
    """Return the specification of what the vessels of a world observe; of several radii it has the largest."""
    # Rounded to millimetres, as policies were trained with 2.795 m for the published vessel.
    return ObservationSpec(observation_entries(world), round(largest_value(world.vessel.radius), 3))


def require_compatible_teacher(config: TrainConfig[Any], teacher: TrainConfig[Any], name: str) -> None:
    """Check that a teacher has no memory, and the environment, observations, commands and time steps of a run."""
    same = teacher.env.episode_settings == config.env.episode_settings
    require(same, f"{name}: env.name", teacher.env.name, f"that of the run, {config.env.name}")
    require(teacher.agent.memory.kind == "none", f"{name}: agent.memory.kind", teacher.agent.memory.kind, "none")
    given, needed = make_observation_spec(config.world), make_observation_spec(teacher.world)
    same = needed.entries.items() <= given.entries.items() and replace(needed, entries=given.entries) == given
    allowed = "one that observes what robots of this run observe (world.sensor, world.vessel.radius)"
    require(same, "teacher", name, allowed)
    for key in _TEACHER_SETTINGS:
        value, expected = map(attrgetter(key), (teacher, config))
        require(value == expected, f"{name}: {key}", value, f"that of the run, {expected}")


def count_actions(config: TrainConfig[Any]) -> int:
    """Return the number of discrete actions in the built-in environment of a run."""
    return config.world.vessel.num_actions


def make_agent(
    config: TrainConfig[Any], num_actions: int, device: torch.device, spec: ObservationSpec | None = None
) -> Agent[Any]:
    """Build the agent that a configuration specifies."""
    spec = spec or make_observation_spec(config.world)
    return agent_class(config.agent_type)(config.agent, num_actions, spec).to(device)


def describe_late_starts(config: TrainConfig[Any]) -> list[str]:
    """Return a sentence each if a run ends before its first update, or before some of its levels begin."""
    settings, total, lines = config.trainer, config.total_timesteps, []
    if isinstance(settings, OffPolicyConfig):
        batch, first = settings.num_envs * settings.vector_steps, settings.learning_starts + settings.train_freq
        if -(-total // batch) * batch < first:
            lines.append(
                f"nothing is learned in {total:,} env-steps: trainer.learning_starts={settings.learning_starts}"
            )
    levels = enumerate(config.training_schedule.levels, 1)
    late = ", ".join(str(number) for number, level in levels if level.starts_at >= total)
    if late:
        lines.append(f"the run ends before training_schedule.levels {late} begin")
    return lines
