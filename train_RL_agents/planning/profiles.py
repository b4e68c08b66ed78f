"""Sizes of a run for a device: sets of settings by name, and the choice among them."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

import torch

from marinenav_env.validation import require
from train_RL_agents.config.schema import OffPolicyConfig, TrainConfig
from train_RL_agents.planning.plan import Plan, plan

RECIPE = ("num_envs", "batch_size", "train_freq")
"""Settings that belong together: how often each transition is learned from depends on all."""
KEYS = (*RECIPE, "buffer_size", "replay_storage")


def _sizes(factor: int, buffer_size: int) -> dict[str, Any]:
    """The default recipe made so many times larger, with a replay of its own."""
    default = OffPolicyConfig()
    recipe = {name: factor * getattr(default, name) for name in RECIPE}
    return recipe | {"buffer_size": buffer_size, "replay_storage": "device"}


PROFILES: dict[str, dict[str, Any]] = {
    "cpu": _sizes(1, 1_000_000),
    "8gb": _sizes(8, 2_000_000),
    "16gb": _sizes(16, 4_000_000),
    "24gb": _sizes(16, 8_000_000),
    "80gb": _sizes(64, 20_000_000),
}
"""Settings of the trainer by the name of the profile."""
CHOICES = ("auto", "none", *PROFILES)
_MEMORY = {"8gb": 8, "16gb": 16, "24gb": 24, "80gb": 80}
"""GiB of the devices that profiles are for; a tenth less will do, as drivers keep some."""
_UPDATES = 15_000
"""Updates that ``auto`` leaves a run: a few large ones do not replace many."""


def apply_profile(
    config: TrainConfig[Any], profile: str, stated: AbstractSet[str], device: torch.device
) -> TrainConfig[Any]:
    """The configuration with the sizes of a profile, but for what was stated.

    Args:
        config: as it was given.
        profile: one of CHOICES. ``auto`` changes nothing on the CPU; on a GPU it takes the largest
            profile for its memory, made smaller until the run has enough updates, and leaves the
            recipe as it is if any part of that was stated.
        stated: dotted keys that were given; they win.
        device: of the run.

    Raises:
        ConfigError: when there is no such profile, or its sizes do not fit what was stated.
    """
    require(profile in CHOICES, "profile", profile, f"one of {', '.join(CHOICES)}")
    kept = {key.removeprefix("trainer.") for key in stated if key.startswith("trainer.")}
    if profile != "auto":
        sizes = PROFILES.get(profile, {})
    elif device.type == "cuda":
        memory = torch.cuda.get_device_properties(device).total_memory
        sizes = automatic(memory, config.total_timesteps)
        kept |= set(RECIPE) if kept & set(RECIPE) else set()
    else:
        sizes = {}
    return changed(config, {name: size for name, size in sizes.items() if name not in kept})


def automatic(memory: int, total_timesteps: int) -> dict[str, Any]:
    """Sizes for a GPU.

    Args:
        memory: of the GPU (bytes).
        total_timesteps: env-steps of the run.
    """
    fitting = [name for name, size in _MEMORY.items() if memory >= 0.9 * size * 2**30]
    sizes, least = dict(PROFILES[fitting[-1] if fitting else "cpu"]), PROFILES["cpu"]
    while sizes["train_freq"] > max(least["train_freq"], total_timesteps // _UPDATES):
        halves = {name: max(least[name], sizes[name] // 2) for name in (*RECIPE, "buffer_size")}
        sizes |= halves
    return sizes


def changed(config: TrainConfig[Any], sizes: dict[str, Any]) -> TrainConfig[Any]:
    """The configuration with other sizes; checked like any other."""
    return replace(config, trainer=replace(config.trainer, **sizes)) if sizes else config


def planned(
    config: TrainConfig[Any], profile: str, stated: AbstractSet[str], device: torch.device
) -> tuple[TrainConfig[Any], Plan]:
    """The configuration that a profile leads to, and what it will take; see apply_profile.

    With ``auto``, replay that does not fit on the device goes to the host.
    """
    config = apply_profile(config, profile, stated, device)
    found = plan(config, device)
    movable = profile == "auto" and "trainer.replay_storage" not in stated
    if movable and False in found.free and found.lacking(False) > 0:
        config = changed(config, {"replay_storage": "host"})
        found = plan(config, device)
    return config, found
