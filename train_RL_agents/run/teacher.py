"""The policy that a run imitates, before the run is made and in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from train_RL_agents.config.building import require_same_world
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.run.checkpoint import TEACHER, LoadedPolicy, load_policy


def find_teacher(config: TrainConfig[Any]) -> LoadedPolicy:
    """Load the teacher of a new run.

    Raises:
        ConfigError: when there is none, or it was trained for other observations, commands or time
            steps than the run.
    """
    teacher = load_policy(config.teacher)
    require_same_world(config, teacher.config, str(config.teacher))
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
