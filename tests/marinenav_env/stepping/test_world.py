"""Whole control steps against recordings and against the oracle."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from marinenav_env import ConfigError, Curriculum, Level
from marinenav_env.config import MODERATE_WEATHER, RewardConfig, SensorConfig, WeatherConfig, WorldConfig
from marinenav_env.env import GROUP, MarineNavEnv
from marinenav_env.rules.colregs import required_turn
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.scenario_file import parse_scenarios
from marinenav_env.sensing import perception
from marinenav_env.state import Observation, ResetState, WorldState
from marinenav_env.stepping import world
from tests.marinenav_env.env_helpers import actions_of, advance
from tests.marinenav_env.helpers import CPU, World, oracle_states, random_world, recordings, simple_episode

TOLERANCE = 1e-8
KEYS = list(recordings())
DISCRETE = [key for key in KEYS if not recordings()[key][0]["continuous"]]
FULL_RATE = 1000.0


def frame(env: MarineNavEnv, step: TensorDict) -> dict[str, torch.Tensor]:
    """What a recording holds of one moment, [E, R, ...]."""
    group, state = step[GROUP], env.state
    parts = (state.pose, state.velocity_water, state.velocity_ground, state.thrust)
    observation = group["observation"]
    found = {
        "state": torch.cat(parts, -1),
        "self_obs": observation["self_state"],
        "objects": observation["objects_state"],
        "mask": observation["objects_mask"],
        "active": group["mask"],
    }
    if "reward" in group.keys():  # noqa: SIM118 (a TensorDict iterates over its batch)
        outcome = env.outcome
        found |= {
            "reward": group["reward"].squeeze(-1),
            "done": group["done"].squeeze(-1),
            "deactivated": group["terminated"].squeeze(-1),
            "collision": state.collided,
            "reach_goal": state.arrived,
            "colregs": outcome.colregs,
            "phi": outcome.phi,
            "energy": outcome.energy,
        }
    else:
        names = ("self_state", "objects_state", "objects_mask")
        seen = Observation(**{name: observation[name] for name in names}, batch_size=env.batch_size)
        radius = env.constants.vessel.radius
        found["colregs"], found["phi"] = required_turn(seen, radius, env.config.colregs)
    return {name: value.clone() for name, value in found.items()}


def play(keys: list[str], continuous: bool) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Everything [T, E, R, ...] that comes of recorded actions, after the reset and after steps."""
    episodes = parse_scenarios([recordings()[key][0] for key in keys])
    env = MarineNavEnv(scenarios=episodes, continuous=continuous, dtype=torch.float64, seed=0)
    steps = max(recordings()[key][0]["steps"] for key in keys)
    shape = (steps, len(keys), env.num_robots)
    actions = np.zeros((*shape, 2)) if continuous else np.zeros(shape, dtype=np.int64)
    for e, key in enumerate(keys):
        entry, arrays = recordings()[key]
        recorded = arrays["action"]
        if continuous and not entry["continuous"]:
            table = np.array(entry["config"]["robots"]["left_thrust_change"][0]) / FULL_RATE
            right = np.array(entry["config"]["robots"]["right_thrust_change"][0]) / FULL_RATE
            recorded = np.stack((table[recorded // len(right)], right[recorded % len(right)]), -1)
        actions[: entry["steps"], e, : entry["num_robots"]] = recorded
    following = env.reset()
    frames = [frame(env, following)]
    for action in torch.from_numpy(actions):
        following.set((GROUP, "action"), action)
        following = env.step(following)["next"]
        frames.append(frame(env, following))
    both = {name: torch.stack([f[name] for f in frames]).numpy() for name in frames[0]}
    after = {name: torch.stack([f[name] for f in frames[1:]]).numpy() for name in frames[-1]}
    return both, {name: value for name, value in after.items() if name not in both}


@pytest.fixture(scope="module")
def replayed() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    return play(KEYS, continuous=True)


@pytest.mark.parametrize("key", KEYS)
def test_recording_as_part_of_one_padded_batch(
    key: str, replayed: tuple[dict[str, np.ndarray], dict[str, np.ndarray]]
) -> None:
    entry, expected = recordings()[key]
    e, count, steps = KEYS.index(key), entry["num_robots"], entry["steps"]
    compared = set()
    for part, rows in zip(replayed, (steps + 1, steps), strict=True):
        for name, values in part.items():
            got = values[:rows, e]
            if name != "active":
                compared.add(name)
                check(name, got[:, :count], expected[name])
            if name in ("done", "deactivated"):  # as an absent robot always is
                assert got[:, count:].all(), name
            elif name != "state":
                assert not got[:, count:].any(), name
    assert compared == set(expected) - {"action"}


def test_recordings_cover_the_world() -> None:
    entries, arrays = zip(*recordings().values(), strict=True)
    assert {3, 5, 6} <= {entry["num_robots"] for entry in entries}
    for part in ("cores", "obstacles"):
        assert any(entry["config"]["env"][part]["positions"] for entry in entries)
    assert {each["action"].ndim for each in arrays} == {2, 3}
    for flag in ("collision", "reach_goal", "colregs"):
        assert any(each[flag].any() for each in arrays)


def check(name: str, got: np.ndarray, expected: np.ndarray) -> None:
    assert got.shape == expected.shape and got.dtype == expected.dtype, name
    if expected.dtype == bool:
        assert np.array_equal(got, expected), name
    else:
        assert np.abs(got - expected).max() < TOLERANCE, name


@pytest.mark.heavy
def test_discrete_actions_do_the_same_as_the_continuous_ones_they_stand_for() -> None:
    for discrete, continuous in zip(play(DISCRETE, False), play(DISCRETE, True), strict=True):
        for name, values in discrete.items():
            assert np.array_equal(values, continuous[name]), name


# Against the oracle, with noise and with every parameter off its default ------------------------

SIZES = [(5, 3, 3), (4, 4, 0), (6, 0, 2), (3, 2, 1), (2, 0, 0), (1, 1, 1)] * 5
STEPS = 12


@pytest.fixture(scope="module")
def busy() -> World:
    return random_world(3, SIZES, size=30.0, inactive=0.0)


@pytest.mark.heavy
def test_control_steps_equal_the_oracle(busy: World) -> None:
    generator = torch.Generator().manual_seed(0)
    shape = (STEPS, *busy.scenario.thrust.shape)
    actions = 2.0 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1.0
    noises = [world.StepNoise(busy.noise(seed), ()) for seed in range(STEPS + 1)]

    slots = 5
    config = WorldConfig(
        dt=busy.episodes[0].world.dt,
        substeps=busy.episodes[0].world.substeps,
        max_steps=STEPS,
        sensor=SensorConfig(max_objects=slots),
    )
    simulator = world.World(config, busy.quantiles)
    state = world.initial_state(busy.scenario, busy.parameters.rules.core_radius)
    size = busy.state.batch_size
    now = ResetState(busy.scenario, state, TensorDict({}, size), batch_size=size)
    moments, present = [], WorldState(now, busy.parameters)
    for t in range(STEPS):
        stepped = simulator.step(present, actions[t], noises[t + 1])
        present = stepped.world
        moments.append((present.now.state, stepped.observation, stepped.outcome))

    def feed(e: int, t: int, i: int) -> list:
        return busy.oracle_noise(noises[t].perception, e, i)

    seen = dict.fromkeys(("collided", "arrived", "colregs", "truncated"), 0)
    for e in range(len(SIZES)):
        other = busy.oracle_world(e, partial(feed, e))
        for got, robot in zip(oracle_states(state[e]), other.robots, strict=False):
            assert got == pytest.approx(robot.state, abs=1e-9)
        for t in range(STEPS):
            rows = other.step(t + 1, actions[t, e].tolist(), STEPS)
            after, outcome = moments[t][0][e], moments[t][2][e]
            observation = {name: value[e] for name, value in moments[t][1].items()}
            states = torch.cat((after.pose, after.velocity_water, after.velocity_ground, after.thrust), -1)
            for i, row in enumerate(rows):
                near = partial(pytest.approx, abs=1e-9)
                assert states[i].tolist() == near(list(other.robots[i].state))
                num_objects = len(row["mask"])
                objects = torch.tensor(row["objects"], dtype=torch.float64)
                assert observation["self_state"][i].tolist() == near(row["self_obs"])
                assert torch.allclose(observation["objects_state"][i, :num_objects], objects, atol=1e-9)
                assert not observation["objects_state"][i, num_objects:].any()
                mask = observation["objects_mask"][i].tolist()
                assert mask == row["mask"] + [False] * (slots - num_objects)
                for name in ("reward", "energy", "phi"):
                    assert outcome.get(name)[i].item() == near(row[name]), name
                assert bool(outcome.colregs[i]) == row["colregs"]
                assert bool(after.collided[i]) == row["collision"]
                assert bool(after.arrived[i]) == row["reach_goal"]
                assert bool(outcome.terminated[i] | outcome.truncated[i]) == row["done"]
                seen["colregs"] += row["colregs"]
                seen["truncated"] += bool(outcome.truncated[i])
            assert bool(outcome.episode_done) == all(row["done"] for row in rows)
        seen["collided"] += sum(other.has_collided)
        seen["arrived"] += sum(other.has_reached)
    assert all(count >= 5 for count in seen.values()), seen


def test_what_users_parts_give_is_checked() -> None:
    env = MarineNavEnv(scenarios=[simple_episode([(5.0, 5.0, 0.0)], [(50.0, 50.0)])], seed=0)
    action = torch.zeros(1, 1, 2)
    env.world.check_user_parts(env.world_state, action)
    entries = env.world.entries
    for entry in (replace(entries["self_state"], shape=(8,)), replace(entries["self_state"], kind="mask")):
        env.world.entries = entries | {"self_state": entry}
        with pytest.raises(ConfigError, match=r"robots/observation/self_state=.*\[1, 1, 7\]"):
            env.world.check_user_parts(env.world_state, action)


def test_wind_and_waves_push_who_is_steered_and_nobody_who_keeps_course_and_speed() -> None:
    level = Level(2, 0, 0, 0.0, encounter=True, traffic=1.0, weather=1.0)
    curriculum = Curriculum((level,), pool_size=8, refresh_size=8)
    env = MarineNavEnv(num_envs=4, scenarios=curriculum, dtype=torch.float64, seed=0)
    td, before = env.reset(), env.state.pose.clone()
    for _ in range(5):
        td = env.step(td.set((GROUP, "action"), torch.zeros(4, 2, 2, dtype=torch.float64)))["next"]
    turned = (env.state.pose - before)[..., 2].abs() > 1e-9
    assert turned[:, 0].all() and not turned[:, 1].any()


def test_who_is_run_into_keeps_course_and_speed_without_a_collision() -> None:
    level = Level(2, 0, 0, 0.0, encounter=True, traffic=1.0)
    curriculum = Curriculum((level,), pool_size=2, refresh_size=2)
    env = MarineNavEnv(num_envs=1, scenarios=curriculum, dtype=torch.float64, seed=0)
    td = env.reset()
    env.state.pose[:, 0, :2] = env.state.pose[:, 1, :2] + 1.0
    env.step(td.set((GROUP, "action"), torch.zeros(1, 2, 2)))
    assert env.outcome.collided.tolist() == env.state.collided.tolist() == [[True, False]]
    assert env.state.active.tolist() == [[False, True]]


def test_a_vessel_that_collides_at_its_goal_has_not_arrived() -> None:
    given = [simple_episode([(20.0, 20.0, 0.0)], [(21.0, 20.0)], obstacles) for obstacles in ([(22.0, 20.0, 1.0)], [])]
    env = MarineNavEnv(scenarios=given, seed=0)
    rewards = env.rollout(1)["next", GROUP, "reward"].flatten().tolist()
    assert rewards[0] < -4.0 and rewards[1] > 8.0
    assert env.outcome.collided.tolist() == [[True], [False]]
    assert env.outcome.arrived.tolist() == [[False], [True]]


def test_every_kind_of_noise_has_random_numbers_of_its_own() -> None:
    source, found = RandomSource.from_seed(3, 1, CPU), []
    given = simple_episode([(5.0, 5.0, 0.0)] * 2, [(50.0, 50.0)] * 2, [(9.0, 9.0, 1.0)])
    for weather in (MODERATE_WEATHER, WeatherConfig()):
        config = WorldConfig(sensor=SensorConfig(scan_beams=4), weather=weather)
        env = MarineNavEnv(config, scenarios=[given], dtype=torch.float64, seed=0)
        found.append(env.world.draw_noise(source, env.scenario, env.constants))
    drawn, calm = found
    assert drawn.missed is not None and drawn.entries[0] is not None
    assert torch.equal(drawn.missed, source.with_purpose(1).uniform((1, 2, 3), torch.float64))
    assert torch.equal(drawn.entries[0], source.with_purpose(2).normal((1, 2, 4), torch.float64))
    own = perception.draw_perception_noise(source, 2, 3, torch.float64)
    assert torch.equal(drawn.perception.uniform, own.uniform)
    assert calm.missed is None and torch.equal(calm.entries[0], drawn.entries[0])


MIXTURES = {
    "vessels that misbehave": (Level(3, 0, 0, 0.0, encounter=True, unruly=0.6),),
    "overtaken, in traffic": (
        Level(2, 0, 0, 0.0, encounter=True, overtaken=True),
        Level(3, 0, 0, 0.0, encounter=True, traffic=1.0, speed_spread=0.6, time_spread=1.0),
    ),
    "currents, weather and faults": (
        Level(3, 2, 2, 30.0, weather=1.0, thruster_fault=0.5, vessel_spread=2.0),
        Level(4, 0, 3, 30.0, noise=2.0),
    ),
}
"""Levels whose scenarios have all that a step may have."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "continuous"), [*((name, True) for name in MIXTURES), ("vessels that misbehave", False)]
)
def test_a_compiled_step_has_all_results_of_an_eager_one(name: str, continuous: bool) -> None:
    """In double precision, with new episodes in many steps, so that no difference is one of rounding."""
    reward = RewardConfig(give_way_penalty=-2.0, stand_on_penalty=-2.0, astern_penalty=-0.5, off_course_penalty=-1.0)
    eager, compiled = (
        MarineNavEnv(
            WorldConfig(max_steps=25, reward=reward),
            24,
            continuous=continuous,
            scenarios=Curriculum(MIXTURES[name], pool_size=48, refresh_size=24),
            dtype=torch.float64,
            episode_statistics=True,
            compile_step=compile_step,
            seed=3,
        )
        for compile_step in (False, True)
    )
    actions = actions_of(eager, 60)
    (rows, last), (expected, their_last) = (advance(env, env.reset(), actions) for env in (eager, compiled))
    assert sum(int(row["next", "done"].sum()) for row in rows) > 40
    for actual, other in zip([*rows, last], [*expected, their_last], strict=True):
        for key in actual.keys(True, True):
            torch.testing.assert_close(other[key], actual[key], atol=1e-6, rtol=1e-6)
    for actual, other in zip(eager.world_state, compiled.world_state, strict=True):
        for key in actual.keys(True, True):
            torch.testing.assert_close(other.get(key), actual.get(key), atol=1e-6, rtol=1e-6)
