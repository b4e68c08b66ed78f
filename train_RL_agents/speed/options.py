"""Options of ``marinenav bench``, and the configurations of the trainers that it measures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import torch

from marinenav_env import Level
from marinenav_env.support.validation import PositiveFloat, PositiveInt, at_least, check_fields, require
from train_RL_agents.agents.trainer_configs import OffPolicyConfig
from train_RL_agents.config.levels import TrainingLevel, convert_levels
from train_RL_agents.config.schema import TrainConfig, TrainingSchedule
from train_RL_agents.speed import MODES, PARTS
from train_RL_agents.utils.device import resolve_device

_Sizes = Annotated[tuple[int, ...], at_least(1)]
"""Sizes that are measured one after another."""
_UNREACHABLE_STEPS = 10**15
"""Length of a training (env-steps) that no measurement reaches."""


@dataclass(frozen=True)
class BenchmarkOptions:
    """Options of ``marinenav bench``."""

    config: TrainConfig[Any]
    """Configuration of the training that is measured."""
    parts: tuple[str, ...] = tuple(PARTS)
    """Names of the parts to measure, from PARTS."""
    modes: tuple[str, ...] = tuple(MODES)
    """Names of the modes of execution, from MODES."""
    envs: _Sizes = (256, 1024, 4096, 16384)
    """Numbers of environments; the loop uses that of the configuration."""
    batch: _Sizes = (256, 1024)
    """Batch sizes; the loop and growth use that of the configuration."""
    replay: _Sizes = (10_000, 100_000, 1_000_000)
    """Capacities of replay, in the measurement of growth."""
    seconds: PositiveFloat = 2.0
    """Length of a run (s)."""
    repeats: PositiveInt = 3
    """Number of runs of every benchmark."""

    def __post_init__(self) -> None:
        check_fields(self, "bench")

    @property
    def device(self) -> torch.device:
        """Return the device of the benchmark."""
        return resolve_device(self.config.execution.device, "execution.device")

    @property
    def has_replay(self) -> bool:
        """Return whether the agent learns from replay."""
        return isinstance(self.config.trainer, OffPolicyConfig)

    def skip_reasons(self) -> dict[str, str]:
        """Return the reason for each requested mode or part that cannot be measured here, by its name.

        Raises:
            ConfigError: when nothing is left to measure.
        """
        captured = {"captured": "CUDA graphs need a CUDA device"}
        modes = {} if self.device.type == "cuda" or "captured" not in self.modes else captured
        allowed = "one that can be measured here: eager or compiled"
        require({*self.modes} != {*modes}, "modes", self.modes, allowed)
        reason = f"{self.config.agent_type} learns on-policy, without replay"
        names = {"sampling": "sampling", "growth": "growth with replay"}
        parts = {names[part]: reason for part in self.parts if part in names}
        parts = {} if self.has_replay else parts
        require({*self.parts} != {"sampling"} or not parts, "parts", self.parts, f"one that there is: {reason}")
        return modes | parts


def with_training_level(config: TrainConfig[Any], level: Level) -> TrainConfig[Any]:
    """Return the configuration with all training scenarios on one level (numbers of robots, cores and obstacles)."""
    schedule = TrainingSchedule(levels=convert_levels(TrainingLevel, [level]))
    return replace(config, training_schedule=schedule)


def benchmark_config(config: TrainConfig[Any], **sizes: Any) -> TrainConfig[Any]:
    """Return the configuration of a training to measure: it does not end, and learns as early as possible.

    Replay has room for at least one insertion and one batch. Evaluations are left out, so they have few scenarios.

    Args:
        config: configuration of the benchmark.
        sizes: settings of the trainer, such as ``num_envs``.
    """
    settings = replace(config.trainer, **sizes)
    if isinstance(settings, OffPolicyConfig):
        least: dict[str, Any] = settings.minimum_sizes(config.training_schedule.max_robots)
        least["buffer_size"] = max(least["buffer_size"], settings.buffer_size, settings.batch_size)
        settings = replace(settings, **least)
    levels = (replace(level, num_episodes=int(number == 0)) for number, level in enumerate(config.eval_schedule.levels))
    evaluations = replace(config.eval_schedule, levels=tuple(levels))
    return replace(
        config,
        trainer=settings,
        total_timesteps=_UNREACHABLE_STEPS,
        eval_freq=_UNREACHABLE_STEPS,
        eval_schedule=evaluations,
        save_replay=False,
        on_divergence="stop",
    )
