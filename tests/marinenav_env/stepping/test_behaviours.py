"""Vessels that no action controls: rates against the oracle, and what they do in a world."""

import math
import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from marinenav_env import ConfigError, Curriculum, Episode, Level, MarineNavEnv
from marinenav_env.config import MODERATE_WEATHER, ActuatorConfig, VesselConfig, WorldConfig
from marinenav_env.levels import BEHAVIOURS
from marinenav_env.physics.dynamics import wrap_to_pi
from marinenav_env.scenarios.scenario_file import stack_episodes
from marinenav_env.state import State
from marinenav_env.stepping.behaviours import behaviour_rates
from tests.marinenav_env.env_helpers import ACTION, MASK, equal, play
from tests.marinenav_env.helpers import CPU, QUIET, oracle_vessel, random_episode, simple_episode
from tests.oracle import behaviours as oracle

DOUBLE = torch.float64
UNRULY = Level(3, 0, 0, 0.0, encounter=True, unruly=0.6)


def drawn_state(scenario: Any, rng: random.Random) -> State:
    """States of vessels at any moment, with the noise of a rollout nowhere near."""

    def numbers(*bounds: tuple[float, float]) -> Tensor:
        shape = scenario.robot_mask.shape
        rows = [[[rng.uniform(*bound) for bound in bounds] for _ in range(shape[1])] for _ in range(shape[0])]
        return torch.tensor(rows, dtype=DOUBLE)

    flags = scenario.robot_mask
    return State(
        pose=numbers((0.0, 55.0), (0.0, 55.0), (0.0, 2.0 * math.pi)),
        velocity_water=numbers((-2.0, 2.0), (-2.0, 2.0), (-0.5, 0.5)),
        velocity_ground=numbers((-2.0, 2.0), (-2.0, 2.0), (-0.5, 0.5)),
        thrust=numbers((-400.0, 900.0), (-400.0, 900.0)),
        active=flags,
        collided=~flags,
        arrived=~flags,
        steps=torch.tensor([rng.randrange(60) for _ in range(len(flags))]),
        batch_size=scenario.batch_size,
    )


@pytest.mark.heavy
def test_rates_equal_the_oracle() -> None:
    """Every behaviour, every parameter different, before, at and after the onset, also from rest."""
    rng = random.Random(0)
    episodes = []
    for number in range(80):
        episode = random_episode(rng, len(BEHAVIOURS), 0, 0)
        names = [*BEHAVIOURS]
        rng.shuffle(names)
        velocity = [[0.0] * 3 if rng.random() < 0.2 else row for row in episode.velocity]
        onset = [rng.uniform(0.0, 0.28 * 50) for _ in names]
        episodes.append(replace(episode, behaviour=names, onset=onset, velocity=velocity, seed=number))
    scenario, parameters, _ = stack_episodes(episodes, CPU, DOUBLE)
    state, seconds = drawn_state(scenario, rng), 0.04 * 7
    rates = behaviour_rates(state, scenario, parameters, seconds)
    phases = set()
    for row, episode in enumerate(episodes):
        for robot, name in enumerate(episode.behaviour):
            now = torch.cat([tensor[row, robot] for tensor in (state.pose, state.velocity_water)]).tolist()
            now += [*state.velocity_ground[row, robot].tolist(), *state.thrust[row, robot].tolist()]
            time, onset = state.steps[row].item() * seconds, episode.onset[robot]
            speed = math.hypot(*episode.velocity[robot][:2])
            full = parameters.vessel.max_thrust_rate.expand(scenario.robot_mask.shape)[row, robot].item()
            expected = oracle.rates(
                name,
                time,
                onset,
                now,
                tuple(episode.goal[robot]),
                episode.heading[robot],
                speed,
                oracle_vessel(episode, robot),
                full,
            )
            assert rates[row, robot].tolist() == pytest.approx(expected, rel=1e-6, abs=1e-6), name
            phases.add((name, time >= onset, time >= onset + 8.0))
    assert len(phases) == 3 * len(BEHAVIOURS)


def test_vessels_steer_with_the_distance_of_their_thrusters() -> None:
    """Not with the width of the hull, where the two differ."""
    episode = replace(random_episode(random.Random(3), 2, 0, 0), behaviour=["act_late", "turn_wrong"], onset=[0.0, 0.0])
    apart = replace(episode.world.vessel, width=1.0, actuators=ActuatorConfig(spacing=2.5))
    wide = replace(episode.world.vessel, width=2.5, actuators=ActuatorConfig(lag=1.0))
    rates = []
    for vessel in (apart, wide, replace(wide, width=1.0)):
        world = replace(episode.world, vessel=replace(vessel, m=400.0, max_thrust_rate=1e6))
        scenario, parameters, _ = stack_episodes([replace(episode, world=world)], CPU, DOUBLE)
        state = drawn_state(scenario, random.Random(4))
        rates.append(behaviour_rates(state, scenario, parameters, 0.5))
    assert torch.equal(rates[0], rates[1]) and not torch.equal(rates[0], rates[2])


def behaving(name: str, onset: float = 5.0, weather: bool = False, **options: Any) -> tuple[Tensor, Tensor]:
    """Poses and thrusts [T + 1, ...] of a vessel that heads north at 2 m/s, for 50 steps; another one is far off."""
    episode = simple_episode([(200.0, 200.0, 0.0), (0.0, 0.0, 0.0)], [(300.0, 300.0), (120.0, 0.0)], sensor=QUIET)
    world = replace(episode.world, weather=replace(MODERATE_WEATHER, delay=2)) if weather else episode.world
    episode = replace(
        episode,
        velocity=[[0.0] * 3, [2.0, 0.0, 0.0]],
        behaviour=["", name],
        onset=[0.0, onset],
        world=world,
    )
    env = MarineNavEnv(world, scenarios=[episode], dtype=DOUBLE, **options)
    td = env.reset()
    poses, thrusts = [env.state.pose[0, 1]], [env.state.thrust[0, 1]]
    for _ in range(50):
        assert td[MASK].tolist() == [[True, False]]
        td = env.step(td.set(ACTION, torch.full_like(env.action_spec.zero()[ACTION], 1.0)))["next"]
        td = td.exclude(("robots", "reward"))
        poses.append(env.state.pose[0, 1])
        thrusts.append(env.state.thrust[0, 1])
    return torch.stack(poses), torch.stack(thrusts)


@pytest.mark.heavy
@pytest.mark.parametrize("name", BEHAVIOURS)
@pytest.mark.parametrize("weather", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_vessel_keeps_course_and_speed_until_the_onset(name: str, weather: bool) -> None:
    """It goes 2 m/s north for 5 s, in wind and waves too, and then does something else unless it keeps on."""
    poses, _ = behaving(name, weather=weather)
    straight = torch.stack([torch.tensor([float(k), 0.0, 0.0], dtype=DOUBLE) for k in range(51)])
    off = (poses[:, :2] - straight[:, :2]).norm(dim=-1) + wrap_to_pi(poses[:, 2]).abs()
    assert off[:11].max() < 1e-9
    assert (off[-1] > 1.0) == (name not in ("keep", "see_nothing"))


@pytest.mark.heavy
def test_what_vessels_do_after_the_onset() -> None:
    late, wrong = behaving("act_late")[0], behaving("turn_wrong")[0]
    # Starboard is where y (east) grows for a vessel that heads north.
    assert late[26, 1] > 5.0 and math.radians(55.0) < late[15:27, 2].mean() < math.radians(65.0)
    assert wrap_to_pi(late[-1, 2]) < 0.0  # back to its goal
    torch.testing.assert_close(wrong[:, :2], late[:, :2] * torch.tensor([1.0, -1.0], dtype=DOUBLE))
    stopped = behaving("stop")[0]
    assert (stopped[20:, :2] - stopped[20, :2]).norm(dim=-1).max() < 0.5
    faster = behaving("speed_up")[0]
    assert faster[-1, 0] - faster[-2, 0] > 1.5 and faster[-1, 1].abs() < 1e-6
    (left, thrust), right = behaving("lose_left"), behaving("lose_right")[0]
    assert thrust[11:, 0].abs().max() < 1e-6 and (thrust[11:, 1] == thrust[10, 1]).all()
    turned = wrap_to_pi(left[14, 2]).item()
    assert turned < -0.3 and wrap_to_pi(right[14, 2]).item() == pytest.approx(-turned)


@pytest.mark.heavy
def test_a_vessel_that_sees_nothing_goes_to_its_goal_from_the_start() -> None:
    episode = simple_episode([(200.0, 200.0, 0.0), (0.0, 0.0, 0.5)], [(300.0, 300.0), (40.0, 0.0)], sensor=QUIET)
    episode = replace(episode, behaviour=["", "see_nothing"], onset=[0.0, 0.0])
    env = MarineNavEnv(scenarios=[episode])
    td = env.reset()
    for _ in range(60):
        td = env.step(td.set(ACTION, env.action_spec.zero()[ACTION]))["next"].exclude(("robots", "reward"))
    assert env.state.arrived.tolist() == [[False, True]]


def of_level(level: Level, **options: Any) -> MarineNavEnv:
    curriculum = Curriculum((level,), pool_size=16, refresh_size=8, refresh_interval=4)
    return MarineNavEnv(WorldConfig(max_steps=30), 16, scenarios=curriculum, seed=0, **options)


@pytest.mark.heavy
def test_keeping_on_is_what_scripted_vessels_did_before_there_were_behaviours() -> None:
    """Bit for bit."""
    old, new = (of_level(Level(3, 0, 0, 0.0, encounter=True, traffic=0.6)) for _ in range(2))
    now, parameters = new.world_state
    pool = new.reset_pool.states
    for part in (now, pool):
        part.scenario.behaviour = torch.zeros_like(part.scenario.robot_mask, dtype=torch.int64)
        part.scenario.onset = torch.zeros_like(part.scenario.heading)
    for ours, theirs in zip(play(new, 12), play(old, 12), strict=True):
        assert equal(ours, theirs)
    assert parameters is not None


def test_vessels_without_two_thrusters_cannot_misbehave() -> None:
    """But may keep course and speed."""
    rudder = WorldConfig(vessel=VesselConfig(actuators=ActuatorConfig(steering="rudder", rudder_lift=50.0)))

    def made(name: str) -> MarineNavEnv:
        level = Level(2, 0, 0, 0.0, encounter=True, unruly=1.0, behaviours=(name,))
        return MarineNavEnv(rudder, 2, scenarios=Curriculum((level,), pool_size=8, refresh_size=8), seed=0)

    assert made("keep").scenario.behaviour is not None
    with pytest.raises(ConfigError, match=r"^world\.vessel\.actuators\.steering='\.\.\.': must be thrusters for"):
        made("stop")


def test_vessels_that_are_controlled_keep_the_thrust_of_their_file() -> None:
    one: Episode = simple_episode([(0.0, 0.0, 0.0), (30.0, 0.0, 0.0)], [(50.0, 0.0), (80.0, 0.0)])
    one = replace(one, velocity=[[1.0, 0.0, 0.0]] * 2, thrust=[[100.0, 50.0]] * 2)
    env = MarineNavEnv(scenarios=[replace(one, behaviour=["", "keep"], onset=[0.0, 0.0])])
    assert env.state.thrust[0].tolist() == [[100.0, 50.0], [125.0, 125.0]]


def test_vessels_among_others_that_are_controlled_keep_the_thrust_of_their_file() -> None:
    """Whatever the other episodes are: a vessel that starts without thrust slows down at first."""
    alone = replace(simple_episode([(0.0, 0.0, 0.0)], [(50.0, 0.0)]), velocity=[[1.0, 0.0, 0.0]])
    other = replace(alone, behaviour=["keep"], onset=[0.0])
    for given in ([alone], [alone, other]):
        assert MarineNavEnv(scenarios=given).state.thrust[0].tolist() == [[0.0, 0.0]]
