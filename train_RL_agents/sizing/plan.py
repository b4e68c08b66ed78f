"""Prediction of the memory that a run takes.

Replay, weights and optimiser are counted to the byte, from one row and one agent. What an update
and the world's step need in passing is estimated: by what autograd keeps of a small batch, and by
the size of one environment.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from rich.table import Table
from torch import Tensor

from marinenav_env import Curriculum, MarineNavEnv
from marinenav_env.scenarios.complete import draws_for
from marinenav_env.support.validation import ConfigError, require
from train_RL_agents.collecting.worlds import training_scenarios
from train_RL_agents.config.building import make_agent
from train_RL_agents.config.schema import EvalSchedule, TrainConfig, TrainerConfig, TrainingSchedule
from train_RL_agents.evaluation.episodes import drawing_bytes, step_bytes
from train_RL_agents.learning import ALGORITHMS
from train_RL_agents.learning.algorithm import MemoryEstimate, MemoryItem
from train_RL_agents.learning.flat import flat_bytes
from train_RL_agents.learning.learner import MOMENTS
from train_RL_agents.memory.prioritized import SPARE
from train_RL_agents.memory.replay import tree_bytes
from train_RL_agents.utils.memory import USABLE, gigabytes, host_free, require_room

CPU = torch.device("cpu")
_SAMPLE = 32
"""Rows of the small batches that the memory of an update is estimated from."""
_TRANSIENT = 1.5
"""An update's peak over what autograd keeps: gradients on the way back, and the allocator."""


@dataclass(frozen=True)
class Plan:
    """Memory that a run takes, and memory that is free."""

    device: torch.device
    """Of the run."""
    items: tuple[MemoryItem, ...]
    """What takes memory, in the order of the table."""
    free: dict[bool, int]
    """Free bytes, of the host under True and, if it is not the host, of the device under False."""

    def needed(self, on_host: bool) -> int:
        """Return the bytes that the run takes of the host's memory, or of the device's."""
        return sum(item.size for item in self.items if item.on_host == on_host)

    def lacking(self, on_host: bool) -> int:
        """Return the bytes too few; at most 0 when it fits."""
        return self.needed(on_host) - round(USABLE * self.free.get(on_host, 0))

    @property
    def fits(self) -> bool:
        """Return whether there is enough of both."""
        return all(self.lacking(on_host) <= 0 for on_host in self.free)

    def size(self, name: str) -> int:
        """Return the bytes of an item; 0 if there is none."""
        return sum(item.size for item in self.items if item.name == name)


# Prediction -------------------------------------------------------------------------------------


def plan(config: TrainConfig[Any], device: torch.device) -> Plan:
    """Predict what a run of a configuration will take; neither generator nor device is touched."""
    settings = config.trainer
    _check_networks(config)
    _check_levels(config)
    with torch.random.fork_rng(devices=[]):
        agent = make_agent(config, config.world.vessel.num_actions, CPU)
        env = _one_environment(config, agent.continuous)
        memory_estimate = ALGORITHMS[type(settings)].memory_estimate(config, agent, env.fake_tensordict())
        update = _update_bytes(memory_estimate, settings.batch_size)
    host = device.type == "cpu"
    trained = flat_bytes(agent.networks)
    # The EMA copy has targets of its own, which are not stored flat.
    targets = flat_bytes(agent.targets) + sum(each.nbytes for each in agent.targets.parameters())
    weights = 2 * trained + targets + 2 * sum(each.nbytes for each in agent.buffers())
    items = [
        *(replace(item, on_host=host or item.on_host) for item in memory_estimate.items),
        MemoryItem("networks, targets, EMA copy", weights, host, True),
        MemoryItem("optimiser", MOMENTS[settings.optimizer] * trained, host, True),
        # As they come from the losses, and gathered in one tensor.
        MemoryItem("gradients and one update", 2 * trained + update, host, False),
        MemoryItem("world and collected steps", _world_bytes(env, settings), host, False),
        MemoryItem("scenarios held ready", _pool_bytes(env, config), host, False),
        MemoryItem("evaluation", _evaluation_bytes(config), host, False),
    ]
    return Plan(device, tuple(items), _free(device))


def _check_networks(config: TrainConfig[Any]) -> None:
    """Refuse networks that the host has no room for, before they are made."""
    # An agent of a user's may be one that cannot be made without memory.
    with suppress(NotImplementedError, RuntimeError), torch.device("meta"):
        agent = make_agent(config, config.world.vessel.num_actions, torch.device("meta"))
        require_room("the agent", sum(each.nbytes for each in agent.parameters()))


def _check_levels(config: TrainConfig[Any]) -> None:
    """Refuse levels that there is no room for, by the schedule that has them."""
    training = config.training_schedule
    schedules: dict[str, TrainingSchedule | EvalSchedule] = {"eval_schedule": config.eval_schedule}
    if not (training.sampler or training.scenarios):
        schedules = {"training_schedule": training, **schedules}
    for name, schedule in schedules.items():
        try:
            draws_for(config.world.scenario, schedule.levels)
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from error


def _one_environment(config: TrainConfig[Any], continuous: bool) -> MarineNavEnv:
    """Return the world of a run with one environment and one scenario held ready."""
    with warnings.catch_warnings(action="ignore"):  # the run warns of its scenario file itself
        scenarios = training_scenarios(config)
    if isinstance(scenarios, Curriculum):
        scenarios = replace(scenarios, pool_size=1, refresh_size=1)
    return MarineNavEnv(config.world, 1, scenarios=scenarios, continuous=continuous, episode_statistics=True, seed=0)


def _update_bytes(memory_estimate: MemoryEstimate, batch_size: int) -> int:
    """Return the temporary memory of an update, extrapolated from what autograd keeps of two small batches.

    Args:
        memory_estimate: computes the losses of blank rows.
        batch_size: rows of an update.
    """
    small, large = (_kept_bytes(memory_estimate.loss, count) for count in (_SAMPLE, 2 * _SAMPLE))
    per_row = (large - small) / _SAMPLE
    return round(batch_size * (_TRANSIENT * per_row + memory_estimate.row)) // memory_estimate.joint


def _kept_bytes(loss: Callable[[int], None], count: int) -> int:
    """Return the bytes that autograd keeps of the losses of a batch of blank rows."""
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss(count)
    return sum(kept.values())


def _world_bytes(env: MarineNavEnv, settings: TrainerConfig) -> int:
    """Return the environments, the step they are in, and the steps being collected."""
    robots, obstacles = env.num_robots, env.scenario.obstacle_mask.shape[-1]
    # Old and new state; the batch, and the step before and after.
    own = 2 * _pool_entry(env) + (settings.vector_steps + 2) * _step_bytes(env)
    return settings.num_envs * (own + step_bytes(env.config, robots, obstacles))


def _step_bytes(env: MarineNavEnv) -> int:
    return tree_bytes(env.fake_tensordict())


def _pool_entry(env: MarineNavEnv) -> int:
    """Return the bytes of one start: scenario, state and observation."""
    parts = (env.scenario, env.state, env.observation_spec.zero())
    return sum(tree_bytes(part) for part in parts)


def _pool_bytes(env: MarineNavEnv, config: TrainConfig[Any]) -> int:
    """Return the reset pool, and the candidates of a refresh."""
    curriculum = config.training_schedule.curriculum()
    ends = 2 * env.num_robots
    # Points, differences and distances of each candidate to each start and goal.
    drawn = not (curriculum.sampler or config.training_schedule.scenarios)
    draws = draws_for(config.world.scenario, curriculum.levels) if drawn else 0
    candidates = draws * ends * 6 * env.state.pose.element_size()
    return curriculum.pool_size * _pool_entry(env) + curriculum.refresh_size * candidates


def _evaluation_bytes(config: TrainConfig[Any]) -> int:
    """Return the evaluations during training: their scenarios are drawn and then run, all at once."""
    schedule = config.eval_schedule
    levels, episodes = schedule.levels, sum(schedule.num_episodes)
    robots, obstacles = (max(getattr(level, name) for level in levels) for name in ("num_robots", "num_obstacles"))
    run = episodes * step_bytes(config.world, robots, obstacles)
    return max(run, drawing_bytes(config.world, levels, schedule.num_episodes))


# What there is ----------------------------------------------------------------------------------


def _free(device: torch.device) -> dict[bool, int]:
    """See Plan.free."""
    free = {True: host_free()}
    if device.type == "cuda":
        free[False] = torch.cuda.mem_get_info(device)[0]
    return free


def check(found: Plan, config: TrainConfig[Any], at_once: int = 1) -> None:
    """Refuse a run that will not fit.

    Args:
        found: what it takes.
        config: of the run.
        at_once: such runs that share the host, and its GPUs.

    Raises:
        ConfigError: naming the largest replay that fits, or the rest if no replay does.
    """
    on_one = -(-at_once // max(1, torch.cuda.device_count()))
    shares = {on_host: free // (at_once if on_host else on_one) for on_host, free in found.free.items()}
    found = replace(found, free=shares)
    for on_host, free in found.free.items():
        if found.lacking(on_host) <= 0:
            continue
        where = "the host" if on_host else str(found.device)
        there = f"the {gigabytes(free)} free on {where}, of which {USABLE:.0%} are planned with"
        settings = config.trainer
        name, slots = "trainer.buffer_size", settings.buffer_size
        rows = sum(item.size for item in found.items if item.on_host == on_host and "replay" in item.name)
        share = 1.0 - found.lacking(on_host) / rows if rows else 0.0
        fitting = round((slots + SPARE) * share) - SPARE - 1
        require(fitting <= 0, name, slots, f"at most {fitting:,} to fit {there}")
        besides = " besides replay" if rows else ""
        raise ConfigError(
            f"trainer.num_envs={settings.num_envs}, trainer.batch_size={settings.batch_size}: must "
            f"be less, as the run needs {gigabytes(found.needed(on_host) - rows)}{besides}, to fit "
            f"{there}"
        )


# The table --------------------------------------------------------------------------------------


def is_short(found: Plan) -> bool:
    """Tell whether a run takes more than half of the memory that may be planned with."""
    return any(2 * found.needed(on_host) > USABLE * free for on_host, free in found.free.items())


def summary(found: Plan) -> str:
    """Return the totals of the plan in a line."""
    places = {True: "host", False: str(found.device)}
    totals = [
        f"{gigabytes(found.needed(on_host))} of {gigabytes(free)} free ({places[on_host]})"
        for on_host, free in sorted(found.free.items())
    ]
    return f"memory: {', '.join(totals)}"


def table(found: Plan) -> Table:
    """Return the plan for people."""
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
