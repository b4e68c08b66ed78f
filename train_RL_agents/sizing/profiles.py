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
from train_RL_agents.run.resuming import changes
from train_RL_agents.sizing.plan import Plan, plan
from train_RL_agents.utils.closest import did_you_mean

FACTORS = {"cpu": 1, "8gb": 8, "16gb": 16, "24gb": 16, "80gb": 64}
"""Factor by which a profile multiplies the default sizes of the recipe, by name of the profile."""
CHOICES = ("auto", "none", *FACTORS)
_BUFFERS = {"cpu": 1_000_000, "8gb": 2_000_000, "16gb": 4_000_000, "24gb": 8_000_000, "80gb": 20_000_000}
_MEMORY = {"8gb": 8, "16gb": 16, "24gb": 24, "80gb": 80}
"""GPU memory that each profile is for (GiB); a tenth less suffices, because drivers reserve some."""


class SizedConfig(NamedTuple):
    """Configuration sized by a profile, with its memory plan."""

    config: TrainConfig[Any]
    """Configuration with the sizes of the profile."""
    plan: Plan
    """Memory that the run will take."""
    chosen: str
    """Line of text with the profile and the settings that it changed."""


def profile_sizes(algorithm: str, profile: str, **defaults: Any) -> dict[str, Any]:
    """Return the settings of ``trainer`` that a profile sets, by name.

    Args:
        algorithm: one of TRAINER_CONFIGS.
        profile: one of FACTORS.
        defaults: settings of which the agent has other defaults than the algorithm (``trainer_defaults``).
    """
    default, factor = TRAINER_CONFIGS[algorithm](**defaults), FACTORS[profile]
    sizes = {name: factor * getattr(default, name) for name in default.recipe}
    if isinstance(default, OffPolicyConfig):
        sizes |= {"buffer_size": _BUFFERS[profile], "replay_storage": "device"}
    return sizes


def apply_profile(
    config: TrainConfig[Any], profile: str, stated: AbstractSet[str], device: torch.device
) -> TrainConfig[Any]:
    """Return the configuration with the sizes of a profile, except for stated settings.

    Args:
        config: configuration without the profile.
        profile: one of CHOICES. ``auto`` changes nothing on the CPU. On a GPU it takes the largest profile that the
            memory allows, halved until the run makes at least ``least_updates`` updates; it leaves sizes that affect
            learning (``num_envs``, ``batch_size``, ``train_freq``) unchanged if any of them is stated.
        stated: dotted keys of the stated settings, which take precedence.
        device: device of the run.

    Raises:
        ConfigError: when there is no such profile, or its sizes contradict stated settings.
    """
    allowed = f"one of {', '.join(CHOICES)}{did_you_mean(profile, CHOICES)}"
    require(profile in CHOICES, "profile", profile, allowed)
    agent = agent_class(config.agent_type)
    algorithm = agent.algorithm
    kept = {key.removeprefix("trainer.") for key in stated if key.startswith("trainer.")}
    if profile in FACTORS:
        sizes = profile_sizes(algorithm, profile, **agent.trainer_defaults)
    elif profile == "auto" and device.type == "cuda":
        sizes = automatic(config, _largest_profile(device))
        recipe = set(config.trainer.recipe)
        kept |= recipe if kept & recipe else set()
    else:
        sizes = {}
    return changed(config, {name: size for name, size in sizes.items() if name not in kept})


def _largest_profile(device: torch.device) -> str:
    """Return the largest profile for the memory of a GPU."""
    memory = torch.cuda.get_device_properties(device).total_memory
    names = [name for name, size in _MEMORY.items() if memory >= 0.9 * size * 2**30]
    return names[-1] if names else "cpu"


def automatic(config: TrainConfig[Any], profile: str) -> dict[str, Any]:
    """Return the sizes of a profile, halved until the run has enough updates or the sizes are the defaults.

    Args:
        config: configuration of the run.
        profile: one of FACTORS.
    """
    agent = agent_class(config.agent_type)
    sizes, least = (profile_sizes(agent.algorithm, name, **agent.trainer_defaults) for name in (profile, "cpu"))
    halved = [name for name in sizes if name != "replay_storage"]
    while sizes["num_envs"] > least["num_envs"] and not _has_enough_updates(config, sizes):
        sizes |= {name: max(least[name], sizes[name] // 2) for name in halved}
    return sizes


def _has_enough_updates(config: TrainConfig[Any], sizes: dict[str, Any]) -> bool:
    """Return whether a run of other sizes makes at least ``least_updates`` updates, as ``auto`` requires."""
    try:
        settings = changed(config, sizes).trainer
    except ConfigError:  # such as more environments than a run has steps before it learns
        return False
    return settings.learning_interval <= config.total_timesteps // settings.least_updates


def changed(config: TrainConfig[Any], sizes: dict[str, Any]) -> TrainConfig[Any]:
    """Return the configuration with other settings of ``trainer`` by name; raise a ConfigError if they are invalid."""
    return replace(config, trainer=replace(config.trainer, **sizes)) if sizes else config


def planned(config: TrainConfig[Any], profile: str, stated: AbstractSet[str], device: torch.device) -> SizedConfig:
    """Return the configuration of a profile with its memory plan; see apply_profile.

    With ``auto``, replay that does not fit on the device is stored on the host.
    """
    sized = apply_profile(config, profile, stated, device)
    memory = plan(sized, device)
    kept = profile != "auto" or "trainer.replay_storage" in stated
    movable = isinstance(sized.trainer, OffPolicyConfig) and not kept
    if movable and False in memory.free and memory.lacking(False) > 0:
        sized = changed(sized, {"replay_storage": "host"})
        memory = plan(sized, device)
    return SizedConfig(sized, memory, _describe(config, sized, profile, device))


def _describe(before: TrainConfig[Any], after: TrainConfig[Any], profile: str, device: torch.device) -> str:
    """Return the line with the profile and the settings that it changed; see SizedConfig.chosen."""
    name = profile
    if profile == "auto" and device.type == "cuda":
        name = f"auto ({_largest_profile(device)}, as far as the run has updates for it)"
    different = changes(flatten(to_dict(before)), flatten(to_dict(after)))
    return f"profile {name}: {', '.join(different) or 'changes no setting'}"
