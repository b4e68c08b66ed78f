"""The world's step as one Triton kernel, against ``World.advance`` on the same noise."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor

from marinenav_env import GROUP, Curriculum, MarineNavEnv
from marinenav_env.config import RewardConfig, SensorConfig, WeatherConfig, WorldConfig
from marinenav_env.levels import Level
from marinenav_env.rules.reward import RewardInputs, reward_and_terms, role_term_names, role_terms
from marinenav_env.rules.roles import ROLES, relative_motion, roles
from marinenav_env.runtime.layout import env_last
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.reset import NewEpisodes
from marinenav_env.scenarios.scenario_file import parse_scenarios
from marinenav_env.sensing.perception import own_state
from marinenav_env.state import (
    Observation,
    Parameters,
    ResetState,
    Scenario,
    State,
    WorldState,
)
from marinenav_env.stepping.world import World
from marinenav_env.support.validation import ConfigError
from tests.marinenav_env.env_helpers import ACTION, KINDS, SHORT, actions_of, equal
from tests.marinenav_env.helpers import random_world, recordings
from tests.marinenav_env.triton_interpreter import interpreted

MODULE = "tests.marinenav_env.kernels.test_triton_world"
TOLERANCE = 1e-4
"""Largest difference of any number from the one that World computes, in the interpreter."""
GPU_TOLERANCE = 4e-4
"""Largest scaled difference on a GPU, which rounds a product and its sum once and divides to within two units in the
last place; with such roundings the interpreter's differences are up to 1.8e-4."""
BY_ROLE = RewardConfig(
    give_way_penalty=-0.7, stand_on_penalty=-0.6, port_turn_penalty=-0.5, slowing_penalty=-0.4,
    astern_penalty=-0.3, off_course_penalty=-0.2, steerage_speed=0.5, passing_distance=9.0,
    passing_margin=4.0,
)  # fmt: skip
ROUGH = WeatherConfig(
    wind_speed=9.0,
    wind_direction=0.7,
    wave_height=0.5,
    wave_direction=2.0,
    delay=2,
    missed=0.3,
)
PENALTIES = [item.name for item in fields(BY_ROLE) if item.name.endswith("_penalty")][3:]
"""Those by role, but for the one that the kernel refuses."""
PENALTIES.remove("broken_duty_penalty")
CONTINUOUS = ["ep011", "ep013", "ep032", "ep100", "ep103", "ep105", "ep107"]
Act = Callable[[int, State, Scenario], Tensor]


# What is refused --------------------------------------------------------------------------------


def test_a_cpu_is_refused() -> None:
    pytest.importorskip("triton")
    with pytest.raises(ConfigError, match=r"execution.kernel='triton': must be compiled where there is"):
        MarineNavEnv(seed=0, kernel="triton")


# In the interpreter, in a process of its own ----------------------------------------------------


def towards_goals(t: int, state: State, scenario: Scenario) -> Tensor:
    """Actions with which most robots arrive and some collide."""
    own = own_state(state, scenario.goal)
    turn = torch.atan2(own[..., 1], own[..., 0]).clamp(-0.5, 0.5)
    wanted = 500.0 + 800.0 * torch.stack((turn, -turn), -1)
    return (wanted - state.thrust) / 500.0


def differences(
    world: World, state: State, scenario: Scenario, parameters: Parameters, act: Act, steps: int
) -> dict[str, Any]:
    """Both worlds over some steps, with the same actions and noise.

    Each goes on from its own state, but with waves from the same one: their phase, a large number
    whose sine is taken, makes a force of the rounding error of a position. In float32 each differs
    by more from float64 than from the other.

    Where a flag differs, a distance was on an edge to rounding: that environment counts as tied,
    and is not compared from there on.
    """
    from marinenav_env.kernels import triton_operator, triton_world

    device = state.pose.device
    if device.type == "cpu":
        triton_operator.MIN_LANES = 1024  # the interpreter takes as long for many lanes as for few
    kernel = triton_world.TritonWorld(world.config, world.quantiles, world.continuous)
    envs = len(state)
    source = RandomSource.from_seed(0, envs, device)
    worst, happened, weather = Counter[str](), Counter[str](), parameters.weather
    if role_term_names(world.config):
        world.custom_reward = Counted(happened)
    tied = torch.zeros(envs, dtype=torch.bool, device=device)
    ours = theirs = state
    for t in range(steps):
        rest = parameters, act(t, theirs, scenario), source
        source.step.add_(1)
        begin = ours if weather is None else theirs
        nothing = TensorDict({}, begin.batch_size)
        now = ResetState(scenario=scenario, state=begin, observation=nothing, batch_size=begin.batch_size)
        after, _, seen, _, outcome = kernel.advance(now, *rest)
        other, _, *expected = world.advance(now.replace(state=theirs), *rest)
        ours, found, theirs, expected = after.state, (seen, outcome), other.state, expected[::2]
        if weather is not None:
            drawn = world.draw_noise(source, scenario, parameters).missed
            happened["missed"] += int((drawn < weather.missed[:, None, None]).sum())
        compared = [
            (name, mine.get(name), value)
            for mine, other in zip((ours, *found), (theirs, *expected), strict=True)
            for name, value in other.items()
        ]
        for name, mine, other in compared:
            assert (mine.shape, mine.dtype) == (other.shape, other.dtype), name
            if not other.is_floating_point():
                tied |= (mine != other).reshape(envs, -1).any(-1)
                happened[name] += int(other.sum())
        for name, mine, other in compared:
            if other.is_floating_point():
                largest = difference_of(mine, other)[~tied].amax().item()
                worst[name] = max(worst[name], largest)
    delays = [] if weather is None else weather.delay.unique().tolist()
    return {"worst": worst, "tied": int(tied.sum()), "envs": envs, "happened": happened, "delays": delays}


def difference_of(mine: Tensor, other: Tensor) -> Tensor:
    """The absolute difference, on a GPU divided by a hundredth of the number if that is above 1.

    Thrusts and energies are above 1,000: a unit in the last place is 1e-4 there.
    """
    scale = (other.abs() / 100.0).clamp_min(1.0) if other.is_cuda else 1.0
    difference = torch.where(mine == other, 0.0, (mine - other).abs() / scale)
    return difference.nan_to_num(nan=torch.inf)


def wilfully(seed: int) -> Act:
    """``towards_goals`` in half of the environments, random actions in the others."""
    generator = torch.Generator().manual_seed(seed)

    def act(t: int, state: State, scenario: Scenario) -> Tensor:
        actions = towards_goals(t, state, scenario)
        other = 2.0 * torch.rand(actions.shape, generator=generator) - 1.0
        half = torch.arange(len(actions), device=actions.device) % 2 == 0
        return torch.where(half[:, None, None], actions, other.to(actions.device))

    return act


class Counted:
    """A reward by role that counts the roles and how often each penalty is due.

    Args:
        happened: the counts.
    """

    def __init__(self, happened: Counter[str]) -> None:
        self.happened = happened

    def __call__(self, step: RewardInputs) -> Tensor:
        for name, term in role_terms(step).items():
            self.happened[f"{name}_penalty"] += int(((term != 0.0) & step.active).sum())
        seen = relative_motion(step.after.pose, step.after.velocity_ground)
        near = (seen.distance < 20.0) & env_last(step.active) & env_last(step.active)[:, None]
        for number, role in enumerate(ROLES):
            self.happened[role] += int(((roles(seen) == number) & near).sum())
        return reward_and_terms(None, step)[0]


def of_env(env: MarineNavEnv, act: Act, steps: int) -> dict[str, Any]:
    """``differences`` from the start of an environment's episodes."""
    return differences(env.world, env.state, env.scenario, env.constants, act, steps)


def whole_episodes(device: str = "cpu") -> dict[str, Any]:
    """The published world."""
    curriculum = Curriculum(levels=(Level(5, 0, 4, 30.0),), pool_size=64, refresh_size=64)
    env = MarineNavEnv(WorldConfig(max_steps=45), 128, scenarios=curriculum, device=device, seed=0)
    return of_env(env, towards_goals, 45)


def everything_else() -> dict[str, Any]:
    """Discrete actions, traffic, absent robots, drawn vessels, cores, one slot."""
    levels = (Level(3, 3, 2, 30.0), Level(6, 0, 0, encounter=True, traffic=0.5, vessel_spread=1.5))
    config = WorldConfig(sensor=SensorConfig(max_objects=1), ends_at_first_collision=True)
    curriculum = Curriculum(levels=levels, pool_size=64, refresh_size=64)
    env = MarineNavEnv(config, 128, scenarios=curriculum, continuous=False, seed=0)
    generator = torch.Generator().manual_seed(0)

    def act(t: int, state: State, scenario: Scenario) -> Tensor:
        return torch.randint(-1, 26, state.active.shape, generator=generator)

    return of_env(env, act, 15)


def by_role() -> dict[str, Any]:
    """Penalties by role of vessels that meet."""
    levels = (Level(4, 0, 0, encounter=True), Level(5, 0, 2, 30.0))
    curriculum = Curriculum(levels=levels, pool_size=64, refresh_size=64)
    env = MarineNavEnv(WorldConfig(max_steps=45, reward=BY_ROLE), 128, scenarios=curriculum, seed=0)
    return of_env(env, wilfully(0), 45)


def plain_penalties() -> dict[str, Any]:
    """Penalties by role without a speed for steerage and without a margin; traffic.

    Not for long: where the increment of a position is always the same, so is its rounding error.
    """
    weights = replace(BY_ROLE, steerage_speed=0.0, passing_distance=0.0, passing_margin=0.0)
    level = Level(4, 0, 0, encounter=True, traffic=0.3, slow_vessel=True)
    curriculum = Curriculum(levels=(level,), pool_size=64, refresh_size=64)
    env = MarineNavEnv(WorldConfig(reward=weights), 64, scenarios=curriculum, seed=0)
    return of_env(env, wilfully(1), 15)


def rough(device: str = "cpu") -> dict[str, Any]:
    """Wind, waves, late commands and missed detections, the same for all; scripted vessels."""
    levels = (Level(4, 2, 2, 30.0), Level(4, 0, 0, encounter=True, traffic=0.5))
    curriculum = Curriculum(levels=levels, pool_size=64, refresh_size=64)
    config = WorldConfig(max_steps=45, weather=ROUGH)
    env = MarineNavEnv(config, 128, scenarios=curriculum, device=device, seed=0)
    return of_env(env, towards_goals, 45)


def any_weather(device: str = "cpu") -> dict[str, Any]:
    """Weather drawn for every scenario, from calm to rough, with penalties by role."""
    levels = (Level(4, 0, 0, encounter=True, weather=2.0), Level(5, 0, 2, 30.0, weather=1.0))
    curriculum = Curriculum(levels=levels, pool_size=64, refresh_size=64)
    config = WorldConfig(max_steps=45, reward=BY_ROLE)
    env = MarineNavEnv(config, 128, scenarios=curriculum, device=device, seed=0)
    return of_env(env, wilfully(2), 45)


def recorded_episodes() -> dict[str, Any]:
    """Recorded actions in the recorded scenarios."""
    env = MarineNavEnv(scenarios=parse_scenarios([recordings()[key][0] for key in CONTINUOUS]), seed=0)
    steps = max(recordings()[key][0]["steps"] for key in CONTINUOUS)
    actions = torch.zeros(steps, *env.state.thrust.shape)
    for e, key in enumerate(CONTINUOUS):
        recorded = torch.from_numpy(recordings()[key][1]["action"])
        actions[: len(recorded), e, : recorded.shape[1]] = recorded
    return of_env(env, lambda t, state, scenario: actions[t], steps)


def any_vessels() -> dict[str, Any]:
    """Every parameter off its default and different from robot to robot; inactive robots."""
    drawn = random_world(3, [(5, 3, 3), (4, 4, 0), (6, 0, 2), (1, 1, 1)] * 16, inactive=0.1)
    parts = (drawn.state, drawn.scenario, drawn.parameters)
    state, scenario, parameters = (
        part.apply(lambda each: each.float() if each.is_floating_point() else each) for part in parts
    )
    world = World(WorldConfig(dt=0.04, substeps=7), drawn.quantiles.float())
    return differences(world, state, scenario, parameters, towards_goals, 10)


def compiled_whole() -> dict[str, Any]:
    """A step, and one with new episodes, as part of a compiled function, and as they are."""
    curriculum = Curriculum(levels=(Level(2, 0, 0, 30.0),), pool_size=8, refresh_size=8)
    same = []
    for setting in ({}, {"weather": ROUGH, "reward": BY_ROLE}):
        env = MarineNavEnv(WorldConfig(max_steps=1, **setting), 8, kernel="triton", scenarios=curriculum, seed=0)
        given = env.world_state, torch.ones(8, 2, 2), env.next_noise_source()
        starts = WorldState(env.reset_pool.states, env.constants)
        for arguments in (given, (*given, NewEpisodes(starts, torch.arange(8)))):
            torch.compiler.reset()
            whole = torch.compile(env.world.step, backend="aot_eager", fullgraph=True)
            found, expected = (function(*arguments).world.now.to_tensordict() for function in (whole, env.world.step))
            same.append(equal(found, expected))
    return {"equal": same}


ONE = {"pool_size": 1, "refresh_size": 1, "refresh_interval": 2}
STARTS: dict[str, tuple[int, Callable[[], Any]]] = {
    **{kind: (16, given) for kind, given in KINDS.items() if kind != "unruly"},
    "one of each": (1, lambda: Curriculum((Level(1, 0, 0, 20.0),), **ONE)),
    "only cores": (3, lambda: Curriculum((Level(1, 2, 0, 20.0),), **ONE)),
    "more robots than lanes": (
        2,
        lambda: Curriculum((Level(40, 1, 1, 20.0, map_size=100.0),), **ONE),
    ),
}
"""How many environments, and what their episodes are made of; the kernel refuses vessels that misbehave."""


def new_episodes(device: str = "cpu") -> dict[str, Any]:
    """Steps that end episodes, and start others from every kind of pool, in the same kernel."""
    return {kind: episodes_of(kind, device) for kind in STARTS}


def episodes_of(kind: str, device: str) -> dict[str, Any]:
    """An environment of a kind with the kernel against one without it; episodes of seven steps.

    Where the kernel takes something as it is, from the pool or from before the step, it must be
    the same bit for bit.
    """
    count, given = STARTS[kind]
    ours, theirs = (
        MarineNavEnv(
            SHORT,
            count,
            scenarios=given(),
            seed=1,
            device=device,
            episode_statistics=True,
            kernel=kernel,
        )
        for kernel in ("triton", "compiled")
    )
    td, expected_td = ours.reset(), theirs.reset()
    for each in (ours, theirs):  # else most episodes would end together
        each.state.steps.copy_(torch.arange(count) % 7)
    started, exact, worst = 0, True, 0.0
    for action in actions_of(theirs, 20):
        action = action.to(device)
        row, td = ours.step_and_maybe_reset(td.set(ACTION, action))
        expected, expected_td = theirs.step_and_maybe_reset(expected_td.set(ACTION, action))
        done = expected["next", "done"].view(-1)
        for name in Observation.__annotations__:
            first, last = (each[GROUP, "observation", name] for each in (expected_td, row["next"]))
            mask = done.view(-1, *[1] * (first.ndim - 1))
            exact &= torch.equal(td[GROUP, "observation", name], torch.where(mask, first, last))
        now, expected_now = ours.world_state.now, theirs.world_state.now
        exact &= equal(now.scenario.to_tensordict(), expected_now.scenario.to_tensordict())
        exact &= equal(now.state[done].to_tensordict(), expected_now.state[done].to_tensordict())
        exact &= equal(ours.constants.to_tensordict(), theirs.constants.to_tensordict())
        for (name, mine), (_, other) in zip(
            sorted(row.items(True, True), key=str),
            sorted(expected.items(True, True), key=str),
            strict=True,
        ):
            assert (mine.shape, mine.dtype) == (other.shape, other.dtype), name
            difference = difference_of(mine.double(), other.double()).flatten()
            worst = max(worst, *difference.tolist(), 0.0)
        started += int(done.sum())
    return {"started": started, "exact": exact, "worst": worst, "envs": count}


CASES = (
    whole_episodes,
    everything_else,
    by_role,
    plain_penalties,
    rough,
    any_weather,
    recorded_episodes,
    any_vessels,
    compiled_whole,
    new_episodes,
)


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    results: dict[str, Any] = interpreted(MODULE)
    return results


@pytest.mark.slow
@pytest.mark.parametrize("case", [case.__name__ for case in CASES[:-2]])
def test_the_kernel_equals_advance(found: dict[str, Any], case: str) -> None:
    check(found[case])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("case", [whole_episodes, rough, any_weather], ids=lambda case: case.__name__)
def test_the_kernel_equals_advance_on_a_gpu(case: Callable[[str], dict[str, Any]]) -> None:
    check(case("cuda"), GPU_TOLERANCE)


def check(found: dict[str, Any], tolerance: float = TOLERANCE) -> None:
    assert found["tied"] <= 0.02 * found["envs"], found
    assert max(found["worst"].values()) <= tolerance, found


@pytest.mark.slow
def test_all_of_it_happened(found: dict[str, Any]) -> None:
    """Else the comparison would show nothing."""
    happened = found["whole_episodes"]["happened"]
    for name in ("collided", "arrived", "colregs", "truncated", "episode_done"):
        assert happened[name] > 20, name
    assert found["everything_else"]["happened"]["episode_terminated"]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["by_role", "plain_penalties", "any_weather"])
def test_every_role_and_every_penalty_happened(found: dict[str, Any], case: str) -> None:
    happened = found[case]["happened"]
    for name in (*PENALTIES, *ROLES[1:]):
        assert happened[name] > 20, name


@pytest.mark.slow
def test_every_fault_happened(found: dict[str, Any]) -> None:
    assert found["rough"]["delays"] == [2]
    assert set(found["any_weather"]["delays"]) == {0, 1, 2}
    for case in ("rough", "any_weather"):
        assert found[case]["happened"]["missed"] > 20


@pytest.mark.slow
def test_the_kernel_can_be_part_of_compiled_code(found: dict[str, Any]) -> None:
    assert found["compiled_whole"]["equal"] == [True] * 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", STARTS)
def test_the_kernel_starts_episodes(found: dict[str, Any], kind: str) -> None:
    check_episodes(found["new_episodes"][kind])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", STARTS)
def test_the_kernel_starts_episodes_on_a_gpu(kind: str) -> None:
    check_episodes(episodes_of(kind, "cuda"), GPU_TOLERANCE)


def check_episodes(found: dict[str, Any], tolerance: float = TOLERANCE) -> None:
    assert found["started"] >= 2 * found["envs"] and found["exact"], found
    assert found["worst"] <= tolerance, found


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps({case.__name__: case() for case in CASES}))
