"""Prediction of the memory that a run takes.

Replay, weights and optimiser are counted to the byte, from one row and one agent. What an update
and the world's step need in passing is estimated: by what autograd keeps of a small batch, and by
the size of one environment.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import torch
from rich.table import Table
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env import GROUP, Curriculum, MarineNavEnv
from marinenav_env.validation import ConfigError, require
from train_RL_agents.agents import Agent
from train_RL_agents.agents.actor_critic import ActorCriticAgent
from train_RL_agents.agents.rollout_batch import RolloutBatch
from train_RL_agents.collecting.worlds import training_scenarios
from train_RL_agents.config.building import make_agent
from train_RL_agents.config.schema import (
    OffPolicyConfig,
    OnPolicyConfig,
    TrainConfig,
    TrainerConfig,
)
from train_RL_agents.learning.flat import flat_bytes
from train_RL_agents.memory.prioritized import BlockSums
from train_RL_agents.memory.transitions import MultiStep, batch_of, example_row
from train_RL_agents.networks.observation import ACTIVE, observation_of

CPU = torch.device("cpu")
USABLE = 0.9
"""Share of the free memory that a run may plan with; the rest is a reserve."""
_SAMPLE = 32
"""Rows of the small batches that the memory of an update is estimated from."""
_TRANSIENT = 1.5
"""An update's peak over what autograd keeps: gradients on the way back, and the allocator."""
_PAIR = 256
"""Bytes that a step takes in passing for each pair of a robot and an object it may see."""
_CGROUP = Path("/sys/fs/cgroup")
_LIMITS = (
    ("", "memory.max", "memory.current", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Where version 2 of control groups, and version 1, say how much a container may take."""


@dataclass(frozen=True)
class Item:
    """Something that takes memory."""

    name: str
    """What it is."""
    size: int
    """Bytes."""
    on_host: bool
    """Whether in the host's memory; else in the device's."""
    exact: bool
    """Counted to the byte, or estimated."""


@dataclass(frozen=True)
class Plan:
    """What a run takes, and what there is."""

    device: torch.device
    """Of the run."""
    items: tuple[Item, ...]
    """What takes memory, in the order of the table."""
    free: dict[bool, int]
    """Free bytes, of the host under True and, if it is not the host, of the device under False."""

    def needed(self, on_host: bool) -> int:
        """Bytes that the run takes of the host's memory, or of the device's."""
        return sum(item.size for item in self.items if item.on_host == on_host)

    def lacking(self, on_host: bool) -> int:
        """Bytes too few; at most 0 when it fits."""
        return self.needed(on_host) - round(USABLE * self.free.get(on_host, 0))

    @property
    def fits(self) -> bool:
        """Whether there is enough of both."""
        return all(self.lacking(on_host) <= 0 for on_host in self.free)

    def size(self, name: str) -> int:
        """Bytes of an item; 0 if there is none."""
        return sum(item.size for item in self.items if item.name == name)


# Prediction -------------------------------------------------------------------------------------


def plan(config: TrainConfig[Any], device: torch.device) -> Plan:
    """Predict what a run of a configuration will take; neither generator nor device is touched."""
    settings = config.trainer
    with torch.random.fork_rng(devices=[]):
        agent = make_agent(config, config.world.vessel.num_actions, CPU)
        env = _one_environment(config, agent.continuous)
        memory, update = MEMORIES[agent.algorithm](config, agent, env, device)
    host = device.type == "cpu"
    trained = flat_bytes(agent.networks)
    # The averaged copy has targets of its own, which nothing lays out.
    targets = flat_bytes(agent.targets) + sum(_bytes(each) for each in agent.targets.parameters())
    weights = 2 * trained + targets + 2 * sum(_bytes(each) for each in agent.buffers())
    items = [
        *memory,
        Item("networks, targets, averaged copy", weights, host, True),
        Item("optimiser", _moments(settings) * trained, host, True),
        # As they come from the losses, and gathered in one tensor.
        Item("gradients and one update", 2 * trained + update, host, False),
        Item("world and collected steps", _world_bytes(env, settings), host, False),
        Item("scenarios held ready", _pool_bytes(env, config), host, False),
    ]
    return Plan(device, tuple(items), _free(device))


def _moments(settings: TrainerConfig) -> int:
    """Numbers that the optimiser keeps of every weight."""
    return 1 if isinstance(settings, OnPolicyConfig) and settings.optimizer == "rmsprop" else 2


def _replay_memory(
    config: TrainConfig[Any], agent: Agent[Any], env: MarineNavEnv, device: torch.device
) -> tuple[list[Item], int]:
    """What an off-policy algorithm keeps, and the bytes of an update."""
    settings = config.trainer
    assert isinstance(settings, OffPolicyConfig)
    row = example_row(env.fake_tensordict(), MultiStep(settings.n_steps, 1.0, 1.0))
    host = device.type == "cpu"
    rows, priorities = replay_bytes(row, settings.buffer_size, settings.prioritized)
    windows = 2 * settings.n_steps * settings.steps_per_batch * env.num_robots * _tree_bytes(row)
    items = [
        Item("replay", rows + priorities, host or settings.replay_storage == "host", True),
        Item("open windows", settings.num_envs * windows, host, False),
    ]
    if config.save_replay:
        items.append(Item("copy of replay while saving", rows, True, True))

    def loss(count: int) -> None:
        batch = batch_of(row.expand(count).clone())
        agent.loss(batch, agent.loss_noise(count, torch.Generator()))

    # Drawn rows are there twice: as they come from replay and as the losses want them.
    return items, _update_bytes(loss, settings.batch_size, 2 * _tree_bytes(row))


def _rollout_memory(
    config: TrainConfig[Any], agent: Agent[Any], env: MarineNavEnv, device: torch.device
) -> tuple[list[Item], int]:
    """What an on-policy algorithm keeps, and the bytes of an update."""
    settings = config.trainer
    assert isinstance(settings, OnPolicyConfig)
    assert isinstance(agent, ActorCriticAgent)
    step = env.fake_tensordict()
    observation = observation_of(step.get((GROUP, "observation")))
    shape = step.get((GROUP, "mask")).shape
    # As collected, as stored, as rows, and permuted.
    held = 4 * settings.num_envs * settings.rollout_steps * _step_bytes(env)

    def loss(count: int) -> None:
        given = {name: each.expand(count, *each.shape[1:]) for name, each in observation.items()}
        given[ACTIVE] = torch.ones(count, *shape[1:], dtype=torch.bool)
        with torch.no_grad():
            noise = agent.exploration_noise(given[ACTIVE].shape, torch.Generator())
            action, extras = agent.explore(given, noise)
        value = extras["value"]
        batch = RolloutBatch(given, action, extras, value, value, value + 1.0, value.new_zeros(()))
        agent.loss(batch, None)

    items = [Item("rollout", held, device.type == "cpu", False)]
    # The small batches have all robots of an environment in each row.
    return items, _update_bytes(loss, settings.batch_size, 0) // env.num_robots


MEMORIES = {"off-policy": _replay_memory, "on-policy": _rollout_memory}
"""What each kind of algorithm keeps."""


def replay_bytes(row: TensorDictBase, capacity: int, prioritized: bool) -> tuple[int, int]:
    """Bytes of replay's rows and of their priorities.

    Args:
        row: one row, without batch dimensions.
        capacity: transitions held.
        prioritized: whether there are priorities.
    """
    slots = capacity + 1  # one is spare
    priorities = BlockSums(slots, torch.device("meta")).nbytes() if prioritized else 0
    return slots * _tree_bytes(row), priorities


def _one_environment(config: TrainConfig[Any], continuous: bool) -> MarineNavEnv:
    """The world of a run with one environment and one scenario held ready."""
    scenarios = training_scenarios(config)
    if isinstance(scenarios, Curriculum):
        scenarios = replace(scenarios, pool_size=1, refresh_size=1)
    return MarineNavEnv(config.world, 1, scenarios=scenarios, continuous=continuous)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _tree_bytes(tree: Any) -> int:
    """Bytes of the tensors in a tensordict or tensorclass."""
    return sum(_bytes(leaf) for leaf in tree.values(True, True))


def _update_bytes(loss: Callable[[int], None], batch_size: int, row: int) -> int:
    """What an update takes in passing, from what autograd keeps of two small batches.

    Args:
        loss: computes the losses of so many blank rows.
        batch_size: rows of an update.
        row: bytes of a row beside that.
    """
    small, large = (_kept_bytes(loss, count) for count in (_SAMPLE, 2 * _SAMPLE))
    per_row = (large - small) / _SAMPLE
    return round(batch_size * (_TRANSIENT * per_row + row))


def _kept_bytes(loss: Callable[[int], None], count: int) -> int:
    """Bytes that autograd keeps of the losses of a batch of blank rows."""
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss(count)
    return sum(kept.values())


def _world_bytes(env: MarineNavEnv, settings: TrainerConfig) -> int:
    """The environments, the step they are in, and the steps being collected."""
    robots, obstacles = env.num_robots, env.scenario.obstacle_mask.shape[-1]
    # Old and new state; the batch, and the step before and after.
    own = 2 * _pool_entry(env) + (settings.vector_steps + 2) * _step_bytes(env)
    pairs = _PAIR * robots * (robots + obstacles)
    return settings.num_envs * (own + pairs)


def _step_bytes(env: MarineNavEnv) -> int:
    return _tree_bytes(env.fake_tensordict())


def _pool_entry(env: MarineNavEnv) -> int:
    """Bytes of one start: scenario, state and observation."""
    parts = (env.scenario, env.state, env.observation_spec.zero())
    return sum(_tree_bytes(part) for part in parts)


def _pool_bytes(env: MarineNavEnv, config: TrainConfig[Any]) -> int:
    """The reset pool, and the candidates of a refresh."""
    curriculum = config.training_schedule.curriculum()
    ends = 2 * env.num_robots
    # Points, differences and distances of each candidate to each start and goal.
    candidates = config.world.scenario.draws * ends * 6 * env.state.pose.element_size()
    return curriculum.pool_size * _pool_entry(env) + curriculum.refresh_size * candidates


# What there is ----------------------------------------------------------------------------------


def _free(device: torch.device) -> dict[bool, int]:
    """See Plan.free."""
    free = {True: host_free()}
    if device.type == "cuda":
        free[False] = torch.cuda.mem_get_info(device)[0]
    return free


def host_free(cgroup: Path = _CGROUP) -> int:
    """Bytes of memory free on the host, or left to this process's container if that is less."""
    free = int(psutil.virtual_memory().available)  # host: a number of the system
    for folder, limit, used, cache in _LIMITS:
        with suppress(OSError, ValueError):  # no container, or one without a limit
            free = min(free, _left(cgroup / folder, limit, used, cache))
    return free


def _left(cgroup: Path, limit: str, used: str, cache: str) -> int:
    """Bytes that a container may still take; pages of files that can go count as free."""
    numbers = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
    held = int((cgroup / used).read_text()) - int(numbers.get(cache, 0))  # host: of the system
    return int((cgroup / limit).read_text()) - held  # host: a number of the system


def check(found: Plan, config: TrainConfig[Any]) -> None:
    """Refuse a run that will not fit.

    Raises:
        ConfigError: naming the largest replay that fits, or the rest if no replay does.
    """
    for on_host, free in found.free.items():
        if found.lacking(on_host) <= 0:
            continue
        where = "the host" if on_host else str(found.device)
        there = f"the {gigabytes(free)} free on {where}, of which {USABLE:.0%} are planned with"
        settings: Any = config.trainer
        name, slots = "trainer.buffer_size", getattr(settings, "buffer_size", 0)
        rows = sum(item.size for item in found.items
                   if item.on_host == on_host and "replay" in item.name)  # fmt: skip
        fitting = round(slots * (1.0 - found.lacking(on_host) / rows)) - 1 if rows else 0
        require(fitting <= 0, name, slots, f"at most {fitting:,} to fit {there}")
        besides = " besides replay" if rows else ""
        raise ConfigError(
            f"trainer.num_envs={settings.num_envs}, trainer.batch_size={settings.batch_size}: must "
            f"be less, as the run needs {gigabytes(found.needed(on_host) - rows)}{besides}, to fit "
            f"{there}"
        )


# The table --------------------------------------------------------------------------------------


def gigabytes(size: int) -> str:
    """A size in GB (1e9 bytes), or in MB if it is small."""
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"


def table(found: Plan) -> Table:
    """The plan for people."""
    shown = Table(title=f"memory planned on {found.device}", title_justify="left")
    shown.add_column("what")
    shown.add_column("where")
    shown.add_column("size", justify="right")
    places = {True: "host", False: str(found.device)}
    for item in found.items:
        size = gigabytes(item.size) if item.exact else f"about {gigabytes(item.size)}"
        shown.add_row(item.name, places[item.on_host], size)
    for on_host, free in sorted(found.free.items()):
        needed = f"{gigabytes(found.needed(on_host))} of {gigabytes(free)} free"
        shown.add_row("total", places[on_host], needed, style="bold")
    return shown
