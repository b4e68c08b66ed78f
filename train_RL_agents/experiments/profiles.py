"""Profiles: named sets of settings that size a run for a device, and the choice among them."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from marinenav_env.support.validation import ConfigError, require
from train_RL_agents.agents import agent_class
from train_RL_agents.agents.trainer_configs import TRAINER_CONFIGS, OffPolicyConfig
from train_RL_agents.config.overrides import flatten
from train_RL_agents.config.reading import to_dict
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.experiments.memory_plan import MemoryPlan, plan_memory
from train_RL_agents.run.resuming import list_changes
from train_RL_agents.utils.closest import did_you_mean

PROFILE_FACTORS = {"cpu": 1, "8gb": 8, "16gb": 16, "24gb": 16, "80gb": 64}
"""Factor by which a profile multiplies the default sizes ``TrainerConfig.coupled_sizes``, by name of the profile."""
PROFILE_NAMES = ("auto", "none", *PROFILE_FACTORS)
"""Names that a user may give: ``auto`` chooses by the device, and ``none`` changes nothing."""
_BUFFER_SIZES = {"cpu": 1_000_000, "8gb": 2_000_000, "16gb": 4_000_000, "24gb": 8_000_000, "80gb": 20_000_000}
"""Size of replay (transitions) by name of the profile."""
_GPU_MEMORY = {"8gb": 8, "16gb": 16, "24gb": 24, "80gb": 80}
"""GPU memory that each profile is for (GiB), by name; a tenth less suffices, because drivers reserve some."""


class SizedConfig(NamedTuple):
    """Configuration sized by a profile, with its memory plan."""

    config: TrainConfig[Any]
    memory_plan: MemoryPlan
    description: str
    """Line of text for the terminal with the profile and the settings that it changed."""


def profile_sizes(algorithm: str, profile: str, **defaults: Any) -> dict[str, Any]:
    """Return the values of the settings of ``trainer`` that a profile sets, by name of the setting."""
    default, factor = TRAINER_CONFIGS[algorithm](**defaults), PROFILE_FACTORS[profile]
    sizes = {name: factor * getattr(default, name) for name in default.coupled_sizes}
    if isinstance(default, OffPolicyConfig):
        sizes |= {"buffer_size": _BUFFER_SIZES[profile], "replay_storage": "device"}
    return sizes


def apply_profile(
    config: TrainConfig[Any], profile: str, stated: AbstractSet[str], device: torch.device
) -> TrainConfig[Any]:
    """Return the configuration with the sizes of a profile, except for stated settings, given by their dotted keys.

    ``auto`` changes nothing on a CPU. On a GPU it takes the largest profile that the memory allows, halved until the
    run has enough updates, and leaves sizes that affect learning as they are if one of them is stated.
    """
    allowed = f"one of {', '.join(PROFILE_NAMES)}{did_you_mean(profile, PROFILE_NAMES)}"
    require(profile in PROFILE_NAMES, "profile", profile, allowed)
    agent = agent_class(config.agent_type)
    algorithm = agent.algorithm
    kept = {key.removeprefix("trainer.") for key in stated if key.startswith("trainer.")}
    if profile in PROFILE_FACTORS:
        sizes = profile_sizes(algorithm, profile, **agent.trainer_defaults)
    elif profile == "auto" and device.type == "cuda":
        sizes = automatic_sizes(config, _largest_profile(device))
        coupled = set(config.trainer.coupled_sizes)
        kept |= coupled if kept & coupled else set()
    else:
        sizes = {}
    return replace_trainer_settings(config, {name: size for name, size in sizes.items() if name not in kept})


def _largest_profile(device: torch.device) -> str:
    memory = torch.cuda.get_device_properties(device).total_memory
    names = [name for name, size in _GPU_MEMORY.items() if memory >= 0.9 * size * 2**30]
    return names[-1] if names else "cpu"


def automatic_sizes(config: TrainConfig[Any], profile: str) -> dict[str, Any]:
    """Return the sizes of a profile by setting, halved until the run has enough updates or they are the defaults."""
    agent = agent_class(config.agent_type)
    sizes, least = (profile_sizes(agent.algorithm, name, **agent.trainer_defaults) for name in (profile, "cpu"))
    halved = [name for name in sizes if name != "replay_storage"]
    while sizes["num_envs"] > least["num_envs"] and not _has_enough_updates(config, sizes):
        sizes |= {name: max(least[name], sizes[name] // 2) for name in halved}
    return sizes


def _has_enough_updates(config: TrainConfig[Any], sizes: dict[str, Any]) -> bool:
    """Return whether a run with other settings of ``trainer`` makes ``TrainerConfig.min_updates`` updates or more."""
    try:
        settings = replace_trainer_settings(config, sizes).trainer
    except ConfigError:  # such as more environments than a run has steps before it learns
        return False
    return settings.learning_interval <= config.total_timesteps // settings.min_updates


def replace_trainer_settings(config: TrainConfig[Any], sizes: dict[str, Any]) -> TrainConfig[Any]:
    """Return the configuration with settings of ``trainer`` replaced by name; raise a ConfigError for invalid ones."""
    return replace(config, trainer=replace(config.trainer, **sizes)) if sizes else config


def size_config(config: TrainConfig[Any], profile: str, stated: AbstractSet[str], device: torch.device) -> SizedConfig:
    """Return a configuration sized by a profile, and its plan; ``auto`` moves replay that does not fit to the host."""
    sized = apply_profile(config, profile, stated, device)
    memory = plan_memory(sized, device)
    kept = profile != "auto" or "trainer.replay_storage" in stated
    movable = isinstance(sized.trainer, OffPolicyConfig) and not kept
    if movable and False in memory.free_bytes and memory.missing_bytes(False) > 0:
        sized = replace_trainer_settings(sized, {"replay_storage": "host"})
        memory = plan_memory(sized, device)
    return SizedConfig(sized, memory, _profile_line(config, sized, profile, device))


def _profile_line(before: TrainConfig[Any], after: TrainConfig[Any], profile: str, device: torch.device) -> str:
    """Return the line of text that is ``SizedConfig.description``, from the configurations before and after."""
    name = profile
    if profile == "auto" and device.type == "cuda":
        name = f"auto ({_largest_profile(device)}, as far as the run has updates for it)"
    different = list_changes(flatten(to_dict(before)), flatten(to_dict(after)))
    return f"profile {name}: {', '.join(different) or 'changes no setting'}"
