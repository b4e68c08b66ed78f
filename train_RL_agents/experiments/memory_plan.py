"""Prediction of the memory that a run takes.

What a run holds all the time is counted, from one row, one agent and one environment. Not counted is the temporary
memory of updates, of steps of the environments and of evaluations; updates that run out of it are split.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from marinenav_env.support.validation import ConfigError, require
from train_RL_agents.agents.trainer_configs import OffPolicyConfig
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.environments import make_environment
from train_RL_agents.learning import ALGORITHMS
from train_RL_agents.learning.algorithm import MemoryPlanEntry
from train_RL_agents.learning.flat import flat_bytes
from train_RL_agents.learning.learner import MOMENTS
from train_RL_agents.learning.prioritized import SPARE_SLOTS
from train_RL_agents.utils.device import resolve_device
from train_RL_agents.utils.memory import USABLE_SHARE, free_host_memory, size_text

CPU = torch.device("cpu")


@dataclass(frozen=True)
class MemoryPlan:
    """Memory that a run takes on the host and on the device, and the free memory of both."""

    device: torch.device
    entries: tuple[MemoryPlanEntry, ...]
    """Uses of memory with their sizes."""
    free_bytes: dict[bool, int]
    """Free memory (bytes): of the host under the key True and, if it differs, of the device under False."""

    def needed_bytes(self, on_host: bool) -> int:
        """Return the number of bytes that the run takes on the host if ``on_host`` is true, else on the device."""
        return sum(item.size for item in self.entries if item.on_host == on_host)

    def missing_bytes(self, on_host: bool) -> int:
        """Return by how many bytes the run exceeds the usable share of free memory there; at most 0 if it fits."""
        return self.needed_bytes(on_host) - round(USABLE_SHARE * self.free_bytes.get(on_host, 0))


# Prediction -------------------------------------------------------------------------------------


def plan_memory(config: TrainConfig[Any], device: torch.device | None = None) -> MemoryPlan:
    """Return the predicted memory of a run, without advancing random generators or using the memory of the device."""
    settings, environment = config.trainer, make_environment(config)
    device = device or resolve_device(config.execution.device, "execution.device")
    with torch.random.fork_rng(devices=[]):
        agent = environment.make_agent(CPU)
        step, sizes = environment.held_memory(agent)
        entries = ALGORITHMS[type(settings)].held_memory(config, agent, step)
    host = device.type == "cpu"
    trained = flat_bytes(agent.networks)
    # The EMA copy has separate targets, which are not stored flat.
    targets = flat_bytes(agent.targets) + sum(tensor.nbytes for tensor in agent.targets.parameters())
    weights = 2 * trained + targets + 2 * sum(tensor.nbytes for tensor in agent.buffers())
    items = [
        *(replace(item, on_host=host or item.on_host) for item in entries),
        MemoryPlanEntry("networks, targets, EMA copy", weights, host),
        MemoryPlanEntry("optimiser", len(MOMENTS[settings.optimizer]) * trained, host),
        # Gradients exist twice: per parameter, and gathered in one tensor.
        MemoryPlanEntry("gradients", 2 * trained, host),
        *(MemoryPlanEntry(name, size, host) for name, size in sizes.items()),
    ]
    free = {True: free_host_memory()} | ({} if host else {False: torch.cuda.mem_get_info(device)[0]})
    return MemoryPlan(device, tuple(items), free)


# Free memory ------------------------------------------------------------------------------------


def check_memory_plan(memory: MemoryPlan, config: TrainConfig[Any], num_runs: int = 1) -> None:
    """Check that a run fits into the free memory."""
    per_device = -(-num_runs // max(1, torch.cuda.device_count()))
    shares = {on_host: free // (num_runs if on_host else per_device) for on_host, free in memory.free_bytes.items()}
    memory = replace(memory, free_bytes=shares)
    for on_host, free in memory.free_bytes.items():
        if memory.missing_bytes(on_host) <= 0:
            continue
        where = "the host" if on_host else str(memory.device)
        available = f"the {size_text(free)} free on {where}, of which {USABLE_SHARE:.0%} are planned with"
        settings = config.trainer
        rows = sum(item.size for item in memory.entries if item.on_host == on_host and "replay" in item.name)
        share = 1.0 - memory.missing_bytes(on_host) / rows if rows else 0.0
        if isinstance(settings, OffPolicyConfig):
            slots = settings.buffer_size
            fitting = round((slots + SPARE_SLOTS) * share) - SPARE_SLOTS - 1
            require(fitting <= 0, "trainer.buffer_size", slots, f"at most {fitting:,} to fit {available}")
        besides = " besides replay" if rows else ""
        raise ConfigError(
            f"trainer.num_envs={settings.num_envs}: must be less, as the run needs "
            f"{size_text(memory.needed_bytes(on_host) - rows)}{besides}, to fit {available}"
        )


def summary_line(memory: MemoryPlan) -> str:
    """Return the needed and the free memory of a plan as one line of text."""
    totals = (
        f"{size_text(memory.needed_bytes(on_host))} of {size_text(free)} free ({'host' if on_host else memory.device})"
        for on_host, free in sorted(memory.free_bytes.items())
    )
    return f"memory: {', '.join(totals)}"
