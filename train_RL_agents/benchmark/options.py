"""What is measured, and the configuration that fits each size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import torch

from marinenav_env import Level
from marinenav_env.validation import Count, Positive, at_least, check_fields, require
from train_RL_agents.benchmark import MODES, PARTS
from train_RL_agents.config.schema import OffPolicyConfig, TrainConfig, TrainingSchedule
from train_RL_agents.utils.device import resolve_device

_Sizes = Annotated[tuple[int, ...], at_least(1)]
_FOREVER = 10**15
"""Env-steps that no measurement reaches."""


@dataclass(frozen=True)
class Options:
    """A benchmark."""

    config: TrainConfig[Any]
    """Agent, device, threads and everything else that training is made of."""
    parts: tuple[str, ...] = tuple(PARTS)
    """What is measured, of PARTS."""
    modes: tuple[str, ...] = tuple(MODES)
    """How it is run, of MODES."""
    envs: _Sizes = (256, 1024, 4096, 16384)
    """Environments; the loop has those of the configuration."""
    batch: _Sizes = (256, 1024)
    """Transitions per update; the loop and growth have those of the configuration."""
    replay: _Sizes = (10_000, 100_000, 1_000_000)
    """Entries of replay, for growth."""
    seconds: Positive = 2.0
    """Length of a run."""
    repeats: Count = 3
    """Runs of each."""

    def __post_init__(self) -> None:
        check_fields(self, "bench")

    @property
    def device(self) -> torch.device:
        """Where everything runs."""
        return resolve_device(self.config.device)

    @property
    def replayed(self) -> int:
        """Entries of the replay of training; 0 for an agent that learns without one."""
        settings = self.config.trainer
        return settings.buffer_size if isinstance(settings, OffPolicyConfig) else 0


def on_level(config: TrainConfig[Any], level: Level) -> TrainConfig[Any]:
    """The same configuration with all training scenarios on one level."""
    schedule = TrainingSchedule(
        num_robots=(level.num_robots,),
        num_cores=(level.num_cores,),
        num_obstacles=(level.num_obstacles,),
        min_start_goal_dis=(level.min_start_goal_dis,),
    )
    return replace(config, training_schedule=schedule)


def endless(config: TrainConfig[Any]) -> TrainConfig[Any]:
    """The same run without an end, and with a small set for the evaluations that are left out."""
    count = len(config.eval_schedule.num_episodes)
    schedule = replace(config.eval_schedule, num_episodes=(1, *[0] * (count - 1)))
    return replace(
        config, total_timesteps=_FOREVER, eval_freq=_FOREVER, eval_schedule=schedule,
        save_replay=False,
    )  # fmt: skip


def sized(
    config: TrainConfig[Any],
    envs: int | None = None,
    batch: int | None = None,
    replay: int = 1,
) -> TrainConfig[Any]:
    """The same configuration with other sizes, where learning starts as early as it may.

    Args:
        config: of the benchmark.
        envs: environments; None leaves them as they are.
        batch: transitions per update; likewise.
        replay: entries of replay, if there is one, raised to what one batch may bring.
    """
    settings = config.trainer
    envs = envs or settings.num_envs
    changes: dict[str, Any] = {"num_envs": envs} | ({"batch_size": batch} if batch else {})
    if isinstance(settings, OffPolicyConfig):
        robots = max(config.training_schedule.num_robots)
        rows = envs * settings.steps_per_batch * settings.n_steps * robots
        starts = max(0, envs * settings.n_steps - settings.train_freq)
        changes |= {"buffer_size": max(replay, rows), "learning_starts": starts}
    return replace(config, trainer=replace(settings, **changes))


def usable(modes: Sequence[str], device: torch.device) -> dict[str, str]:
    """Why each mode cannot be measured here; empty text if it can.

    Args:
        modes: asked for.
        device: of the benchmark.

    Raises:
        ConfigError: when none is left.
    """
    graphs = device.type == "cuda"
    reasons = {
        mode: "" if graphs or mode != "captured" else "CUDA graphs need a CUDA device"
        for mode in modes
    }
    fine = " or ".join(mode for mode in MODES if graphs or mode != "captured")
    require(not all(reasons.values()), "modes", modes, f"one that can be measured here: {fine}")
    return reasons


def lacking(options: Options) -> dict[str, str]:
    """Why each part, or a half of growth, does not exist for the agent.

    Raises:
        ConfigError: when nothing is left to measure.
    """
    reason = f"{options.config.agent_type} learns on-policy, without replay"
    names = {} if options.replayed else {"sampling": "sampling", "growth": "growth with replay"}
    missing = {name: reason for part, name in names.items() if part in options.parts}
    require(set(options.parts) != {"sampling"} or not missing, "parts", options.parts,
            f"one that there is: {reason}")  # fmt: skip
    return missing
