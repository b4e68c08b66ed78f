"""Actuators and hull terms: against the oracle, and in the world."""

from dataclasses import fields, replace

import pytest
import torch

from marinenav_env import Curriculum, Level, MarineNavEnv, WorldConfig
from marinenav_env.config import HULL_TERMS, STEERING_TYPES, ActuatorConfig, VesselConfig
from marinenav_env.physics.actuators import cross_flow_drag, move_vessels, propulsive_thrust, steady_setpoint
from marinenav_env.scenarios.parameters import build_parameters
from tests.marinenav_env.helpers import CPU, drawn, of_robot, oracle_cores, oracle_states, oracle_vessel, random_world
from tests.oracle import actuators as oracle

DOUBLE = torch.float64
BOUNDS = {
    "lag": (0.0, 1.0),
    "speed_exponent": (0.4, 1.2),
    "dead_band": (0.0, 0.4),
    "left_limit": (0.5, 1.0),
    "right_limit": (0.5, 1.0),
    "left_strength": (0.0, 1.0),
    "right_strength": (0.0, 1.2),
    "spacing": (0.5, 3.0),
    "position": (-3.0, -0.5),
    "angle_limit": (0.2, 2.0),
    "angle_rate": (0.2, 3.0),
    "rudder_lift": (0.0, 30.0),
    "propeller_diameter": (0.1, 0.4),
}
HULL_BOUNDS = {
    "xUUU": (-20.0, 0.0),
    "yVVV": (-20.0, 0.0),
    "nRRR": (-200.0, 0.0),
    "nUV": (-50.0, 50.0),
    "cross_flow": (0.0, 100.0),
    "cross_flow_length": (3.0, 6.0),
    "single_rotation": (0.0, 1.0),
}


def with_extras(world, rng):
    """A world with actuators and hull terms of every robot."""
    robots = len(world.vessel.m)
    kinds = tuple(rng.choice(STEERING_TYPES) for _ in range(robots))
    # Some numbers are those that switch a part off.
    off = {"lag": 0.0, "spacing": 0.0, "position": 0.0, "propeller_diameter": 0.0, "cross_flow_length": 0.0}
    numbers, terms = drawn(rng, BOUNDS, robots), drawn(rng, HULL_BOUNDS, robots)
    for group in (numbers, terms):
        for name in group.keys() & off.keys():
            group[name] = tuple(off[name] if rng.random() < 0.3 else number for number in group[name])
    return replace(world, vessel=replace(world.vessel, **terms, actuators=ActuatorConfig(steering=kinds, **numbers)))


@pytest.fixture(scope="module")
def driven():
    """A random world whose vessels have actuators, with their state."""
    world = random_world(2, [(4, 0, 2), (3, 0, 3), (4, 0, 0)] * 4, size=12.0, inactive=0.0, changed=with_extras)
    generator = torch.Generator().manual_seed(3)
    state = world.state.clone()
    state.actuator = 2.0 * torch.rand(*state.active.shape, 2, generator=generator, dtype=DOUBLE) - 1.0
    return world, state, generator


def actuators_of(vessel, robot):
    names = [item.name for item in fields(ActuatorConfig)]
    numbers = {name: of_robot(getattr(vessel.actuators, name), robot) for name in names}
    return oracle.Actuators(**numbers, **{name: of_robot(getattr(vessel, name), robot) for name in HULL_TERMS})


def test_a_control_step_equals_the_oracle(driven):
    world, state, generator = driven
    rates = 4000.0 * torch.rand(*state.thrust.shape, generator=generator, dtype=DOUBLE) - 2000.0
    force = 100.0 * torch.randn(3, *state.active.shape, generator=generator, dtype=DOUBLE)
    config = world.episodes[0].world
    moved = move_vessels(
        state, rates, world.scenario, world.parameters, config.dt, config.substeps, (force[0], force[1], force[2])
    )
    got = torch.cat((moved.pose, moved.velocity_water, moved.velocity_ground, moved.thrust), -1)
    kinds = set()
    for e, episode in enumerate(world.episodes):
        before = oracle_states(state[e])
        for i in range(len(episode.start)):
            actuators = actuators_of(episode.world.vessel, i)
            expected, actual = oracle.control_step(
                before[i],
                state.actuator[e, i].tolist(),
                oracle_vessel(episode, i),
                actuators,
                tuple(rates[e, i].tolist()),
                oracle_cores(episode),
                episode.world.scenario.core_radius,
                force[:, e, i].tolist(),
            )
            kinds.add(actuators.steering)
            assert got[e, i].tolist() == pytest.approx(expected, rel=1e-5, abs=1e-4)  # strips of the oracle
            assert moved.actuator[e, i].tolist() == pytest.approx(actual, abs=1e-10)
    assert kinds == set(STEERING_TYPES)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_cross_flow_is_continuous_and_equals_strips(dtype):
    sway = torch.tensor([0.0, 1.0, -1.0, 0.3, -0.3, 1e-9, 0.5, 0.5000001, -2.0], dtype=dtype)
    rate = torch.tensor([0.0, 0.0, 0.1, 0.5, -0.8, 1.0, 0.5, 0.5, 1e-12], dtype=dtype)
    force, moment = cross_flow_drag(sway, rate, torch.tensor(10.0, dtype=dtype), torch.tensor(2.0, dtype=dtype))
    x = torch.linspace(-1.0, 1.0, 20_001, dtype=torch.float64)
    speed = sway.double()[:, None] + x * rate.double()[:, None]
    drag = -10.0 * speed.abs() * speed
    torch.testing.assert_close(force.double(), torch.trapezoid(drag, x), atol=2e-5, rtol=2e-5)
    torch.testing.assert_close(moment.double(), torch.trapezoid(x * drag, x), atol=2e-5, rtol=2e-5)


def test_the_cross_flow_of_nearly_no_motion_is_finite():
    tiny = torch.logspace(-44, 0, 89).repeat(3)
    for sway, rate in ((tiny, tiny.flip(0)), (0.0 * tiny, tiny), (tiny, 0.0 * tiny), (-tiny, tiny), (tiny, tiny)):
        force, moment = cross_flow_drag(sway, rate, torch.tensor(100.0), torch.tensor(2.1))
        assert force.isfinite().all() and moment.isfinite().all()


def test_only_thrusts_count_as_energy_and_as_steady_setpoints():
    config = VesselConfig(xUUU=-10.0, actuators=ActuatorConfig(steering=("thrusters", "azimuth"), lag=1.0))
    parameters, _ = build_parameters([WorldConfig(vessel=config)], 2, CPU, DOUBLE)
    setpoint = torch.tensor([[[3.0, 4.0], [5.0, 6.0]]], dtype=DOUBLE)
    assert propulsive_thrust(setpoint, parameters.extras).tolist() == [[[3.0, 4.0], [5.0, 0.0]]]
    assert propulsive_thrust(setpoint, None) is setpoint
    velocity = torch.tensor([[[2.0, 0.0, 0.0]] * 2], dtype=DOUBLE)
    drag = 100.0 * 2 + 150.0 * 4 + 10.0 * 8
    got = steady_setpoint(velocity, parameters.vessel, parameters.extras)
    assert got.tolist() == [[[drag / 2, drag / 2], [drag, 0.0]]]


def make(world, level, envs, seed):
    """An environment of one level, with a small reset pool."""
    return MarineNavEnv(world, num_envs=envs, scenarios=Curriculum((level,), pool_size=64), seed=seed)


def test_scripted_vessels_have_ideal_actuators():
    actuators = ActuatorConfig(left_strength=0.0, lag=1.0, dead_band=0.5)
    world = WorldConfig(vessel=VesselConfig(actuators=actuators, single_rotation=1.0))
    env = make(world, Level(2, 0, 0, 0.0, encounter=True, traffic=1.0), 3, 2)
    td = env.reset()
    scripted = env.scenario.scripted
    assert scripted.any()
    speed = env.state.velocity_water[scripted].clone()
    for _ in range(4):
        td["robots", "action"] = torch.zeros(3, 2, 2)
        td = env.step_mdp(env.step(td))
    torch.testing.assert_close(env.state.velocity_water[scripted], speed, atol=1e-4, rtol=1e-4)


def test_thruster_faults_are_drawn_for_single_robots():
    level = Level(5, 0, 0, 10.0, thruster_fault=0.5)
    env = make(WorldConfig(), level, 64, 3)
    extras = env.constants.extras
    weak = (extras.left_strength < 1.0) | (extras.right_strength < 1.0)
    assert 0.4 < weak.double().mean() < 0.6
    assert not ((extras.left_strength < 1.0) & (extras.right_strength < 1.0)).any()
    torch.testing.assert_close(extras.spacing, torch.full_like(extras.spacing, 2.5))
    again = make(WorldConfig(), level, 64, 3).constants.extras
    assert torch.equal(extras.left_strength, again.left_strength)
