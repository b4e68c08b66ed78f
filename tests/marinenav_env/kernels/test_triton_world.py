"""The world's step as one Triton kernel against ``World`` on the same noise, in Triton's interpreter and on a GPU."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import Tensor

from marinenav_env import GROUP, Curriculum, MarineNavEnv
from marinenav_env.config import RewardConfig, SensorConfig, VesselConfig, WeatherConfig, WorldConfig
from marinenav_env.levels import Level
from marinenav_env.scenarios.reset import NewEpisodes
from marinenav_env.sensing.perception import own_state
from marinenav_env.state import Observation, State
from marinenav_env.support.validation import ConfigError
from tests.marinenav_env.env_helpers import ACTION, KINDS, SHORT, actions_of, equal
from tests.marinenav_env.triton_interpreter import interpreted

MODULE = "tests.marinenav_env.kernels.test_triton_world"
TOLERANCE = 1e-4
"""Largest difference of any number from the one that World computes, in the interpreter."""
GPU_TOLERANCE = 4e-4
"""Largest scaled difference on a GPU, which rounds a product and its sum once and divides to within two units in the
last place; with such roundings the interpreter's differences are up to 1.8e-4."""
Act = Callable[[MarineNavEnv], Tensor]


def curriculum(*levels: Level) -> Curriculum:
    return Curriculum(levels, pool_size=64, refresh_size=64)


# What is refused --------------------------------------------------------------------------------


REFUSED: dict[str, dict[str, Any]] = {
    "weather": {"config": WorldConfig(weather=WeatherConfig(wind_speed=3.0))},
    "scan": {"config": WorldConfig(sensor=SensorConfig(scan_beams=4))},
    "duties": {"config": WorldConfig(sensor=SensorConfig(duties=True))},
    "penalties by role": {"config": WorldConfig(reward=RewardConfig(give_way_penalty=-1.0))},
    "broken duties": {"config": WorldConfig(reward=RewardConfig(broken_duty_penalty=-1.0))},
    "hull terms": {"config": WorldConfig(vessel=VesselConfig(xUUU=-1.0))},
    "vessels that differ": {"config": WorldConfig(vessel=VesselConfig(m=(400.0, 300.0)))},
    "drawn vessels": {"scenarios": curriculum(Level(2, 0, 0, 30.0, vessel_spread=1.5))},
    "drawn weather": {"scenarios": curriculum(Level(2, 0, 0, 30.0, weather=1.0))},
    "scripted vessels": {"scenarios": curriculum(Level(2, 0, 0, encounter=True, traffic=0.5))},
    "statistics": {"episode_statistics": True},
    "float64": {"dtype": torch.float64},
}


def refusals() -> dict[str, str]:
    """What is said of every world that is not the published one; empty where nothing is."""
    from marinenav_env.kernels.triton_world import TritonWorld

    said = {}
    for name, options in REFUSED.items():
        try:
            MarineNavEnv(
                **{"num_envs": 2, "scenarios": curriculum(Level(2, 0, 0, 30.0)), "seed": 0} | options, world=TritonWorld
            )
            said[name] = ""
        except ConfigError as error:
            said[name] = str(error)
    return said


def test_a_cpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    triton = pytest.importorskip("triton")
    from marinenav_env.kernels.triton_world import TritonWorld

    monkeypatch.setattr(triton.knobs.runtime, "interpret", False)
    with pytest.raises(ConfigError, match=r"^world='TritonWorld': must be World unless it is the published world in "):
        MarineNavEnv(seed=0, world=TritonWorld)


# In the interpreter, in a process of its own ----------------------------------------------------


def towards_goals(env: MarineNavEnv) -> Tensor:
    """Actions with which most robots arrive and some collide."""
    own = own_state(env.state, env.scenario)
    turn = torch.atan2(own[..., 1], own[..., 0]).clamp(-0.5, 0.5)
    wanted = 500.0 + 800.0 * torch.stack((turn, -turn), -1)
    return (wanted - env.state.thrust) / 500.0


def differences(env: MarineNavEnv, act: Act, steps: int) -> dict[str, Any]:
    """An environment and the same with the kernel over some steps, with the same actions and noise.

    Where a flag differs, a distance was on an edge to rounding: that environment counts as tied, and is not compared
    from there on.
    """
    from marinenav_env.kernels import triton_world

    if env.device.type == "cpu":
        triton_world.MIN_LANES = 1024  # the interpreter takes as long for many lanes as for few
    kernel = triton_world.TritonWorld(env.config, env.world.quantiles, env.continuous)
    worst, happened = Counter[str](), Counter[str]()
    tied = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
    ours = env.world_state
    for _ in range(steps):
        action, noise = act(env), env.next_noise_source()
        mine = kernel.step(ours, action, noise)
        other = env.world.step(env.world_state, action, noise)
        ours, env.world_state = mine.world, other.world
        parts = ((each.world.now.state, each.observation, each.outcome) for each in (mine, other))
        compared = [(name, a.get(name), value) for a, b in zip(*parts, strict=True) for name, value in b.items()]
        for name, a, b in compared:
            assert (a.shape, a.dtype) == (b.shape, b.dtype), name
            if not b.is_floating_point():
                tied |= (a != b).reshape(len(tied), -1).any(-1)
                happened[name] += int(b.sum())
        for name, a, b in compared:
            if b.is_floating_point():
                worst[name] = max(worst[name], difference_of(a, b)[~tied].amax().item())
    return {"worst": worst, "tied": int(tied.sum()), "envs": len(tied), "happened": happened}


def difference_of(mine: Tensor, other: Tensor) -> Tensor:
    """The absolute difference, on a GPU divided by a hundredth of the number if that is above 1.

    Thrusts and energies are above 1,000: a unit in the last place is 1e-4 there.
    """
    scale = (other.abs() / 100.0).clamp_min(1.0) if other.is_cuda else 1.0
    difference = torch.where(mine == other, 0.0, (mine - other).abs() / scale)
    return difference.nan_to_num(nan=torch.inf)


def whole_episodes(device: str = "cpu") -> dict[str, Any]:
    """The published world."""
    levels = curriculum(Level(5, 0, 4, 30.0))
    env = MarineNavEnv(WorldConfig(max_steps=45), 128, scenarios=levels, device=device, seed=0)
    return differences(env, towards_goals, 45)


def discrete_actions() -> dict[str, Any]:
    """Discrete actions, absent robots, cores, one slot."""
    config = WorldConfig(sensor=SensorConfig(max_objects=1), ends_at_first_collision=True)
    levels = curriculum(Level(3, 3, 2, 30.0), Level(6, 0, 0, 20.0))
    env = MarineNavEnv(config, 128, scenarios=levels, continuous=False, seed=0)
    generator = torch.Generator().manual_seed(0)
    return differences(env, lambda env: torch.randint(-1, 26, env.state.active.shape, generator=generator), 15)


def another_vessel() -> dict[str, Any]:
    """Every number of the vessel, the sensor and the reward off its default."""
    vessel = VesselConfig(**_moved(VesselConfig()), **dict.fromkeys(("yDotV", "yDotR", "nDotV", "yR", "yRV"), 3.0))
    sensor = SensorConfig(range=15.0, angle=4.0, max_objects=3, pos_std=0.1, vel_std=0.2, r_mean_ratio=0.7, r_kappa=3.0)
    reward = RewardConfig(timestep_penalty=-0.3, COLREGs_penalty=-0.2, collision_penalty=-7.0, goal_reward=3.0)
    config = WorldConfig(dt=0.04, substeps=7, vessel=vessel, sensor=sensor, reward=reward)
    env = MarineNavEnv(config, 64, scenarios=curriculum(Level(4, 3, 2, 30.0)), seed=0)
    return differences(env, towards_goals, 10)


def _moved(vessel: VesselConfig) -> dict[str, float]:
    """The numbers of a vessel that are not 0, each moved by its own share."""
    numbers = {item.name: getattr(vessel, item.name) for item in fields(VesselConfig)}
    numbers = {name: value for name, value in numbers.items() if isinstance(value, float) and value}
    return {name: value * (1.02 + 0.003 * place) for place, (name, value) in enumerate(numbers.items())}


def operator() -> dict[str, Any]:
    """What torch says of the operator, and whether a compiled step, also with new episodes, equals the eager one."""
    from marinenav_env.kernels import triton_world

    made, inner = [], triton_world.world_step

    def noted(*arguments: Any) -> Any:
        made.append(arguments)
        return inner(*arguments)

    env = MarineNavEnv(
        WorldConfig(max_steps=1), 8, world=triton_world.TritonWorld, scenarios=curriculum(Level(2, 0, 0, 30.0)), seed=0
    )
    given, same = (env.world_state, torch.ones(8, 2, 2), env.next_noise_source()), []
    for arguments in (
        given,
        (*given, env.episodes.next_episodes()),
        (*given, NewEpisodes(env.episodes.next_episodes().pool, torch.arange(8))),
    ):
        torch.compiler.reset()
        whole = torch.compile(env.world.step, backend="aot_eager", fullgraph=True)
        found, expected = (function(*arguments).world.now.to_tensordict() for function in (whole, env.world.step))
        same.append(equal(found, expected))
        triton_world.world_step = noted  # type: ignore[assignment]
        env.world.step(*arguments)
        triton_world.world_step = inner
    utils = ("test_schema", "test_faketensor")
    return {"equal": same, "checked": [torch.library.opcheck(inner, each, test_utils=utils) for each in made]}


ONE = {"pool_size": 1, "refresh_size": 1, "refresh_interval": 2}
STARTS: dict[str, tuple[int, Callable[[], Any]]] = {
    **{kind: (16, KINDS[kind]) for kind in ("mixture", "schedule", "scenarios")},
    "one of each": (1, lambda: Curriculum((Level(1, 0, 0, 20.0),), **ONE)),
    "only cores": (3, lambda: Curriculum((Level(1, 2, 0, 20.0),), **ONE)),
    "more robots than lanes": (2, lambda: Curriculum((Level(40, 1, 1, 20.0, map_size=100.0),), **ONE)),
}
"""How many environments, and what their episodes are made of."""


def new_episodes() -> dict[str, Any]:
    """Steps that end episodes, and start others from every kind of pool, in the same kernel."""
    return {kind: episodes_of(kind, "cpu") for kind in STARTS}


def episodes_of(kind: str, device: str) -> dict[str, Any]:
    """An environment of a kind with the kernel against one without it; episodes of seven steps.

    Where the kernel takes something as it is, from the pool or from before the step, it must be
    the same bit for bit.
    """
    from marinenav_env.kernels.triton_world import TritonWorld
    from marinenav_env.stepping.world import World

    count, given = STARTS[kind]
    ours, theirs = (
        MarineNavEnv(SHORT, count, scenarios=given(), seed=1, device=device, world=world)
        for world in (TritonWorld, World)
    )
    td, expected_td = ours.reset(), theirs.reset()
    for each in (ours, theirs):  # else most episodes would end together
        each.state.steps.copy_(torch.arange(count) % 7)
    started, exact, worst = 0, True, 0.0
    for action in actions_of(theirs, 20):
        row, td = ours.step_and_maybe_reset(td.set(ACTION, action.to(device)))
        expected, expected_td = theirs.step_and_maybe_reset(expected_td.set(ACTION, action.to(device)))
        done = expected["next", "done"].view(-1)
        for name in Observation.__annotations__:
            first, last = (each[GROUP, "observation", name] for each in (expected_td, row["next"]))
            mask = done.view(-1, *[1] * (first.ndim - 1))
            exact &= torch.equal(td[GROUP, "observation", name], torch.where(mask, first, last))
        now, expected_now = ours.world_state.now, theirs.world_state.now
        exact &= equal(now.scenario.to_tensordict(), expected_now.scenario.to_tensordict())
        states: list[State] = [each.state[done].to_tensordict() for each in (now, expected_now)]
        exact &= equal(*states)
        pairs = zip(*(sorted(each.items(True, True), key=str) for each in (row, expected)), strict=True)
        for (name, mine), (_, other) in pairs:
            assert (mine.shape, mine.dtype) == (other.shape, other.dtype), name
            worst = max(worst, *difference_of(mine.double(), other.double()).flatten().tolist(), 0.0)
        started += int(done.sum())
    return {"started": started, "exact": exact, "worst": worst, "envs": count}


CASES = (whole_episodes, discrete_actions, another_vessel, operator, refusals, new_episodes)


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    results: dict[str, Any] = interpreted(MODULE)
    return results


@pytest.mark.slow
@pytest.mark.parametrize("case", ["whole_episodes", "discrete_actions", "another_vessel"])
def test_the_kernel_equals_advance(found: dict[str, Any], case: str) -> None:
    check(found[case])


@pytest.mark.gpu
def test_the_kernel_equals_advance_on_a_gpu() -> None:
    check(whole_episodes("cuda"), GPU_TOLERANCE)


def check(found: dict[str, Any], tolerance: float = TOLERANCE) -> None:
    assert found["tied"] <= 0.02 * found["envs"], found
    assert max(found["worst"].values()) <= tolerance, found


@pytest.mark.slow
def test_all_of_it_happened(found: dict[str, Any]) -> None:
    """Else the comparison would show nothing."""
    happened = found["whole_episodes"]["happened"]
    for name in ("collided", "arrived", "colregs", "truncated", "episode_done"):
        assert happened[name] > 20, name
    assert found["discrete_actions"]["happened"]["episode_terminated"]


@pytest.mark.slow
def test_it_is_an_operator_as_torch_expects_and_can_be_part_of_compiled_code(found: dict[str, Any]) -> None:
    """It changes no argument; while it is traced, results have the sizes, layouts and types."""
    expected = {"test_schema": "SUCCESS", "test_faketensor": "SUCCESS"}
    assert found["operator"] == {"equal": 3 * [True], "checked": 3 * [expected]}


@pytest.mark.slow
@pytest.mark.parametrize("world", REFUSED)
def test_other_worlds_are_refused(found: dict[str, Any], world: str) -> None:
    assert found["refusals"][world].startswith(
        "world='TritonWorld': must be World unless it is the published world in "
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", STARTS)
def test_the_kernel_starts_episodes(found: dict[str, Any], kind: str) -> None:
    check_episodes(found["new_episodes"][kind])


@pytest.mark.gpu
@pytest.mark.parametrize("kind", STARTS)
def test_the_kernel_starts_episodes_on_a_gpu(kind: str) -> None:
    check_episodes(episodes_of(kind, "cuda"), GPU_TOLERANCE)


def check_episodes(found: dict[str, Any], tolerance: float = TOLERANCE) -> None:
    assert found["started"] >= 2 * found["envs"] and found["exact"], found
    assert found["worst"] <= tolerance, found


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps({case.__name__: case() for case in CASES}))
