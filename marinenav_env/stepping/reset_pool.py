"""The reset pool: states on the device, made in advance, that episodes are reset to.

A reset needs no rejection loop, no host read and no observation: the pool holds scenarios with
their first state and observation. A sampled pool is refreshed a few entries at a time during the
run; a fixed pool is used in order.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

import torch
from torch import Tensor

from marinenav_env.config import LEVELS, Level, ScenarioConfig
from marinenav_env.runtime.host_reads import launches_dominate, rows_where
from marinenav_env.runtime.layout import environments_innermost
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.complete import CompleteSampler
from marinenav_env.scenarios.draws import LEVEL, START
from marinenav_env.state import ResetState, Scenario
from marinenav_env.support import plugins
from marinenav_env.support.validation import (
    ConfigError,
    Count,
    at_least,
    check_fields,
    is_count,
    require,
)

_SAMPLER = "curriculum.sampler"
_POOL = 2**31
"""Entries of a reset pool draw as environments from this number on."""
MOST, LEAST, PAIRS = 2048, 8, 2**22
"""Entries of a reset pool whose size is not given, and pairs of a robot and an object in it: the
first observations of so many take a few seconds."""
REFRESH, PARTS = 256, 8
"""Entries replaced by a refresh, and the share of a smaller pool, where it is not given."""


class Sampler(Protocol):
    """Draws scenarios on a device; ScenarioSampler is the published one, CompleteSampler ours."""

    @property
    def max_robots(self) -> int:
        """Robot slots R of every scenario."""

    def sample(self, level: Tensor, generator: torch.Generator) -> Scenario:
        """Draw one scenario per entry.

        Args:
            level: [P] int64, index into the levels of the curriculum.
            generator: source of randomness; its device is the scenarios'.

        Returns:
            Scenarios, batch [P]; the numbers of slots are the same in every call.
        """


MakeSampler = Callable[[ScenarioConfig, tuple[Level, ...], torch.device, torch.dtype], Sampler]
"""From the constraints, the levels, a device and a floating-point type to a sampler."""

MakeResetState = Callable[[Scenario, Tensor, RandomSource | None], ResetState]
"""From scenarios [P], their pool index [P] and what random numbers follow from, if they were drawn,
to reset states [P]: adds state and observation."""


@dataclass(frozen=True)
class Curriculum:
    """Which levels scenarios are drawn from, and when.

    With ``timesteps`` the levels follow one another; without, they are mixed by ``weights``.
    """

    levels: tuple[Level, ...] = field(default=LEVELS)
    """The levels."""
    weights: Annotated[tuple[float, ...], at_least(0.0)] = ()
    """Share of each level in a mixture (any scale); none: equal shares."""
    timesteps: tuple[int, ...] = ()
    """Env-steps from which each level holds, the first 0; none: all levels at once."""
    pool_size: Count = None  # type: ignore[assignment]
    """Scenarios in the pool; by default 2048, fewer for fleets of more than about 40 robots."""
    refresh_size: Count = None  # type: ignore[assignment]
    """Scenarios replaced by a refresh; by default 256, fewer where the default pool is smaller."""
    refresh_interval: Count = 64
    """Vector steps between refreshes."""
    sampler: str | MakeSampler | Sampler = ""
    """What draws the scenarios: a sampler of your own as package.module:Class, its class, or an
    object; none: CompleteSampler."""

    def __post_init__(self) -> None:
        by_fleet = self.pool_size is None
        left_open = [name for name in ("pool_size", "refresh_size") if getattr(self, name) is None]
        self._fill(left_open, MOST)
        check_fields(self, "curriculum")
        count = len(self.levels)
        require(count > 0, "curriculum.levels", self.levels, "at least one level")
        self._fill(left_open, self._affordable() if by_fleet else MOST)
        fine = not self.weights or (len(self.weights) == count and sum(self.weights) > 0.0)
        require(fine, "curriculum.weights", self.weights, f"{count} numbers with a positive sum")
        order = list(self.timesteps)
        fine = not order or (len(order) == count and order[0] == 0 and order == sorted(order))
        require(fine, "curriculum.timesteps", self.timesteps, f"{count} increasing, the first 0")
        require(not (order and self.weights), "curriculum.weights", self.weights, "left out when timesteps are given")
        fine = self.pool_size % self.refresh_size == 0
        require(fine, "curriculum.pool_size", self.pool_size, "a multiple of refresh_size")

    def _fill(self, names: list[str], size: int) -> None:
        """Set what is not given, for a pool of a size; what is given is kept."""
        pool, refresh = self.pool_size, self.refresh_size
        if "pool_size" in names:
            given = "refresh_size" not in names and is_count(refresh) and refresh > 0
            pool = -(-size // refresh) * refresh if given else size
            object.__setattr__(self, "pool_size", pool)
        if "refresh_size" in names:
            given = "pool_size" not in names and is_count(pool) and pool % REFRESH == 0
            most = max(1, min(REFRESH, pool // PARTS)) if is_count(pool) else 1
            parts = (part for part in range(most, 0, -1) if part == 1 or pool % part == 0)
            refresh = REFRESH if given else next(parts)
            object.__setattr__(self, "refresh_size", refresh)

    def _affordable(self) -> int:
        """The pool's default size, a power of two, by the size of the fleets."""
        robots, obstacles = (
            max(getattr(level, name) for level in self.levels) for name in ("num_robots", "num_obstacles")
        )
        affordable = max(1, PAIRS // (robots * (robots + obstacles)))
        return max(LEAST, min(MOST, 1 << (affordable.bit_length() - 1)))

    def level_at(self, env_steps: int) -> int:
        """Index of the scheduled level after so many env-steps; -1 for a mixture."""
        return sum(env_steps >= begin for begin in self.timesteps) - 1


def as_scenarios(scenarios: Any) -> Any:
    """What MarineNavEnv is given as scenarios, with a Curriculum for nothing or for a sampler."""
    if scenarios is None:
        return Curriculum()
    return Curriculum(sampler=scenarios) if hasattr(scenarios, "sample") else scenarios


def make_sampler(curriculum: Curriculum, config: ScenarioConfig, device: torch.device, dtype: torch.dtype) -> Sampler:
    """The sampler of a curriculum.

    Raises:
        ConfigError: when it cannot be loaded or is none.
    """
    found: Any = curriculum.sampler or CompleteSampler
    if isinstance(found, str):
        found = plugins.resolve(plugins.SCENARIOS, found)
    if isinstance(found, type) or not hasattr(found, "sample"):
        require(callable(found), "curriculum.sampler", found, "a class with the method sample")
        found = found(config, curriculum.levels, device, dtype)
    fine = callable(getattr(found, "sample", None)) and isinstance(found.max_robots, int)
    allowed = "a sampler: max_robots and sample(level, generator)"
    require(fine, "curriculum.sampler", type(found).__name__, allowed)
    sampler: Sampler = found
    return sampler


def first_entry(scenarios: Any, source: RandomSource) -> Tensor:
    """Number of a reset pool's first entry as an environment that draws, [] int64.

    All batches have the pool of the published sampler. Of other scenarios each has one of its own,
    and those of the next batch follow, since numbers of environments end at 2^32.

    Args:
        scenarios: a Curriculum, or the scenarios.
        source: of random numbers, E environments.
    """
    entries = (scenarios.pool_size if scenarios.sampler else 0) if isinstance(scenarios, Curriculum) else len(scenarios)
    return source.environment[0] // len(source.environment) * entries + _POOL


class ResetPool(ABC):
    """States that resets read from; see SampledPool and FixedPool."""

    states: ResetState
    """batch [P]."""
    counter: Tensor
    """What ``advance`` changes, in place; it changes nothing else."""
    kept: Tensor | None = None
    """[] int64: entries that refreshes left as they were so far, see CompleteSampler.or_kept; None
    where that does not happen."""

    @abstractmethod
    def next_index(self) -> Tensor | RandomSource:
        """Return the entry of the pool that each environment would start from next.

        Returns:
            [E] int64; or what they follow from, see RandomSource.below.
        """

    @abstractmethod
    def advance(self, done: Tensor | None) -> None:
        """Be told, after each step or reset, that environments started from their entries.

        Args:
            done: [E] bool, which environments; None for all.
        """

    def rewind(self) -> None:  # noqa: B027 (the order matters to one kind)
        """Begin again, before all environments are reset."""

    def due(self, env_steps: int) -> list[Tensor]:
        """The scenarios that ``replace`` draws anew now; called once per vector step.

        Args:
            env_steps: of the run so far, which a curriculum may depend on.

        Returns:
            For each call of ``replace`` the first entry, [] int64.
        """
        return []

    def replace(self, begin: Tensor) -> None:
        """Replace some entries in place; can be captured.

        Args:
            begin: the first of them.
        """
        raise NotImplementedError

    def refresh(self, env_steps: int) -> None:
        """Renew what is due; called once per vector step, in place of ``due``."""
        for begin in self.due(env_steps):
            self.replace(begin)

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Everything that changes during a run."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what state_dict gave."""


def require_robots(scenarios: Scenario, source: str, waits: bool = True) -> None:
    """Refuse scenarios without any robot.

    Args:
        scenarios: batch [P].
        source: what they are of, for the message.
        waits: whether they are looked at on devices where reading waits, too.

    Raises:
        ConfigError: when there are some.
    """
    none = ~scenarios.robot_mask.any(-1)
    rows = none.nonzero() if waits else rows_where(none)  # host: at the start
    empty = 0 if rows is None else len(rows)
    if empty:
        raise ConfigError(f"{source}: {empty:,} of {len(scenarios):,} scenarios have no robot")


class SampledPool(ResetPool):
    """Reset states of drawn scenarios, refreshed during the run.

    A few entries are replaced every few steps, and all of them when the level changes. Random
    numbers follow from the seed, the number of the entry or environment, and how often
    ``advance`` was called.

    Args:
        sampler: draws scenarios.
        curriculum: which levels, and how large the pool is.
        make_reset_state: adds state and observation.
        source: of random numbers, E environments; it is not changed.
        generator: source of randomness of the curriculum's own sampler, if it has one.
    """

    def __init__(
        self,
        sampler: Sampler,
        curriculum: Curriculum,
        make_reset_state: MakeResetState,
        source: RandomSource,
        generator: torch.Generator,
    ) -> None:
        self._sampler, self._curriculum = sampler, curriculum
        self._make_reset_state = make_reset_state
        self._source = source._replace(step=source.step.clone())
        self._first, self._generator = first_entry(curriculum, source), generator
        device, size = generator.device, curriculum.refresh_size
        shares = torch.tensor(curriculum.weights or (1.0,) * len(curriculum.levels))
        self._cumulative = (shares.cumsum(0) / shares.sum()).to(device)
        self._level = curriculum.level_at(0)
        self._device_level = torch.tensor(self._level, device=device)
        self._rows = torch.arange(size, device=device)
        self._begins = torch.arange(0, curriculum.pool_size, size, device=device).unbind()
        self._cursor, self._ticks = 0, 0
        # A user's sampler may give other numbers of robots than its levels ask for.
        self._complete = sampler if type(sampler) is CompleteSampler else None
        if self._complete is not None and not self._complete.asks:
            self.kept = torch.zeros((), dtype=torch.int64, device=device)
        self.states = _in_memory(ResetState.cat([self._draw(begin) for begin in self._begins]))
        if curriculum.sampler:
            require_robots(self.states.scenario, _SAMPLER)
        self.counter = self._source.step

    def next_index(self) -> RandomSource:
        """Any entry with equal probability."""
        return self._source._replace(step=self._source.step + 1).of(START)

    def advance(self, done: Tensor | None) -> None:
        """See ResetPool."""
        # In place: a captured reset reads the memory of the step.
        self._source.step.add_(1)

    def due(self, env_steps: int) -> list[Tensor]:
        """See ResetPool."""
        begins: list[Tensor] = []
        level = self._curriculum.level_at(env_steps)
        if level != self._level:
            self._set_level(level)
            begins += self._begins
        self._ticks += 1
        if self._ticks % self._curriculum.refresh_interval == 0:
            begins.append(self._begins[self._cursor // self._curriculum.refresh_size])
            self._cursor += self._curriculum.refresh_size
            self._cursor %= self._curriculum.pool_size
        return begins

    def replace(self, begin: Tensor) -> None:
        """See ResetPool."""
        rows, drawn = begin + self._rows, self._draw(begin, refresh=True)
        if self._curriculum.sampler:
            require_robots(drawn.scenario, _SAMPLER, waits=False)
        for name in drawn.keys(include_nested=True, leaves_only=True):
            self.states.get(name).index_copy_(0, rows, drawn.get(name))

    def state_dict(self) -> dict[str, Any]:
        """Pool, level and counters."""
        counters = {"level": self._level, "cursor": self._cursor, "ticks": self._ticks}
        tensors = {"step": self._source.step, "kept": self.kept}
        counted = {name: each.clone() for name, each in tensors.items() if each is not None}
        return {"starts": self.states.to_tensordict().to_dict(), **counters, **counted}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore them."""
        restore(self.states, state["starts"])
        level, cursor, ticks = (state[name] for name in ("level", "cursor", "ticks"))
        size, given = self._curriculum.refresh_size, self._curriculum
        require(level in range(-1, len(given.levels)), "saved level", level, "one that there is")
        fine = cursor in range(0, given.pool_size, size)
        require(fine, "saved cursor", cursor, f"a multiple of {size} below {given.pool_size}")
        require(is_count(ticks), "saved ticks", ticks, "a whole number, at least 0")
        self._set_level(level)
        self._cursor, self._ticks = cursor, ticks
        # States of earlier versions have no step: they go on with other scenarios.
        restore({"step": self._source.step}, {"step": state.get("step", torch.tensor(ticks))})
        if self.kept is not None:
            restore({"kept": self.kept}, {"kept": state.get("kept", torch.tensor(0))})

    def _set_level(self, level: int) -> None:
        """Draw from another level; also in a captured ``replace``, which reads the tensor."""
        self._level = level
        self._device_level.fill_(level)

    def _draw(self, begin: Tensor, refresh: bool = False) -> ResetState:
        """Draw refresh_size reset states of the current level or mixture, for entries from one."""
        size, rows = self._curriculum.refresh_size, begin + self._rows
        source = self._source._replace(environment=self._first + rows)
        if self._curriculum.timesteps:
            level = self._device_level.repeat(size)
        else:
            chance = source.of(LEVEL).uniform((size,), torch.float32)
            last = len(self._cumulative) - 1
            level = torch.searchsorted(self._cumulative, chance, right=True).clamp_max(last)
        # Only the published sampler draws by counter.
        numbers: Any = self._generator if self._curriculum.sampler else source
        scenario = self._sampler.sample(level, numbers)
        if self._complete is not None and self.kept is not None:
            if refresh:
                scenario = self._complete.or_kept(scenario, self.states.scenario[rows], self.kept)
            else:
                scenario = self._complete.completed(scenario, level, numbers)
        expected = [size, self._sampler.max_robots]
        found = list(scenario.robot_mask.shape)
        require(found == expected, f"{_SAMPLER}: robot_mask.shape", found, f"{expected}")
        return self._make_reset_state(scenario, rows, source)


class FixedPool(ResetPool):
    """Reset states of a given list of scenarios, used in order.

    Environment e starts with scenario e, then takes e + E, e + 2 E and so on, modulo P. Where an
    environment returns to its first scenario before it has used all P, it continues with
    the next one, so that in the long run every environment takes every scenario equally often.

    Args:
        scenario: batch [P].
        make_reset_state: adds state and observation.
        num_envs: E.
    """

    def __init__(self, scenario: Scenario, make_reset_state: MakeResetState, num_envs: int) -> None:
        size, device = scenario.batch_size[0], scenario.goal.device
        self.states = _in_memory(make_reset_state(scenario, torch.arange(size, device=device), None))
        self._first = torch.arange(num_envs, device=device)
        self.counter = self._first.clone()
        self._round = math.lcm(size, num_envs)

    def next_index(self) -> Tensor:
        """The next of each environment's scenarios."""
        number, size, stride = self.counter, self.states.batch_size[0], len(self._first)
        # After a round an environment's scenarios repeat; shift them unless it took all P.
        shift = number // self._round if self._round < size * stride else 0
        return (number + shift) % size

    # In place: a captured reset reads the memory of the counter.

    def advance(self, done: Tensor | None) -> None:
        """See ResetPool."""
        self.counter.add_(1 if done is None else done, alpha=len(self._first))

    def rewind(self) -> None:
        """See ResetPool."""
        self.counter.copy_(self._first)

    def state_dict(self) -> dict[str, Any]:
        """The pool and the number of each environment's next episode."""
        return {"starts": self.states.to_tensordict().to_dict(), "next": self.counter.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore them."""
        restore(self.states, state["starts"])
        self.counter.copy_(state["next"])


def _in_memory(states: ResetState) -> ResetState:
    """The states, with entries adjacent in memory where a step reads them in its kernels.

    On a CPU the few entries that episodes start from are gathered, one after another.
    """
    if not launches_dominate(states.scenario.goal.device):
        return states
    return states.apply(environments_innermost)


def restore(target: Any, values: dict[Any, Any]) -> None:
    """Copy a nested dict of tensors into a tensorclass or tensordict of the same structure.

    Raises:
        RuntimeError: when a tensor is missing or unknown, has another type or shape (copying alone
            would convert or broadcast it), or is not finite.
    """
    if values.keys() != set(target.keys()):
        odd = ", ".join(sorted(map(str, values.keys() ^ set(target.keys()))))
        raise RuntimeError(f"{odd}: missing or unknown")
    for name, value in values.items():
        ours = target.get(name)
        if isinstance(value, dict):
            restore(ours, value)
            continue
        if ours.shape != value.shape:
            raise RuntimeError(f"{name} is {list(value.shape)}, here {list(ours.shape)}")
        if ours.dtype != value.dtype:
            raise RuntimeError(f"{name} is {value.dtype}, here {ours.dtype}")
        if value.is_floating_point() and not value.isfinite().all():  # host: loading a checkpoint
            raise RuntimeError(f"{name} is not finite")
        ours.copy_(value)
