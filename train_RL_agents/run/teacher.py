"""The policy that a run imitates, before the run is made and in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from marinenav_env.support.validation import require
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.networks.observation import ObservationSpec
from train_RL_agents.run.checkpoint import TEACHER, LoadedPolicy, load_policy

_COMMANDS = ("left_thrust_change", "right_thrust_change", "max_thrust_rate")


def find_teacher(config: TrainConfig[Any]) -> LoadedPolicy:
    """Load the teacher of a new run.

    Raises:
        ConfigError: when there is none, or it was trained for other observations, commands or time
            steps than the run.
    """
    teacher = load_policy(config.teacher)
    own, its, name = config.world, teacher.config.world, f"{config.teacher}: world"
    require(
        teacher.agent.spec == ObservationSpec.of(own),
        "teacher",
        config.teacher,
        "one that observes what robots of this run observe (world.sensor, world.vessel.radius)",
    )
    for key in ("dt", "substeps"):
        _require_same(f"{name}.{key}", getattr(its, key), getattr(own, key))
    for key in _COMMANDS:
        _require_same(f"{name}.vessel.{key}", getattr(its.vessel, key), getattr(own.vessel, key))
    return teacher


def kept_teacher(folder: Path, config: TrainConfig[Any], device: torch.device) -> LoadedPolicy | None:
    """Load the copy of the teacher that a run keeps; None if the run has no teacher.

    Args:
        folder: run folder.
        config: configuration of the run.
        device: device of the loaded policy.

    Raises:
        ConfigError: when its file is missing or damaged.
    """
    return load_policy(folder / TEACHER, device=device) if config.imitation_learning else None


def _require_same(name: str, value: Any, expected: Any) -> None:
    require(value == expected, name, value, f"that of the run, {expected}")
