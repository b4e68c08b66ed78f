"""The pools that episodes start from, and the curriculum."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor

from marinenav_env import ConfigError, MarineNavEnv, WorldConfig
from marinenav_env.config import ScenarioConfig
from marinenav_env.levels import Level
from marinenav_env.runtime.layout import env_last
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.scenario import ScenarioSampler, blank_scenarios
from marinenav_env.state import ResetState, Scenario
from marinenav_env.stepping.reset_pool import Curriculum, FixedPool, SampledPool
from marinenav_env.stepping.world import initial_state
from marinenav_env.support import plugins
from tests.marinenav_env.env_helpers import equal
from tests.marinenav_env.helpers import CPU

LEVELS = (Level(1, 0, 0, 10.0), Level(2, 0, 1, 10.0), Level(3, 1, 0, 10.0))


def make_reset_state(scenario: Scenario, index: Tensor, source: RandomSource | None = None) -> ResetState:
    """Observations are the numbers of the entries."""
    count = scenario.batch_size[0]
    numbers = index[:, None, None].float().expand(*scenario.robot_mask.shape, 1).clone()
    observation = TensorDict({"self_state": numbers}, [count])
    state = initial_state(scenario, torch.ones(1))
    return ResetState(scenario, state, observation, batch_size=[count])


def sampled(num_envs: int = 4, seed: int = 0, **settings: Any) -> SampledPool:
    settings = {"levels": LEVELS, "pool_size": 12, "refresh_size": 4, "refresh_interval": 3} | settings
    curriculum = Curriculum(**settings)
    sampler = ScenarioSampler(ScenarioConfig(), curriculum.levels, CPU, torch.float32)
    source = RandomSource.from_seed(seed, num_envs, CPU)
    return SampledPool(sampler, curriculum, make_reset_state, source, torch.Generator())


def entries(pool: SampledPool | FixedPool, done: Tensor | None) -> Tensor:
    """Entries that some environments start from, or all of them."""
    if done is None:
        pool.prepare_full_reset(0)
    index = pool.next_index()
    pool.advance(done)
    return index if isinstance(index, Tensor) else index.randint(len(pool.states))


def test_schedule_of_levels() -> None:
    schedule = Curriculum(levels=LEVELS, timesteps=(0, 100, 250))
    assert [schedule.level_at(n) for n in (0, 99, 100, 249, 250, 10**9)] == [0, 0, 1, 1, 2, 2]
    assert Curriculum(levels=LEVELS).level_at(10**9) == -1  # a mixture for ever


def test_refresh_replaces_a_part_of_the_pool_in_turn() -> None:
    pool = sampled()
    before = pool.states.scenario.start.clone()
    fresh: list[list[int]] = []
    for tick in range(1, 16):
        entries(pool, None)
        pool.refresh(env_steps=0)
        now = pool.states.scenario.start
        rows = (now != before).flatten(1).any(-1).nonzero().squeeze(-1).tolist()
        assert (tick % 3 == 0) == bool(rows)
        if rows:
            fresh.append(rows)
        before = now.clone()
        assert pool.states.observation["self_state"][:, 0, 0].tolist() == [*range(12)]
    quarters = [list(range(begin, begin + 4)) for begin in (0, 4, 8)]
    assert fresh == [quarters[0], quarters[1], quarters[2], quarters[0], quarters[1]]


def test_a_new_level_redraws_the_whole_pool() -> None:
    pool = sampled(timesteps=(0, 10, 20), refresh_interval=1000)
    for env_steps, level in ((0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (30, 2)):
        before = pool.states.scenario.start.clone()
        pool.refresh(env_steps)
        scenario = pool.states.scenario
        assert scenario.level.tolist() == [level] * 12
        assert scenario.robot_mask.sum(-1).tolist() == [level + 1] * 12
        changed = (scenario.start != before).flatten(1).any(-1)
        assert changed.tolist() == [env_steps in (10, 20)] * 12
        unchanged = pool.states.scenario.start.clone()
        pool.prepare_full_reset(env_steps)
        assert torch.equal(pool.states.scenario.start, unchanged)
    pool.prepare_full_reset(0)
    assert pool.states.scenario.level.tolist() == [0] * 12


@pytest.mark.parametrize(
    ("weights", "expected"),
    [((), (1 / 3, 1 / 3, 1 / 3)), ((1.0, 0.0, 3.0), (0.25, 0.0, 0.75)), ((0, 2, 0), (0.0, 1.0, 0.0))],
)
def test_mixture_weights(weights: tuple[float, ...], expected: tuple[float, ...]) -> None:
    count = 1200
    pool = sampled(weights=weights, pool_size=count, refresh_size=count // 2)
    level = pool.states.scenario.level
    shares = torch.bincount(level, minlength=3) / count
    for share, want in zip(shares.tolist(), expected, strict=True):
        assert share == pytest.approx(want, abs=4.0 * (want * (1.0 - want) / count) ** 0.5)
    # Levels share the batch, padded to the largest.
    assert torch.equal(pool.states.scenario.robot_mask.sum(-1), level + 1)
    assert pool.states.scenario.robot_mask.shape == (count, 3)


def fixed(scenarios: int, num_envs: int) -> FixedPool:
    sampler = ScenarioSampler(ScenarioConfig(), LEVELS, CPU, torch.float32)
    levels = torch.arange(scenarios) % len(LEVELS)
    scenario = sampler.sample(levels, torch.Generator().manual_seed(0))
    return FixedPool(scenario, make_reset_state, torch.arange(num_envs), num_envs)


@pytest.mark.parametrize(
    ("scenarios", "num_envs"), [(4, 1), (4, 4), (4, 8), (8, 4), (6, 4), (4, 6), (5, 3), (3, 5), (1, 3)]
)
def test_every_environment_takes_every_fixed_scenario_equally_often(scenarios: int, num_envs: int) -> None:
    pool = fixed(scenarios, num_envs)
    always = torch.ones(num_envs, dtype=torch.bool)
    taken = [entries(pool, None)] + [entries(pool, always) for _ in range(2 * scenarios - 1)]
    rows = torch.stack(taken, 1)
    for row in rows.tolist():
        assert sorted(row) == sorted([*range(scenarios)] * 2), row
    in_order = torch.arange(num_envs * scenarios).view(scenarios, num_envs).T % scenarios
    count = scenarios // math.gcd(scenarios, num_envs)
    assert torch.equal(rows[:, :count], in_order[:, :count])


@pytest.mark.parametrize("make", [sampled, lambda: fixed(8, 4)], ids=["sampled", "fixed"])
def test_entries_are_adjacent_where_a_step_reads_them_in_its_kernels(
    make: Callable[[], SampledPool | FixedPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = make()
    monkeypatch.setattr("marinenav_env.runtime.host_reads.FREE_HOST_READ_DEVICES", frozenset())
    pool = make()
    assert equal(pool.states.to_tensordict(), there.states.to_tensordict())
    for _ in range(2):
        assert all(env_last(each).is_contiguous() for each in pool.states.values(True, True))
        pool.load_state_dict(there.state_dict())


# A sampler of the user's --------------------------------------------------------------------------


class Ring:
    """Robots on a circle, each bound for the other side; the level decides how many there are."""

    def __init__(self, config: ScenarioConfig, levels: tuple[Level, ...], device: Any, dtype: Any) -> None:
        self.max_robots, self._counts = 4, torch.tensor([level.num_robots for level in levels])
        self._options = {"device": device, "dtype": dtype}
        self._middle = config.width / 2

    def sample(self, level: Tensor, generator: torch.Generator) -> Scenario:
        size, robots = len(level), self.max_robots
        scenario = blank_scenarios(size, robots, 0, 0, **self._options)
        begin = torch.rand(size, 1, generator=generator, **self._options)
        angle = 2.0 * math.pi * (begin + torch.arange(robots) / robots)
        away = 15.0 * torch.stack((angle.cos(), angle.sin()), -1)
        scenario.start, scenario.goal = self._middle + away, self._middle - away
        scenario.robot_mask = torch.arange(robots) < self._counts[level][:, None]
        scenario.level = level
        return scenario


class Narrow(Ring):
    """Says more robots than it has."""

    def sample(self, level: Tensor, generator: torch.Generator) -> Scenario:
        scenario = super().sample(level, generator)
        self.max_robots = 5
        return scenario


NAME = f"{__name__}:Ring"


@pytest.mark.parametrize("kind", ["name", "object", "scenarios"])
def test_a_sampler_of_the_users_draws_the_scenarios(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_allowed_references", {NAME})
    ring = Ring(ScenarioConfig(), LEVELS * 2, CPU, torch.float32)
    sampler: Any = {"name": NAME, "object": ring, "scenarios": ring}[kind]
    settings: Any = {"pool_size": 12, "refresh_size": 4, "refresh_interval": 3}
    given = Curriculum(LEVELS, timesteps=(0, 40, 80), sampler=sampler, **settings)
    env = MarineNavEnv(WorldConfig(max_steps=5), 4, scenarios=ring if kind == "scenarios" else given, seed=0)
    rollout = env.rollout(20, break_when_any_done=False)
    assert env.num_robots == 4 and rollout.batch_size == (4, 20)
    centre = (env.scenario.start + env.scenario.goal) / 2
    torch.testing.assert_close(centre, torch.full_like(centre, 27.5))
    if kind != "scenarios":
        assert rollout["robots", "mask"].sum(-1)[:, 0].tolist() == [1] * 4
    saved = env.state_dict()
    env.load_state_dict(saved)


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (NAME, "is a part that this program does not load from files"),
        (Narrow, r"curriculum.sampler: robot_mask.shape=\[4, 4\]: must be \[4, 5\]"),
        (dict, "dict|curriculum.sampler"),
        (3, "curriculum.sampler=3: must be a class with the method sample"),
        (lambda *_: 3, "curriculum.sampler='int': must be a sampler: max_robots and sample"),
    ],
)
def test_what_is_no_sampler_is_refused(sampler: Any, message: str) -> None:
    given = Curriculum(LEVELS, sampler=sampler, pool_size=4, refresh_size=4)
    with pytest.raises(ConfigError, match=message):
        MarineNavEnv(scenarios=given, seed=0)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("level", 3, "one that there is"),
        ("level", -2, "one that there is"),
        ("cursor", 12, "a multiple of 4 below 12"),
        ("cursor", 5, "a multiple of 4 below 12"),
        ("cursor", -4, "a multiple of 4 below 12"),
        ("ticks", -1, "a whole number, at least 0"),
    ],
)
def test_counters_that_cannot_be_are_refused(name: str, value: int, allowed: str) -> None:
    pool = sampled()
    saved = pool.state_dict()
    pool.load_state_dict(saved | {"level": 2, "cursor": 8, "ticks": 0})
    with pytest.raises(ConfigError, match=f"^saved {name}={value}: must be {allowed}$"):
        pool.load_state_dict(saved | {name: value})


class Empty(ScenarioSampler):
    """Every second scenario is without robots, from a given draw on."""

    calls, first = 0, 0

    def sample(self, level: Tensor, generator: torch.Generator) -> Scenario:
        scenario = super().sample(level, generator)
        if self.calls >= self.first:
            scenario.robot_mask[::2] = False
        self.calls += 1
        return scenario


@pytest.mark.parametrize("first", [0, 3])
def test_scenarios_of_the_users_have_a_robot_or_are_refused(first: int) -> None:
    sampler = Empty(ScenarioConfig(), LEVELS, CPU, torch.float32)
    sampler.first = first
    given = Curriculum(LEVELS, sampler=sampler, pool_size=12, refresh_size=4, refresh_interval=1)
    with pytest.raises(ConfigError, match=r"^curriculum.sampler: \d of \d+ scenarios have no robot$"):
        MarineNavEnv(num_envs=2, scenarios=given).reset_pool.refresh(0)


def test_given_scenarios_have_a_robot_or_are_refused() -> None:
    sampler = ScenarioSampler(ScenarioConfig(), LEVELS, CPU, torch.float32)
    given = sampler.sample(torch.arange(6) % 3, torch.Generator())
    given.robot_mask[3, 1:] = False
    MarineNavEnv(scenarios=given)
    given.robot_mask[3] = False
    with pytest.raises(ConfigError, match=r"^scenarios: 1 of 6 scenarios have no robot$"):
        MarineNavEnv(scenarios=given)


@pytest.mark.parametrize(
    ("level", "pool", "refreshed"),
    [
        (Level(3, 0, 0, 30.0), 2048, 256),
        (Level(40, 0, 4, 40.0), 2048, 256),
        (Level(50, 0, 40, 40.0), 512, 64),
        (Level(1000, 0, 40, 40.0), 8, 1),
    ],
)
def test_the_default_pool_is_smaller_for_large_fleets(level: Level, pool: int, refreshed: int) -> None:
    found = Curriculum((LEVELS[0], level))
    assert (found.pool_size, found.refresh_size) == (pool, refreshed)
    given = Curriculum((level,), pool_size=512)
    assert (given.pool_size, given.refresh_size) == (512, 256)
    given = Curriculum((level,), refresh_size=2, pool_size=6)
    assert (given.pool_size, given.refresh_size) == (6, 2)
    assert Curriculum((level,), refresh_size=2).refresh_size == 2
