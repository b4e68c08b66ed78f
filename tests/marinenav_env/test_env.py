"""The TorchRL environment."""

import io
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torchrl.envs.utils import check_env_specs, step_mdp

from marinenav_env import (
    GROUP,
    ConfigError,
    Curriculum,
    Episode,
    Level,
    MarineNavEnv,
    WorldConfig,
    write_scenarios,
)
from marinenav_env.config import RewardConfig, ScenarioConfig, SensorConfig, VesselConfig
from marinenav_env.philox import RandomSource
from marinenav_env.scenario import ScenarioSampler
from tests.marinenav_env.helpers import CPU, QUIET, random_episode, simple_episode

LEVELS = (Level(2, 1, 1, 20.0), Level(3, 0, 2, 20.0), Level(1, 0, 0, 20.0))
SMALL = {"pool_size": 12, "refresh_size": 4, "refresh_interval": 3}
MIXTURE = Curriculum(levels=LEVELS, **SMALL)
TRAFFIC = Curriculum(
    (LEVELS[0], Level(3, 0, 0, 0.0, encounter=True, traffic=0.5)), (1.0, 3.0), **SMALL
)
VARIED = Curriculum((LEVELS[0], replace(LEVELS[1], noise=2.0, vessel_spread=1.5)), **SMALL)
SEA = Curriculum(
    (*TRAFFIC.levels, replace(LEVELS[1], noise=2.0, vessel_spread=1.5, weather=1.0)), **SMALL
)
SCHEDULE = Curriculum(levels=LEVELS, timesteps=(0, 40, 80), **SMALL)
SHORT = WorldConfig(max_steps=7, sensor=SensorConfig(max_objects=3))
ACTION, MASK, REWARD = (GROUP, "action"), (GROUP, "mask"), (GROUP, "reward")


def episodes(count: int = 5) -> list[Episode]:
    """Episodes of different sizes, every parameter different."""
    rng = random.Random(0)
    sizes = [(3, 2, 1), (1, 0, 0), (2, 1, 2), (3, 0, 0), (2, 2, 0)]
    return [random_episode(rng, *sizes[n % len(sizes)], size=50.0) for n in range(count)]


def drawn_scenarios() -> Any:
    sampler = ScenarioSampler(ScenarioConfig(), LEVELS, CPU, torch.float32)
    return sampler.sample(torch.arange(6) % 3, torch.Generator().manual_seed(0))


KINDS: dict[str, Callable[[], Any]] = {
    "mixture": lambda: MIXTURE,
    "schedule": lambda: SCHEDULE,
    "traffic": lambda: TRAFFIC,
    "varied": lambda: VARIED,
    "sea": lambda: SEA,
    "episodes": episodes,
    "scenarios": drawn_scenarios,
}


def make(kind: str = "mixture", num_envs: int = 4, **options: Any) -> MarineNavEnv:
    config = options.pop("config", SHORT)
    return MarineNavEnv(config, num_envs, scenarios=KINDS[kind](), **options)


def actions_of(env: MarineNavEnv, steps: int, seed: int = 0) -> list[Tensor]:
    """Random actions that do not touch the global random state."""
    generator = torch.Generator().manual_seed(seed)
    shape = (steps, env.num_envs, env.num_robots)
    if env.continuous:
        unit = torch.rand(*shape, 2, generator=generator, dtype=env.dtype)
        return list(2.0 * unit - 1.0)
    return list(torch.randint(env.num_discrete_actions, shape, generator=generator))


def advance(
    env: MarineNavEnv, td: TensorDict, actions: list[Tensor]
) -> tuple[list[TensorDict], TensorDict]:
    """Steps with resets; every step's data, and what comes next."""
    rows = []
    for action in actions:
        td.set(ACTION, action)
        row, td = env.step_and_maybe_reset(td)
        rows.append(row.clone())
    return rows, td


def play(env: MarineNavEnv, steps: int = 20, seed: int = 0) -> list[TensorDict]:
    return advance(env, env.reset(), actions_of(env, steps, seed))[0]


def equal(first: Any, second: Any) -> bool:
    """Whether nested tensors are the same bit for bit."""
    a, b = (dict(td.items(True, True)) for td in (first, second))
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def same(first: list[TensorDict], second: list[TensorDict]) -> bool:
    return len(first) == len(second) and all(map(equal, first, second))


# Specifications -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("continuous", [True, False])
def test_specs(continuous: bool, kind: str, dtype: torch.dtype) -> None:
    env = make(kind, continuous=continuous, dtype=dtype)
    check_env_specs(env)
    td = env.rollout(9, break_when_any_done=False)
    (envs, robots), slots = (4, 3), 3
    if kind == "episodes":
        slots = max(episode.world.sensor.slots for episode in episodes())
        assert slots > 3
    assert td.batch_size == (envs, 9)
    group = td[GROUP]
    shapes = {
        "action": (2,) if continuous else (),
        "mask": (),
        ("observation", "self_state"): (7,),
        ("observation", "objects_state"): (slots, 5),
        ("observation", "objects_mask"): (slots,),
    }
    for key, shape in shapes.items():
        assert group[key].shape == (envs, 9, robots, *shape), key
    assert group["observation", "self_state"].dtype == dtype
    assert group["action"].dtype == (dtype if continuous else torch.int64)
    after = td["next"]
    assert after[REWARD].shape == (envs, 9, robots, 1) and after[REWARD].dtype == dtype
    for name in ("done", "terminated", "truncated"):
        assert after[name].shape == (envs, 9, 1) and after[name].dtype == torch.bool
        assert after[GROUP, name].shape == (envs, 9, robots, 1)


def test_defaults_are_the_published_curriculum() -> None:
    env = MarineNavEnv()
    assert (env.num_envs, env.num_robots, env.num_discrete_actions) == (1, 5, 25)
    assert env.batch_size == (1,) and env.dtype == torch.float32
    assert env.scenario.obstacle_mask.shape == (1, 4)


def test_one_environment_for_each_given_scenario() -> None:
    assert MarineNavEnv(scenarios=episodes(3)).num_envs == 3
    assert MarineNavEnv(scenarios=drawn_scenarios()).num_envs == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_envs": 0}, r"^num_envs=0: must be at least 1$"),
        ({"dtype": torch.float16}, r"^dtype=torch\.float16: must be torch\.float32 or "),
        ({"scenarios": "/nowhere/at/all.json"}, r"^/nowhere/at/all\.json: cannot be read as "),
        ({"scenarios": []}, r"^num_envs=0: must be at least 1$"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        MarineNavEnv(**options)


def test_a_batch_has_one_time_step() -> None:
    given = episodes(2)
    env = MarineNavEnv(scenarios=given)
    assert (env.config.dt, env.config.substeps) == (0.04, 7)
    with pytest.raises(
        ConfigError, match=r"^dt, N=\[\(0\.04, 7\), \(0\.05, 7\)\]: must be the same"
    ):
        MarineNavEnv(
            scenarios=[given[0], replace(given[1], world=WorldConfig(dt=0.05, substeps=7))]
        )


def test_slots_are_as_many_as_any_robot_of_a_file_may_use(tmp_path: Any) -> None:
    path = tmp_path / "scenarios.json"
    obstacles = [(20.0 + n, 20.0 - n, 0.5) for n in range(8)]
    sensor = replace(QUIET, max_objects=7)
    write_scenarios(path, [simple_episode([(12.0, 12.0, 0.0)], [(50.0, 50.0)], obstacles, sensor)])
    env = MarineNavEnv(scenarios=path)
    assert env.reset()[GROUP, "observation", "objects_mask"].tolist() == [[[True] * 7]]


# Random numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides_and_the_global_generators_do_not(kind: str) -> None:
    runs = {}
    for name, seed, world_seed in (("first", 1, 3), ("again", 2, 3), ("other", 1, 4)):
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
        env = make(kind, seed=world_seed)
        runs[name] = play(env)
        env.load_state_dict(env.state_dict())
        env.set_seed(5)
        after = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
        assert torch.equal(before[0], after[0]) and before[1:] == after[1:]
    assert same(runs["first"], runs["again"])
    assert not any(map(equal, runs["first"], runs["other"]))


@pytest.mark.parametrize("kind", KINDS)
def test_setting_the_seed_starts_over(kind: str) -> None:
    env = make(kind, seed=1)
    play(env, 11)
    env.set_seed(3)
    assert env.env_steps == 0
    assert same(play(env), play(make(kind, seed=3)))


def test_the_noise_of_an_environment_does_not_depend_on_how_many_there_are() -> None:
    scenario = drawn_scenarios()
    few, many = (MarineNavEnv(SHORT, count, scenarios=scenario, seed=3) for count in (2, 4))
    actions = actions_of(many, 3)
    first, _ = advance(few, few.reset(), [each[:2] for each in actions])
    second, _ = advance(many, many.reset(), actions)
    assert same(first, [row[:2] for row in second])


def test_environments_of_several_processes_have_the_noise_of_one_batch() -> None:
    """The first observations are those of other entries of a pool."""
    scenario = drawn_scenarios()
    whole = MarineNavEnv(SHORT, 6, scenarios=scenario, seed=3)
    noises = [RandomSource.seeded(3, 3, CPU, first) for first in (0, 3)]
    parts = [
        MarineNavEnv(SHORT, scenarios=scenario[rows], seed=seed, noise=noise)
        for rows, seed, noise in zip((slice(3), slice(3, 6)), (3, 4), noises, strict=True)
    ]
    actions = actions_of(whole, 3)
    expected, _ = advance(whole, whole.reset(), actions)
    halves = [advance(env, env.reset(), [each[rows] for each in actions])[0]
              for env, rows in zip(parts, (slice(3), slice(3, 6)), strict=True)]  # fmt: skip
    found = [torch.cat(rows)["next"] for rows in zip(*halves, strict=True)]
    assert same(found, [row["next"] for row in expected])
    alike = [MarineNavEnv(SHORT, scenarios=scenario[:3], noise=noise).reset() for noise in noises]
    assert not equal(*alike)


def test_entries_of_pools_are_numbered_by_batch() -> None:
    """They take the upper half of the numbers, so they meet environments only far beyond use."""
    scenario, last = drawn_scenarios(), 2**29
    noises = [RandomSource.seeded(3, 2, CPU, first) for first in (0, 2, last)]
    begins = [MarineNavEnv(SHORT, 2, scenarios=scenario, noise=noise)._pool_begin
              for noise in noises]  # fmt: skip
    entries = len(scenario)
    assert begins == [2**31, 2**31 + entries, 2**31 + last // 2 * entries]
    assert begins[-1] + entries <= 2**32


# Resets -------------------------------------------------------------------------------------------


def steered(env: MarineNavEnv) -> Tensor:
    """[E, R] bool: active robots that are no traffic."""
    scripted = env.scenario.scripted
    return env.state.active if scripted is None else env.state.active & ~scripted


def fields_of(env: MarineNavEnv) -> dict[str, Tensor]:
    """Everything that an environment consists of."""
    parts = {"state": env.state, "scenario": env.scenario, "parameters": env.constants}
    return {
        f"{part}.{name}": value.clone()
        for part, tensors in parts.items()
        for name, value in tensors.to_tensordict().flatten_keys(".").items()
        if value.shape[0] == env.num_envs
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_masked_reset_touches_only_what_it_is_asked_to(kind: str) -> None:
    env = make(kind, config=replace(SHORT, max_steps=100))
    _, td = advance(env, env.reset(), actions_of(env, 5))
    before, given = fields_of(env), td.clone()
    reset = torch.tensor([True, False, False, True])
    td.set("_reset", reset[:, None])
    after_td = env.reset(td)
    after = fields_of(env)
    assert len(before) > 20
    for name, value in after.items():
        assert torch.equal(value[~reset], before[name][~reset]), name
    assert env.state.steps.bool().tolist() == [False, True, True, False]
    changed = (after["state.pose"] != before["state.pose"]).flatten(1).any(-1)
    assert torch.equal(changed, reset)
    for key, value in after_td.items(True, True):
        if key != "_reset":
            assert torch.equal(value[~reset], given[key][~reset]), key
    observed = after_td[GROUP, "observation", "self_state"]
    assert (observed != given[GROUP, "observation", "self_state"])[reset].any()
    assert torch.equal(after_td[MASK], steered(env))


@pytest.mark.parametrize("kind", KINDS)
def test_episodes_that_are_over_start_anew_and_the_others_go_on(kind: str) -> None:
    env = make(kind)
    td = env.reset()
    starts, ended = 0, 0
    for number, action in enumerate(actions_of(env, 20)):
        if number == 3:  # so that the episodes do not end all together
            td.set("_reset", torch.tensor([[True], [False], [True], [False]]))
            td = env.reset(td)
        td.set(ACTION, action)
        row, following = env.step_and_maybe_reset(td)
        done = row["next", "done"].squeeze(-1)
        assert torch.equal(done, (row["next", "terminated"] | row["next", "truncated"]).squeeze(-1))
        assert not following["done"].any() and not following["truncated"].any()
        assert torch.equal(env.state.steps == 0, done)
        assert torch.equal(following[MASK], steered(env))
        ended += int((~env.state.active & env.scenario.robot_mask).sum())
        # A robot that ended stays done while the episode goes on; an absent one always is.
        for name in ("done", "terminated"):
            assert torch.equal(following[GROUP, name].squeeze(-1), ~steered(env))
        for key, value in row["next"].items(True, True):
            if key in following.keys(True, True) and key not in ("done", "terminated", "truncated"):
                assert torch.equal(following[key][~done], value[~done]), key
        starts += int(done.sum())
        assert not done.any() or not done.all()
        td = following
    assert starts >= 8
    if kind == "episodes":
        assert ended > 0


class NoHostReads(TorchDispatchMode):
    """Fails on every operation that must know a tensor's value."""

    READS = ("_local_scalar_dense", "is_nonzero", "nonzero", "masked_select", "unique", "equal")

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        name = func.overloadpacket.__name__
        masks = [
            index
            for index in (args[1] if name.startswith("index") and len(args) > 1 else ()) or ()
            if isinstance(index, Tensor) and index.dtype == torch.bool
        ] if name in ("index", "index_put", "index_put_", "_index_put_impl_") else []  # fmt: skip
        if masks or any(name.strip("_").startswith(read.strip("_")) for read in self.READS):
            raise AssertionError(f"{name} reads the device")
        return func(*args, **(kwargs or {}))


@contextmanager
def no_host_reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails on reads by operations and by methods."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a tensor was read on the host")

    names = ("__bool__", "__float__", "__int__", "__index__", "item", "tolist", "numpy", "cpu")
    with monkeypatch.context() as patch, NoHostReads():
        for name in names:
            patch.setattr(torch.Tensor, name, refuse)
        yield


@pytest.mark.parametrize(
    "read",
    [
        bool, float, int, lambda t: range(3)[t], lambda t: t.item(), lambda t: t.tolist(),
        lambda t: t.numpy(), lambda t: t.cpu(), lambda t: t[t > 0], lambda t: t.nonzero(),
        lambda t: torch.masked_select(t, t > 0), lambda t: torch.equal(t, t), torch.unique,
        torch.where,
    ],
)  # fmt: skip
def test_the_guard_against_host_reads_works(
    read: Callable[[Tensor], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tensor = torch.tensor([1])
    with no_host_reads(monkeypatch), pytest.raises(AssertionError, match="read"):
        read(tensor)


@pytest.mark.parametrize("continuous", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_steps_and_resets_read_nothing_on_the_host(
    kind: str, continuous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a GPU: there, which environments are done is not asked.
    monkeypatch.setattr("marinenav_env.host_reads.FREE_HOST_READS", frozenset())
    env = make(kind, continuous=continuous)
    td, actions = env.reset(), actions_of(env, 15)  # refreshes of the pool and time-outs
    first = env.state.pose.clone()
    with no_host_reads(monkeypatch):
        for action in actions:
            td.set(ACTION, action)
            td = env.step(td)
            td = env.maybe_reset(step_mdp(td))
    assert env.env_steps == 15 * 4
    assert env.state.steps.max() < 7 and not torch.equal(env.state.pose, first)


# Levels -------------------------------------------------------------------------------------------


def test_the_curriculum_goes_by_env_steps() -> None:
    env = make("schedule")  # levels from 0, 40 and 80 env-steps, 4 environments
    td = env.reset()
    robots = {0: 2, 1: 3, 2: 1}
    seen = []
    for action in actions_of(env, 30):
        td.set(ACTION, action)
        row, td = env.step_and_maybe_reset(td)
        expected = SCHEDULE.level_at(env.env_steps)
        fresh = row["next", "done"].squeeze(-1)
        assert (env.scenario.level[fresh] == expected).all()
        assert td[MASK].sum(-1)[fresh].eq(robots[expected]).all()
        seen += env.scenario.level[fresh].tolist()
    assert env.env_steps == 120 and set(seen) == {0, 1, 2}


def test_levels_mix_in_one_padded_batch_by_weight() -> None:
    count = 4000
    curriculum = Curriculum(
        levels=LEVELS, weights=(1.0, 0.0, 3.0), pool_size=4000, refresh_size=500
    )
    env = MarineNavEnv(SHORT, count, scenarios=curriculum)
    td = env.reset()
    share = env.scenario.level.eq(0).double().mean().item()
    assert share == pytest.approx(0.25, abs=0.04)  # four deviations, of the pool and of the draw
    assert set(env.scenario.level.tolist()) == {0, 2}
    robots = torch.tensor([2, 3, 1])[env.scenario.level]
    assert torch.equal(td[MASK].sum(-1), robots)
    assert torch.equal(
        env.scenario.obstacle_mask.sum(-1), torch.tensor([1, 2, 0])[env.scenario.level]
    )
    td.set(ACTION, torch.ones(count, 3, 2))
    after = env.step(td)["next", GROUP]
    absent = ~env.scenario.robot_mask
    for key in ("reward", "truncated", "mask"):
        assert not after[key][absent].any(), key
    for key in ("done", "terminated"):
        assert td[GROUP, key][absent].all() and after[key][absent].all(), key
    for value in after["observation"].values():
        assert not value[absent].any()


def test_flags_of_an_episode_are_those_of_all_its_robots_absent_ones_included() -> None:
    given = [
        simple_episode([(5.0, 5.0, 0.0), (5.0, 30.0, 0.0)], [(9.0, 5.0), (9.0, 30.0)]),
        simple_episode([(5.0, 5.0, 0.0)], [(9.0, 5.0)]),
        simple_episode([(5.0, 5.0, 0.0)], [(50.0, 50.0)]),
    ]
    env = MarineNavEnv(replace(SHORT, max_steps=10), scenarios=given)
    td = env.reset()
    assert td[GROUP, "done"].squeeze(-1).tolist() == [[False, False], [False, True], [False, True]]
    ways = set()
    for number in range(10):
        td.set(ACTION, torch.ones(3, 2, 2))
        row = env.step(td)["next"]
        for name in ("done", "terminated"):
            assert torch.equal(row[name], row[GROUP, name].all(-2)), (number, name)
        assert torch.equal(row["truncated"], row[GROUP, "truncated"].any(-2))
        ways |= {
            (bool(a), bool(b)) for a, b in zip(row["terminated"], row["truncated"], strict=True)
        }
        td = row.exclude(REWARD)
    assert ways == {(False, False), (True, False), (False, True)}


def test_given_scenarios_are_gone_through_with_their_parameters() -> None:
    given = episodes(5)
    env = MarineNavEnv(WorldConfig(max_steps=3), 2, scenarios=given, dtype=torch.float64)
    td = env.reset()
    order = [[0, 2, 4, 1], [1, 3, 0, 2]]
    for number in range(4):
        for e in range(2):
            episode = given[order[e][number]]
            count = len(episode.start)
            assert env.scenario.start[e, :count].tolist() == episode.start
            assert env.scenario.robot_mask[e].sum() == count
            assert env.constants.vessel.m[e, :count].tolist() == list(episode.world.vessel.m)
            assert env.constants.rules.goal_reward[e] == episode.world.reward.goal_reward
        td = advance(env, td, actions_of(env, 3))[1]


# Endings ------------------------------------------------------------------------------------------

FORWARD, STILL = [1.0, 1.0], [0.0, 0.0]


def fleet(**settings: Any) -> MarineNavEnv:
    """Robot 0 arrives soon, robot 1 hits an obstacle later, robot 2 goes nowhere."""
    given = simple_episode(
        poses=[(5.0, 5.0, 0.0), (5.0, 40.0, 0.0), (25.0, 5.0, 0.0)],
        goals=[(9.0, 5.0), (50.0, 40.0), (50.0, 50.0)],
        obstacles=[(14.0, 40.0, 1.0)],
    )
    return MarineNavEnv(WorldConfig(**settings), scenarios=[given])


def run(env: MarineNavEnv, steps: int, actions: list[list[float]]) -> list[TensorDict]:
    """Steps without resets."""
    td, rows = env.reset(), []
    for _ in range(steps):
        td.set(ACTION, torch.tensor([actions]))
        row = env.step(td)
        rows.append(row.clone())
        td = step_mdp(row)
    return rows


def flags(row: TensorDict) -> dict[str, list[Any]]:
    after = row["next"]
    return {
        name: [after[name].flatten().tolist(), after[GROUP, name].flatten().tolist()]
        for name in ("done", "terminated", "truncated")
    }


def test_a_time_out_truncates_and_does_not_terminate() -> None:
    rows = run(fleet(max_steps=5), 5, [STILL] * 3)
    for row in rows[:4]:
        assert all(values == [[False], [False] * 3] for values in flags(row).values())
    assert flags(rows[4]) == {
        "done": [[True], [True] * 3],
        "terminated": [[False], [False] * 3],
        "truncated": [[True], [True] * 3],
    }
    # No terminal reward, and the observation to bootstrap from is real.
    assert rows[4]["next", REWARD].flatten().tolist() == pytest.approx([-0.1] * 3, abs=1e-6)
    assert rows[4]["next", GROUP, "observation", "self_state"].any(-1).all()
    assert rows[4]["next", MASK].all()


def ends(rows: list[TensorDict]) -> dict[int, int]:
    """The step in which each robot that ends does so."""
    found: dict[int, int] = {}
    for t, row in enumerate(rows):
        for r in row["next", GROUP, "terminated"].flatten().nonzero().flatten().tolist():
            found.setdefault(r, t)
    return found


def test_done_is_latched_until_the_episode_is_over() -> None:
    rows = run(fleet(max_steps=30), 30, [FORWARD, FORWARD, STILL])
    when = ends(rows)
    assert set(when) == {0, 1} and when[0] < when[1] < 29
    for t, row in enumerate(rows):
        terminated = [t >= when[0], t >= when[1], False]
        last = t == 29
        assert flags(row) == {
            "done": [[last], [terminated[0] or last, terminated[1] or last, last]],
            "terminated": [[False], terminated],
            "truncated": [[last], [False, False, last]],
        }
        # The mask is about the coming step, the root's about this one.
        assert row["next", MASK].flatten().tolist() == [not end for end in terminated]
        was_active = [not (t > when[0]), not (t > when[1]), True]
        assert row[MASK].flatten().tolist() == was_active
        assert row["next", REWARD].flatten().bool().tolist() == was_active


@pytest.mark.parametrize("evaluation", [False, True])
def test_the_first_collision_ends_an_evaluation_episode(evaluation: bool) -> None:
    env = fleet(ends_at_first_collision=evaluation)
    rows = run(env, 20, [FORWARD, FORWARD, STILL])
    arrival, collision = (ends(rows)[r] for r in (0, 1))
    assert flags(rows[arrival])["done"] == [[False], [True, False, False]]
    assert flags(rows[collision]) == {
        "done": [[evaluation], [True, True, evaluation]],
        "terminated": [[evaluation], [True, True, False]],
        "truncated": [[False], [False, False, evaluation]],
    }


def test_an_episode_ends_when_every_robot_has() -> None:
    given = simple_episode([(5.0, 5.0, 0.0), (5.0, 30.0, 0.0)], [(9.0, 5.0), (9.0, 30.0)])
    other = simple_episode([(5.0, 5.0, 0.0)], [(9.0, 5.0)])
    env = MarineNavEnv(scenarios=[given, other])  # one robot is absent
    td = env.reset()
    td.set(ACTION, torch.ones(2, 2, 2))
    for _ in range(20):
        row = env.step(td)
        td = step_mdp(row)
        td.set(ACTION, torch.ones(2, 2, 2))
        if row["next", "done"].any():
            break
    assert row["next", "terminated"].tolist() == [[True], [True]]
    assert not row["next", "truncated"].any()
    assert env.state.arrived.tolist() == [[True, True], [True, False]]


@pytest.mark.parametrize("continuous", [True, False])
def test_what_ended_and_absent_robots_are_told_has_no_effect(continuous: bool) -> None:
    given = [
        simple_episode([(5.0, 5.0, 0.0), (20.0, 5.0, 0.0)], [(9.0, 5.0), (50.0, 5.0)]),
        simple_episode([(5.0, 5.0, 0.0)], [(50.0, 5.0)]),
    ]
    runs = []
    for nonsense in (False, True):
        env = MarineNavEnv(scenarios=given, continuous=continuous)
        td, rows = env.reset(), []
        for _ in range(15):
            full = 24
            action = torch.ones(2, 2, 2) if continuous else torch.full((2, 2), full)
            if nonsense:
                action[~td[MASK]] = -5
            td.set(ACTION, action)
            row = env.step(td)
            rows.append(row.exclude(ACTION).clone())
            td = step_mdp(row)
        runs.append(rows)
        assert env.state.arrived.tolist() == [[True, False], [False, False]]
    assert same(*runs)


def test_continuous_actions_are_clipped() -> None:
    first, second = (run(fleet(), 5, [[c, -c]] * 3) for c in (1.0, 7.0))
    assert same([row.exclude(ACTION) for row in first], [row.exclude(ACTION) for row in second])


def test_there_is_an_outcome_from_the_first_step_on() -> None:
    env = make()
    for begin in (
        env.reset,
        partial(env.set_seed, 1),
        partial(env.load_state_dict, env.state_dict()),
    ):
        begin()
        with pytest.raises(RuntimeError, match=r"^there is no outcome yet: no step has been made$"):
            _ = env.outcome
        play(env, 2)
        assert env.outcome.reward.shape == (4, 3)
    before = env.outcome
    env.reset()
    assert env.outcome is before


# Saving -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_run_goes_on_bit_for_bit(kind: str, dtype: torch.dtype) -> None:
    env = make(kind, seed=1, dtype=dtype)
    actions = actions_of(env, 40)
    _, td = advance(env, env.reset(), actions[:11])
    snapshot, here = env.state_dict(), td.clone()
    buffer = io.BytesIO()
    torch.save(snapshot, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=True)
    expected, last = advance(env, td, actions[11:])
    assert sum(row["next", "done"].any() for row in expected) >= 3

    fresh = make(kind, seed=2, dtype=dtype)
    play(used := make(kind, seed=3, dtype=dtype), 5)
    for other, state in ((env, snapshot), (fresh, loaded), (used, snapshot), (env, snapshot)):
        held = last.clone()
        other.load_state_dict(state)
        assert equal(last, held)  # what was handed out earlier stays as it was
        again = other.reset()
        assert equal(again, here.exclude(ACTION))
        assert other.env_steps == 44
        rows, _ = advance(other, again, actions[11:])
        assert same(rows, expected)


def test_a_state_from_before_the_first_reset_goes_on_with_it() -> None:
    """A world draws its first episodes at once, and others at its first full reset."""
    env, other = make(seed=1), make(seed=2)
    actions, state = actions_of(env, 12), env.state_dict()
    expected = advance(env, env.reset(), actions)[0]
    other.load_state_dict(state)
    assert same(advance(other, other.reset(), actions)[0], expected)
    env.load_state_dict(state)
    assert same(advance(env, env.reset(), actions)[0], expected)
    state = make(seed=1).state_dict()
    del state["begun"]  # as earlier versions wrote it
    other.load_state_dict(state)
    kept = other.state.pose.clone()
    other.reset()
    assert torch.equal(other.state.pose, kept)


def test_a_state_without_a_counter_of_noise_goes_on_where_it_would_be() -> None:
    """As earlier versions wrote them."""
    env, other = make(seed=1), make(seed=1)
    actions = actions_of(env, 12)
    _, td = advance(env, env.reset(), actions[:5])
    state = env.state_dict()
    assert state.pop("noise")["step"] == 5
    other.load_state_dict(state)
    assert same(advance(other, other.reset(), actions[5:])[0], advance(env, td, actions[5:])[0])


def test_only_the_first_full_reset_after_loading_goes_on() -> None:
    env = make(config=replace(SHORT, max_steps=100))
    advance(env, env.reset(), actions_of(env, 5))
    state = env.state_dict()
    env.load_state_dict(state)
    env.reset()
    assert env.state.steps.tolist() == [5] * 4
    env.reset()
    assert env.state.steps.tolist() == [0] * 4
    env.load_state_dict(state)
    td = TensorDict({"_reset": torch.tensor([[True], [False], [False], [False]])}, [4])
    env.reset(td)
    assert env.state.steps.tolist() == [0, 5, 5, 5]
    env.load_state_dict(state)
    td = env.rand_step(env.fake_tensordict())
    assert env.state.steps.tolist() == [6] * 4
    env.reset()
    assert env.state.steps.tolist() == [0] * 4


@pytest.mark.parametrize(
    ("saved", "into"),
    [
        (("mixture", 4), ("mixture", 5)),
        (("mixture", 1), ("mixture", 4)),  # would broadcast
        (("mixture", 4), ("scenarios", 4)),
        (("episodes", 4), ("mixture", 4)),
        (("scenarios", 4), ("episodes", 4)),
    ],
)
def test_a_state_that_does_not_fit_is_refused(
    saved: tuple[str, int], into: tuple[str, int]
) -> None:
    state = make(*saved).state_dict()
    with pytest.raises(ConfigError, match=r"^the saved world does not fit this one: "):
        make(*into).load_state_dict(state)


# Compilation --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "graphs"), [("mixture", 1), ("episodes", 1), ("mixture", 2)])
def test_the_compiled_step_equals_the_eager_one(
    kind: str, graphs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In double precision; with fullgraph, so that nothing breaks the graph.

    Two graphs: as on a GPU, where the start of episodes is compiled, too.
    """
    if graphs == 2:
        monkeypatch.setattr("marinenav_env.host_reads.FREE_HOST_READS", frozenset())
    vessel = VesselConfig(m=(380.0, 400.0, 420.0))
    config = replace(SHORT, vessel=vessel, max_steps=12)
    torch.compiler.reset()
    eager, compiled = (
        make(kind, config=config, dtype=torch.float64, compile_step=flag) for flag in (False, True)
    )
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for a, b in zip(play(eager, 15), play(compiled, 15), strict=True):
        for key, value in a.items(True, True):
            if value.is_floating_point():
                torch.testing.assert_close(b[key], value, atol=1e-9, rtol=1e-9)
            else:
                assert torch.equal(b[key], value), key
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before + graphs


@pytest.mark.slow
def test_every_option_of_training_compiles_for_vector_instructions() -> None:
    """With enough environments in float32; kernels of fewer, or of float64, are other code."""
    penalties = dict.fromkeys(("give_way", "stand_on", "port_turn", "astern", "off_course"), -1.0)
    reward = RewardConfig(**{f"{name}_penalty": value for name, value in penalties.items()})
    torch.compiler.reset()
    eager, compiled = (
        make("sea", 64, config=replace(SHORT, reward=reward), compile_step=flag)
        for flag in (False, True)
    )
    for a, b in zip(play(eager, 2), play(compiled, 2), strict=True):
        near = torch.isclose(a["next"][REWARD], b["next"][REWARD], rtol=1e-3, atol=1e-3)
        assert near.float().mean() > 0.99  # rounding decides a few flags


def test_flat_observations_are_the_entries_in_order() -> None:
    check_env_specs(MarineNavEnv(SHORT, 4, scenarios=MIXTURE, flat=True))
    flat, plain = (MarineNavEnv(SHORT, 4, scenarios=MIXTURE, flat=each) for each in (True, False))
    vector, entries = (env.reset()[GROUP, "observation"] for env in (flat, plain))
    parts = [entries[name].flatten(2).float() for name in plain.entries]
    assert torch.equal(vector, torch.cat(parts, -1))
    assert flat.observation_spec[GROUP, "observation"].shape == vector.shape == (4, 3, 25)


def test_groups_name_the_robots() -> None:
    assert MarineNavEnv(SHORT, 1, scenarios=MIXTURE).group_map == {
        "robots": ["robot_0", "robot_1", "robot_2"]
    }


def test_no_seed_is_the_seed_zero() -> None:
    first, second = (MarineNavEnv(num_envs=2, seed=seed).reset() for seed in (None, 0))
    assert (first == second).all()


def test_a_state_with_half_a_source_of_noise_is_refused() -> None:
    env = MarineNavEnv(num_envs=2)
    state = env.state_dict()
    del state["noise"]["step"]
    with pytest.raises(ConfigError, match="the saved world does not fit this one"):
        env.load_state_dict(state)


def test_pictures_are_pixels_or_shown_in_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []

    class Pictures:
        def __init__(self, config: WorldConfig, levels: tuple[Level, ...]) -> None:
            shown.append(("made", levels))

        def image(self, world: Any) -> Any:
            return np.full((2, 3, 3), 7, np.uint8)

        def show(self, world: Any, fps: float | None) -> None:
            shown.append(("shown", fps))

        def close(self) -> None:
            shown.append("closed")

    monkeypatch.setattr("marinenav_env.env.Renderer", Pictures)
    env = make("mixture")
    picture = env.render()
    assert picture is not None and picture.shape == (2, 3, 3)
    assert env.render("human") is None and env.render("human", 5.0) is None
    env.close()
    assert shown == [("made", LEVELS), ("shown", 10.0), ("shown", 5.0), "closed"]
    make("episodes").render()
    assert shown[-1] == ("made", ())
    with pytest.raises(ConfigError, match=r"^mode='ansi': must be rgb_array or human$"):
        make().render("ansi")


def test_the_first_seed_is_zero_by_default() -> None:
    first, second = (make(**options).reset() for options in ({}, {"seed": 0}))
    assert equal(first, second)


@pytest.mark.parametrize("continuous", [True, False])
def test_actions_are_within_limits(continuous: bool) -> None:
    spec = make("traffic", continuous=continuous).action_spec[ACTION]
    if continuous:
        assert spec.shape == (4, 3, 2)
        assert spec.low.unique().tolist() == [-1.0] and spec.high.unique().tolist() == [1.0]
    else:
        assert spec.shape == (4, 3) and spec.n == 25


def test_sides_may_have_different_numbers_of_discrete_commands() -> None:
    vessel = VesselConfig(left_thrust_change=(0.0, 1.0), right_thrust_change=(0.0, 1.0, 2.0))
    assert make(config=replace(SHORT, vessel=vessel)).num_discrete_actions == 6


@pytest.mark.parametrize(
    ("kind", "limits"), [("mixture", (-500.0, 1000.0)), ("varied", (-750.0, 1500.0))]
)
def test_limits_of_thrusts_hold_for_vessels_that_vary(
    kind: str, limits: tuple[float, float]
) -> None:
    assert make(kind).entries["self_state"].limits[-2:] == (limits, limits)


def test_a_state_after_steps_without_a_reset_goes_on() -> None:
    env, other = make(seed=1), make(seed=2)
    env.step(env.fake_tensordict().set(ACTION, torch.zeros(4, 3, 2)))
    other.load_state_dict(env.state_dict())
    other.reset()
    assert torch.equal(other.state.pose, env.state.pose)
    assert other.state.steps.tolist() == [1] * 4


class Broken(ScenarioSampler):
    """A sampler that fails."""

    def sample(self, level: Tensor, generator: torch.Generator) -> Any:
        raise KeyError("no level")


@pytest.mark.parametrize("continuous", [True, False])
def test_errors_of_users_parts_name_them(continuous: bool) -> None:
    config = ScenarioConfig()
    working, broken = (kind(config, LEVELS, CPU, torch.float32)
                       for kind in (ScenarioSampler, Broken))  # fmt: skip
    MarineNavEnv(SHORT, scenarios=replace(MIXTURE, sampler=working), continuous=continuous)
    with pytest.raises(ConfigError, match=r"^Broken: failed in a world \(KeyError: 'no level'\)$"):
        MarineNavEnv(SHORT, scenarios=replace(MIXTURE, sampler=broken), continuous=continuous)


def test_other_errors_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise KeyError("no level")

    monkeypatch.setattr(ScenarioSampler, "sample", fail)
    with pytest.raises(KeyError, match="no level"):
        make()
