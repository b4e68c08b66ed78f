"""Reset pool: states on the device, prepared in advance, that episodes are reset to.

A reset needs no rejection loop, no host read and no new observation, because the pool holds scenarios with
their initial state and observation. A sampled pool is refreshed during the run, a few entries at a time;
a fixed pool is used in order.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

import torch
from torch import Tensor

from marinenav_env.config import ScenarioConfig
from marinenav_env.levels import LEVELS, Level
from marinenav_env.runtime.host_reads import host_reads_are_free, true_indices
from marinenav_env.runtime.layout import environments_innermost
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.complete import CompleteSampler
from marinenav_env.scenarios.draws import LEVEL_CHOICES, POOL_ENTRIES
from marinenav_env.state import ResetState, Scenario
from marinenav_env.support import plugins
from marinenav_env.support.tensors import restore_tensors
from marinenav_env.support.validation import (
    ConfigError,
    PositiveInt,
    at_least,
    check_fields,
    is_nonnegative_int,
    require,
)

_SAMPLER_KEY = "curriculum.sampler"
"""Name of the setting of a user-defined sampler, for messages."""
_FIRST_POOL_NUMBER = 2**31
"""Environment number from which the random numbers of pool entries start."""
MAX_POOL_SIZE, MIN_POOL_SIZE = 2048, 8
"""Largest and smallest default size of a reset pool (entries)."""
MAX_POOL_PAIRS = 2**22
"""Largest number of pairs of a robot and an object in all entries of a pool of the default size, whose initial
observations take a few seconds."""
DEFAULT_REFRESH_SIZE = 256
"""Default number of entries that a refresh replaces, if the size of the pool is a multiple of it."""
MIN_REFRESHES = 8
"""Smallest number of default refreshes that replace a whole pool whose size is not such a multiple, if possible."""


class Sampler(Protocol):
    """Sampler of scenarios on a device, such as ScenarioSampler (as published) or CompleteSampler."""

    @property
    def max_robots(self) -> int:
        """Number of robot slots R of every scenario."""

    def sample(self, level: Tensor, generator: torch.Generator) -> Scenario:
        """Draw one scenario per entry of ``level``.

        Args:
            level: [P] int64, index into the levels of the curriculum.
            generator: generator on the device of the scenarios.

        Returns:
            Scenarios, batch [P]; the numbers of slots must be the same in every call.
        """


SamplerFactory = Callable[[ScenarioConfig, tuple[Level, ...], torch.device, torch.dtype], Sampler]
"""Factory of a sampler from the constraints on scenarios, the levels, a device and a floating-point type."""

ResetStateFactory = Callable[[Scenario, Tensor, RandomSource | None], ResetState]
"""Function that returns reset states [P], with state and observation, for scenarios [P]. It also takes the indices [P]
of the scenarios in the pool and, if the scenarios were drawn, their random source (else None)."""


@dataclass(frozen=True)
class Curriculum:
    """Levels that scenarios are drawn from, and their schedule.

    With ``timesteps`` the levels follow one another; without, they are mixed by ``weights``.
    """

    levels: tuple[Level, ...] = field(default=LEVELS)
    """Levels of the scenarios."""
    weights: Annotated[tuple[float, ...], at_least(0.0)] = ()
    """Shares of the levels in a mixture (any scale); empty: equal shares."""
    timesteps: tuple[int, ...] = ()
    """Env-steps at which the levels start, the first 0; empty: all levels at once."""
    pool_size: PositiveInt = None  # type: ignore[assignment]
    """Number of scenarios in the pool; by default 2048, fewer for fleets of more than about 40 robots."""
    refresh_size: PositiveInt = None  # type: ignore[assignment]
    """Number of scenarios replaced by a refresh; by default 256, fewer where the default pool is smaller."""
    refresh_interval: PositiveInt = 64
    """Number of vector steps between refreshes; of resets in loops that call ``step`` and ``reset`` instead of
    ``step_and_maybe_reset`` or ``maybe_reset``."""
    sampler: str | SamplerFactory | Sampler = ""
    """User-defined sampler (``package.module:Class``, a class, or an object); CompleteSampler if empty."""

    def __post_init__(self) -> None:
        unset = [name for name in ("pool_size", "refresh_size") if getattr(self, name) is None]
        for name in unset:
            object.__setattr__(self, name, 1)  # until the other fields are known to be valid
        check_fields(self, "curriculum")
        count = len(self.levels)
        require(count > 0, "curriculum.levels", self.levels, "at least one level")
        if "pool_size" in unset:
            multiple = -(-self._default_size() // self.refresh_size) * self.refresh_size
            object.__setattr__(self, "pool_size", multiple)
        if "refresh_size" in unset:
            object.__setattr__(self, "refresh_size", self._default_refresh("pool_size" not in unset))
        are_shares = not self.weights or (len(self.weights) == count and sum(self.weights) > 0.0)
        require(are_shares, "curriculum.weights", self.weights, f"{count} numbers with a positive sum")
        order = list(self.timesteps)
        is_schedule = not order or (len(order) == count and order[0] == 0 and order == sorted(order))
        require(is_schedule, "curriculum.timesteps", self.timesteps, f"{count} increasing, the first 0")
        require(not (order and self.weights), "curriculum.weights", self.weights, "left out when timesteps are given")
        is_multiple = self.pool_size % self.refresh_size == 0
        require(is_multiple, "curriculum.pool_size", self.pool_size, "a multiple of refresh_size")

    def _default_refresh(self, pool_is_given: bool) -> int:
        """Return the default of ``refresh_size``, a divisor of ``pool_size``, given or a default itself."""
        if pool_is_given and self.pool_size % DEFAULT_REFRESH_SIZE == 0:
            return DEFAULT_REFRESH_SIZE
        most = max(1, min(DEFAULT_REFRESH_SIZE, self.pool_size // MIN_REFRESHES))
        return next(part for part in range(most, 0, -1) if self.pool_size % part == 0)

    def _default_size(self) -> int:
        """Return the default size of the pool, a power of two, from the largest number of robots and obstacles."""
        robots, obstacles = (
            max(getattr(level, name) for level in self.levels) for name in ("num_robots", "num_obstacles")
        )
        affordable = max(1, MAX_POOL_PAIRS // (robots * (robots + obstacles)))
        return max(MIN_POOL_SIZE, min(MAX_POOL_SIZE, 1 << (affordable.bit_length() - 1)))

    def level_at(self, env_steps: int) -> int:
        """Return the index of the level that is scheduled at an env-step; -1 for a mixture of levels."""
        return sum(env_steps >= begin for begin in self.timesteps) - 1


def make_sampler(curriculum: Curriculum, config: ScenarioConfig, device: torch.device, dtype: torch.dtype) -> Sampler:
    """Load or build the sampler of a curriculum."""
    source: Any = curriculum.sampler or CompleteSampler
    if isinstance(source, str):
        source = plugins.resolve(plugins.SCENARIOS, source)
    if isinstance(source, type) or not hasattr(source, "sample"):
        require(callable(source), "curriculum.sampler", source, "a class with the method sample")
        source = source(config, curriculum.levels, device, dtype)
    is_sampler = callable(getattr(source, "sample", None)) and isinstance(source.max_robots, int)
    allowed = "a sampler: max_robots and sample(level, generator)"
    require(is_sampler, "curriculum.sampler", type(source).__name__, allowed)
    sampler: Sampler = source
    return sampler


def first_entry_number(scenarios: Any, source: RandomSource, is_shared: bool = False) -> Tensor:
    """Return the environment number of the first entry of a reset pool, for its random source, [] int64.

    Pools of the built-in sampler, and of scenarios that all batches of environments share, have the same numbers for
    all batches. Pools of other scenarios have different numbers for each batch, without gaps, because environment
    numbers end at 2^32.
    """
    if isinstance(scenarios, Curriculum):
        entries = scenarios.pool_size if scenarios.sampler else 0
    else:
        entries = 0 if is_shared else len(scenarios)
    return source.environment[0] // len(source.environment) * entries + _FIRST_POOL_NUMBER


class ResetPool(ABC):
    """Base class of pools of states that episodes are reset to."""

    states: ResetState
    """Reset states, batch [P]."""
    counter: Tensor
    """Counter of episodes or steps, the only tensor that ``advance`` changes, in place."""
    kept: Tensor | None = None
    """[] int64, number of entries that refreshes kept so far, because the new scenario was incomplete; None where this
    cannot happen."""

    @abstractmethod
    def next_index(self) -> Tensor | RandomSource:
        """Return the index of the pool entry from which each environment would start its next episode.

        These are int64 [E], or the random source from which RandomSource.randint draws them.
        """

    @abstractmethod
    def advance(self, done: Tensor | None) -> None:
        """Advance the counter after environments have started episodes where ``done`` [E] is true; None: in all."""

    @abstractmethod
    def prepare_full_reset(self, env_steps: int) -> None:
        """Bring the entries up to date, after a number of env-steps, before all environments are reset from them."""

    def due_entries(self, env_steps: int) -> list[Tensor]:
        """Return the argument of each call of ``replace`` that is due; called once per vector step."""
        return []

    def replace(self, begin: Tensor) -> None:
        """Replace adjacent pool entries, of which the first is ``begin`` ([] int64); CUDA graphs can capture this."""
        raise NotImplementedError

    def refresh(self, env_steps: int) -> None:
        """Replace all entries that are due at this number of env-steps; called once per step of the batch or reset."""
        for begin in self.due_entries(env_steps):
            self.replace(begin)

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return all tensors and numbers of the pool that change during a run."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the pool from the result of ``state_dict``."""


def require_robots(scenarios: Scenario, source: str, may_wait: bool = True) -> None:
    """Raise ConfigError if a scenario has no robot; ``may_wait``: also where a host read waits for earlier work."""
    none = ~scenarios.robot_mask.any(-1)
    rows = none.nonzero() if may_wait else true_indices(none)  # host: at the start
    empty = 0 if rows is None else len(rows)
    if empty:
        raise ConfigError(f"{source}: {empty:,} of {len(scenarios):,} scenarios have no robot")


class SampledPool(ResetPool):
    """Pool of reset states of drawn scenarios, refreshed during the run.

    ``refresh_size`` entries are replaced every ``refresh_interval`` steps, and all when the level changes. Random
    numbers follow from the seed, the number of the entry or environment, and the number of calls of
    ``advance``.

    The random source of E environments is not changed. The generator is for a user-defined sampler; its device is
    that of the pool.
    """

    def __init__(
        self,
        sampler: Sampler,
        curriculum: Curriculum,
        make_reset_state: ResetStateFactory,
        source: RandomSource,
        generator: torch.Generator,
    ) -> None:
        self._sampler, self._curriculum = sampler, curriculum
        self._make_reset_state = make_reset_state
        self._source = source._replace(step=source.step.clone())
        self._first, self._generator = first_entry_number(curriculum, source), generator
        device, size = generator.device, curriculum.refresh_size
        shares = torch.tensor(curriculum.weights or (1.0,) * len(curriculum.levels))
        self._cumulative = (shares.cumsum(0) / shares.sum()).to(device)
        self._level = curriculum.level_at(0)
        self._device_level = torch.tensor(self._level, device=device)
        self._rows = torch.arange(size, device=device)
        self._begins = torch.arange(0, curriculum.pool_size, size, device=device).unbind()
        self._cursor, self._ticks = 0, 0
        # A user-defined sampler may draw fewer or more robots than its levels require.
        self._complete = sampler if type(sampler) is CompleteSampler else None
        if self._complete is not None and not self._complete.redraws_on_host:
            self.kept = torch.zeros((), dtype=torch.int64, device=device)
        self.states = _arrange_memory(ResetState.cat([self._draw(begin) for begin in self._begins]))
        if curriculum.sampler:
            require_robots(self.states.scenario, _SAMPLER_KEY)
        self.counter = self._source.step

    def next_index(self) -> RandomSource:
        """Return the random source from which the next entries are drawn, all with equal probability."""
        return self._source._replace(step=self._source.step + 1).with_purpose(POOL_ENTRIES)

    def advance(self, done: Tensor | None) -> None:
        """Advance the step of the random numbers; ``done`` has no effect."""
        # In place, because a captured reset reads the memory of the step.
        self._source.step.add_(1)

    def prepare_full_reset(self, env_steps: int) -> None:
        """Replace all entries if the level changes, as when a run is resumed without its environments."""
        for begin in self._change_level(env_steps):
            self.replace(begin)

    def _change_level(self, env_steps: int) -> list[Tensor]:
        """Set the level to the one that is scheduled; return the begins of all groups to replace if it is a new one."""
        level = self._curriculum.level_at(env_steps)
        if level == self._level:
            return []
        self._set_level(level)
        return [*self._begins]

    def due_entries(self, env_steps: int) -> list[Tensor]:
        """Return the first entry, [] int64, of each group of ``refresh_size`` entries to replace in this vector step.

        All groups are due when the level of the curriculum changes, and one at every ``refresh_interval``.
        """
        begins = self._change_level(env_steps)
        self._ticks += 1
        if self._ticks % self._curriculum.refresh_interval == 0:
            begins.append(self._begins[self._cursor // self._curriculum.refresh_size])
            self._cursor += self._curriculum.refresh_size
            self._cursor %= self._curriculum.pool_size
        return begins

    def replace(self, begin: Tensor) -> None:
        """Replace ``refresh_size`` entries from ``begin`` on by new ones, drawn from the current level or mixture."""
        rows, drawn = begin + self._rows, self._draw(begin, refresh=True)
        if self._curriculum.sampler:
            require_robots(drawn.scenario, _SAMPLER_KEY, may_wait=False)
        for name in drawn.keys(include_nested=True, leaves_only=True):
            self.states.get(name).index_copy_(0, rows, drawn.get(name))

    def state_dict(self) -> dict[str, Any]:
        """Return the reset states, the current level and the counters."""
        counters = {"level": self._level, "cursor": self._cursor, "ticks": self._ticks}
        tensors = {"step": self._source.step, "kept": self.kept}
        counted = {name: tensor.clone() for name, tensor in tensors.items() if tensor is not None}
        return {"states": self.states.to_tensordict().to_dict(), **counters, **counted}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the reset states, the current level and the counters."""
        restore_tensors(self.states, state["states"])
        level, cursor, ticks = (state[name] for name in ("level", "cursor", "ticks"))
        size, curriculum = self._curriculum.refresh_size, self._curriculum
        require(level in range(-1, len(curriculum.levels)), "saved level", level, "one that there is")
        is_begin = cursor in range(0, curriculum.pool_size, size)
        require(is_begin, "saved cursor", cursor, f"a multiple of {size} below {curriculum.pool_size}")
        require(is_nonnegative_int(ticks), "saved ticks", ticks, "a whole number, at least 0")
        self._set_level(level)
        self._cursor, self._ticks = cursor, ticks
        restore_tensors({"step": self._source.step}, {"step": state["step"]})
        if self.kept is not None:
            restore_tensors({"kept": self.kept}, {"kept": state["kept"]})

    def _set_level(self, level: int) -> None:
        """Set the level that scenarios are drawn from, also for a captured ``replace``, which reads its tensor."""
        self._level = level
        self._device_level.fill_(level)

    def _draw(self, begin: Tensor, refresh: bool = False) -> ResetState:
        """Draw ``refresh_size`` reset states of the current level or mixture, for the entries from ``begin`` on."""
        size, rows = self._curriculum.refresh_size, begin + self._rows
        source = self._source._replace(environment=self._first + rows)
        if self._curriculum.timesteps:
            level = self._device_level.repeat(size)
        else:
            chance = source.with_purpose(LEVEL_CHOICES).uniform((size,), torch.float32)
            last = len(self._cumulative) - 1
            level = torch.searchsorted(self._cumulative, chance, right=True).clamp_max(last)
        # Only the built-in sampler accepts the counter-based source.
        numbers: Any = self._generator if self._curriculum.sampler else source
        scenario = self._sampler.sample(level, numbers)
        if self._complete is not None and self.kept is not None:
            if refresh:
                scenario = self._complete.replace_if_complete(scenario, self.states.scenario[rows], self.kept)
            else:
                scenario = self._complete.redraw_incomplete(scenario, level, numbers)
        expected = [size, self._sampler.max_robots]
        shape = list(scenario.robot_mask.shape)
        require(shape == expected, f"{_SAMPLER_KEY}: robot_mask.shape", shape, f"{expected}")
        return self._make_reset_state(scenario, rows, source)


class FixedPool(ResetPool):
    """Pool of reset states of given scenarios, used in order.

    Environment e of all N (``total_envs``), of which E are in this process, starts with scenario e of P, then uses
    e + N, e + 2 N and so on, modulo P. Where an environment returns to its first scenario before it has used all P,
    it continues with the next one, so every environment uses every scenario equally often in the long run.
    """

    def __init__(
        self, scenario: Scenario, make_reset_state: ResetStateFactory, env_numbers: Tensor, total_envs: int
    ) -> None:
        size, device = scenario.batch_size[0], scenario.goal.device
        self.states = _arrange_memory(make_reset_state(scenario, torch.arange(size, device=device), None))
        self._first, self._total_envs = env_numbers, total_envs
        self.counter = self._first.clone()
        self._round = math.lcm(size, total_envs)

    def next_index(self) -> Tensor:
        """Return the index of the next scenario of every environment, [E] int64."""
        number, size = self.counter, self.states.batch_size[0]
        # After a round, the scenarios of an environment repeat; shift them unless it has used all P.
        shift = number // self._round if self._round < size * self._total_envs else 0
        return (number + shift) % size

    def advance(self, done: Tensor | None) -> None:
        """Advance the counters of the environments that have started an episode."""
        # In place, because a captured reset reads the memory of the counter.
        self.counter.add_(1 if done is None else done, alpha=self._total_envs)

    def prepare_full_reset(self, env_steps: int) -> None:
        """Go back to the first scenario of every environment."""
        self.counter.copy_(self._first)

    def state_dict(self) -> dict[str, Any]:
        """Return the reset states and the counters of the environments' next episodes."""
        return {"states": self.states.to_tensordict().to_dict(), "next": self.counter.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the reset states and the counters of the environments' next episodes."""
        restore_tensors(self.states, state["states"])
        self.counter.copy_(state["next"])


def _arrange_memory(states: ResetState) -> ResetState:
    """Return states with adjacent entries where launches dominate; a CPU gathers only few entries."""
    if host_reads_are_free(states.scenario.goal.device):
        return states
    return states.apply(environments_innermost)
