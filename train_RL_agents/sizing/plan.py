"""Prediction of the memory that a run takes.

Replay, weights and optimiser are counted to the byte, from one row and one agent. The temporary memory of an update and
of a step of the environments is estimated: from the tensors that autograd saves for a small batch, and from the size of
one environment.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from rich.table import Table
from torch import Tensor

from marinenav_env.support.validation import ConfigError, require
from train_RL_agents.agents.trainer_configs import OffPolicyConfig
from train_RL_agents.config.building import make_agent
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.environments import Environment, environment_of
from train_RL_agents.learning import ALGORITHMS
from train_RL_agents.learning.algorithm import MemoryEstimate, MemoryPlanEntry
from train_RL_agents.learning.flat import flat_bytes
from train_RL_agents.learning.learner import MOMENTS
from train_RL_agents.memory.prioritized import SPARE_SLOTS
from train_RL_agents.utils.memory import USABLE_SHARE, free_host_memory, require_memory, size_text

CPU = torch.device("cpu")
_SAMPLE = 32
"""Number of rows of the small batches that the memory of an update is estimated from."""
_TRANSIENT = 1.5
"""Peak memory of an update relative to the tensors that autograd saves; it includes gradients and the allocator."""


@dataclass(frozen=True)
class Plan:
    """Memory that a run takes, and free memory."""

    device: torch.device
    """Device of the run."""
    items: tuple[MemoryPlanEntry, ...]
    """Items that take memory, in the order of the table."""
    free: dict[bool, int]
    """Free memory (bytes): of the host under the key True and, if it differs, of the device under False."""

    def needed(self, on_host: bool) -> int:
        """Return the number of bytes that the run takes on the host if ``on_host`` is true, else on the device."""
        return sum(item.size for item in self.items if item.on_host == on_host)

    def lacking(self, on_host: bool) -> int:
        """Return the number of bytes that are missing on the host or on the device; at most 0 if the run fits there."""
        return self.needed(on_host) - round(USABLE_SHARE * self.free.get(on_host, 0))


# Prediction -------------------------------------------------------------------------------------


def plan(config: TrainConfig[Any], device: torch.device) -> Plan:
    """Predict the memory of a run, without advancing random generators or using the memory of the device."""
    settings, environment = config.trainer, environment_of(config)
    _check_networks(environment)
    with torch.random.fork_rng(devices=[]):
        agent = environment.agent(CPU)
        step, sizes = environment.memory(agent)
        memory_estimate = ALGORITHMS[type(settings)].memory_estimate(config, agent, step)
        update = _update_bytes(memory_estimate, settings.batch_size)
    host = device.type == "cpu"
    trained = flat_bytes(agent.networks)
    # The EMA copy has separate targets, which are not stored flat.
    targets = flat_bytes(agent.targets) + sum(tensor.nbytes for tensor in agent.targets.parameters())
    weights = 2 * trained + targets + 2 * sum(tensor.nbytes for tensor in agent.buffers())
    items = [
        *(replace(item, on_host=host or item.on_host) for item in memory_estimate.items),
        MemoryPlanEntry("networks, targets, EMA copy", weights, host, True),
        MemoryPlanEntry("optimiser", MOMENTS[settings.optimizer] * trained, host, True),
        # Gradients exist twice: per parameter, and gathered in one tensor.
        MemoryPlanEntry("gradients and one update", 2 * trained + update, host, False),
        *(MemoryPlanEntry(name, size, host, False) for name, size in sizes.items()),
    ]
    return Plan(device, tuple(items), _free_bytes(device))


def _check_networks(environment: Environment) -> None:
    """Raise a ConfigError if the networks do not fit into the host's memory, before they are created."""
    num_actions, spec = environment.num_actions, environment.spec
    # A user's agent may not support creation on the meta device.
    with suppress(NotImplementedError, RuntimeError), torch.device("meta"):
        agent = make_agent(environment.config, num_actions, torch.device("meta"), spec)
        require_memory("the agent", sum(parameter.nbytes for parameter in agent.parameters()))


def _update_bytes(memory_estimate: MemoryEstimate, batch_size: int) -> int:
    """Return the temporary memory of an update, extrapolated from the saved tensors of two small batches.

    Args:
        memory_estimate: estimate of the algorithm, whose ``loss`` computes the losses of blank rows.
        batch_size: number of rows of an update.
    """
    small, large = (_saved_bytes(memory_estimate.loss, count) for count in (_SAMPLE, 2 * _SAMPLE))
    per_row = (large - small) / _SAMPLE
    return round(batch_size * (_TRANSIENT * per_row + memory_estimate.row)) // memory_estimate.joint


def _saved_bytes(loss: Callable[[int], None], count: int) -> int:
    """Return the number of bytes that autograd saves for the losses of a batch of blank rows."""
    sizes: dict[int, int] = {}

    def record(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(record, lambda tensor: tensor):
        loss(count)
    return sum(sizes.values())


# Free memory ------------------------------------------------------------------------------------


def _free_bytes(device: torch.device) -> dict[bool, int]:
    """Return the free memory (bytes) of the host and the device; see Plan.free."""
    free = {True: free_host_memory()}
    if device.type == "cuda":
        free[False] = torch.cuda.mem_get_info(device)[0]
    return free


def check(memory: Plan, config: TrainConfig[Any], at_once: int = 1) -> None:
    """Check that a run fits into the free memory.

    Args:
        memory: plan of the run.
        config: configuration of the run.
        at_once: number of such runs that share the host and its GPUs.

    Raises:
        ConfigError: when it does not fit; the message names the largest replay that fits or, if none does, the sizes to
            reduce.
    """
    per_device = -(-at_once // max(1, torch.cuda.device_count()))
    shares = {on_host: free // (at_once if on_host else per_device) for on_host, free in memory.free.items()}
    memory = replace(memory, free=shares)
    for on_host, free in memory.free.items():
        if memory.lacking(on_host) <= 0:
            continue
        where = "the host" if on_host else str(memory.device)
        available = f"the {size_text(free)} free on {where}, of which {USABLE_SHARE:.0%} are planned with"
        settings = config.trainer
        rows = sum(item.size for item in memory.items if item.on_host == on_host and "replay" in item.name)
        share = 1.0 - memory.lacking(on_host) / rows if rows else 0.0
        if isinstance(settings, OffPolicyConfig):
            slots = settings.buffer_size
            fitting = round((slots + SPARE_SLOTS) * share) - SPARE_SLOTS - 1
            require(fitting <= 0, "trainer.buffer_size", slots, f"at most {fitting:,} to fit {available}")
        besides = " besides replay" if rows else ""
        raise ConfigError(
            f"trainer.num_envs={settings.num_envs}, trainer.batch_size={settings.batch_size}: must "
            f"be less, as the run needs {size_text(memory.needed(on_host) - rows)}{besides}, to fit "
            f"{available}"
        )


# The table --------------------------------------------------------------------------------------


def is_short(memory: Plan) -> bool:
    """Return whether a run takes over half of the USABLE_SHARE of free memory, on the host or the device."""
    return any(2 * memory.needed(on_host) > USABLE_SHARE * free for on_host, free in memory.free.items())


def summary(memory: Plan) -> str:
    """Return the needed and the free memory of a plan as one line of text."""
    places = {True: "host", False: str(memory.device)}
    totals = [
        f"{size_text(memory.needed(on_host))} of {size_text(free)} free ({places[on_host]})"
        for on_host, free in sorted(memory.free.items())
    ]
    return f"memory: {', '.join(totals)}"


def table(memory: Plan) -> Table:
    """Return a plan as a table for the terminal, with a row per item and the totals."""
    result = Table(title=f"memory planned on {memory.device}", title_justify="left")
    result.add_column("what")
    result.add_column("where")
    result.add_column("size", justify="right")
    places = {True: "host", False: str(memory.device)}
    for item in memory.items:
        size = size_text(item.size) if item.exact else f"about {size_text(item.size)}"
        result.add_row(item.name, places[item.on_host], size)
    for on_host, free in sorted(memory.free.items()):
        needed = f"{size_text(memory.needed(on_host))} of {size_text(free)} free"
        result.add_row("total", places[on_host], needed, style="bold")
    return result
