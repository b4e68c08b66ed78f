"""Levels with vessels and sensors of their own."""

import math
from dataclasses import replace

import pytest
import torch

from marinenav_env import Curriculum, Level, MarineNavEnv, WorldConfig
from marinenav_env.config import MAX_DELAY, MODERATE_WEATHER, SensorConfig
from marinenav_env.physics.weather import WAVE_AMPLITUDE_RATIOS, WAVE_FREQUENCY_RATIOS
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.draws import WEATHER, CounterDraws
from marinenav_env.scenarios.parameters import build_parameters
from marinenav_env.scenarios.varying import ParameterSampler
from marinenav_env.vessels import read_vessel, top_speed

CPU, DOUBLE = torch.device("cpu"), torch.float64
STILL = torch.zeros(1, 1, 3, dtype=DOUBLE)
"""Velocity of vessels at rest (m/s, m/s, rad/s)."""
LEVELS = (Level(3, 0, 0, 30.0), Level(3, 0, 0, 30.0, noise=4.0, vessel_spread=2.0))


def test_mass_and_thrust_are_drawn_by_robot_and_noise_is_scaled_by_level():
    world = WorldConfig(sensor=SensorConfig(pos_std=(0.1, 0.2, 0.3)))
    shared, _ = build_parameters([world], 3, CPU, DOUBLE)
    sampler = ParameterSampler(shared, LEVELS, 3)
    level = torch.arange(2).repeat(300)
    drawn = sampler.sample(level, STILL, RandomSource.from_seed(0, len(level), CPU))
    usual, varied = drawn[level == 0], drawn[level == 1]
    for own, factor in ((usual, 1.0), (varied, 4.0)):
        for name in ("pos_std", "vel_std"):
            got, base = own.sensor.get(name), shared.sensor.get(name)
            torch.testing.assert_close(got, factor * base.expand(got.shape))
    torch.testing.assert_close(usual.vessel.m, shared.vessel.m.expand(300, 3))
    heavy = varied.vessel.m / shared.vessel.m
    strong = varied.vessel.max_thrust / shared.vessel.max_thrust
    torch.testing.assert_close(varied.vessel.Izz, heavy * shared.vessel.Izz)
    torch.testing.assert_close(varied.vessel.min_thrust, strong * shared.vessel.min_thrust)
    for factor in (heavy.log2(), strong.log2()):
        assert factor.abs().max() <= 1.0 and abs(factor.mean()) < 0.1
        assert abs(factor.std() - 3.0**-0.5) < 0.05  # uniform
    both = torch.stack((heavy.flatten(), strong.flatten(), heavy.roll(1, 1).flatten()))
    assert (torch.corrcoef(both) - torch.eye(3)).abs().max() < 0.1
    assert torch.equal(drawn.vessel.xU, shared.vessel.xU.expand(600, 1))


def test_only_the_slow_vessel_is_weaker_ahead():
    shared, _ = build_parameters([WorldConfig()], 3, CPU, DOUBLE)
    usual = Level(3, 0, 0, 0.0, encounter=True, traffic=0.1)
    slow = replace(usual, slow_vessel=True)
    levels = (usual, slow, replace(slow, vessel_spread=2.0))
    level = torch.arange(3).repeat(20)
    drawn = ParameterSampler(shared, levels, 3).sample(level, STILL, RandomSource.from_seed(0, len(level), CPU))
    ahead = drawn.vessel.max_thrust / drawn.vessel.min_thrust
    base = shared.vessel.max_thrust / shared.vessel.min_thrust
    for number, factor in enumerate((1.0, 0.12, 0.12)):
        own = ahead[level == number] / base
        torch.testing.assert_close(own[:, [0, 2]], torch.ones_like(own[:, [0, 2]]))
        torch.testing.assert_close(own[:, 1], torch.full_like(own[:, 1], factor))


@pytest.mark.parametrize("name", ["published", "otter", "cybership2"])
@pytest.mark.parametrize("actuators", [{}, {"left_limit": 0.5, "right_strength": 0.7, "speed_exponent": 0.8}])
def test_only_slower_vessels_have_the_thrust_for_their_speed_and_the_reserve(name, actuators):
    boat = read_vessel(name)
    boat = replace(boat, actuators=replace(boat.actuators, **actuators))
    shared, _ = build_parameters([WorldConfig(vessel=boat)], 4, CPU, DOUBLE)
    usual = Level(4, 0, 0, 0.0, encounter=True, traffic=0.1)
    sampler = ParameterSampler(shared, (usual, replace(usual, speed_reserve=1.25)), 4)
    speed = 0.5 * top_speed(boat) * torch.tensor([1.0, 0.995, 0.5, 1.5], dtype=DOUBLE)
    course = torch.tensor([0.0, 1.0, 2.0, -2.5], dtype=DOUBLE)
    velocity = torch.stack((speed * course.cos(), speed * course.sin(), 0.0 * speed), -1).expand(2, 4, 3)
    drawn = sampler.sample(torch.arange(2), velocity, RandomSource.from_seed(0, 2, CPU)).vessel
    largest = float(shared.vessel.max_thrust)
    enough = float(drawn.max_thrust[1, 2])
    assert top_speed(replace(boat, max_thrust=enough)) == pytest.approx(1.25 * float(speed[2]))
    expected = torch.tensor([[largest] * 4, [largest, largest, enough, largest]], dtype=DOUBLE)
    assert torch.equal(drawn.max_thrust.expand(2, 4), expected)
    assert torch.equal(drawn.min_thrust.expand(2, 4), shared.vessel.min_thrust.expand(2, 4))


def test_episodes_keep_the_parameters_of_their_scenario():
    levels = Curriculum(LEVELS, pool_size=32, refresh_size=8, refresh_interval=2)
    env = MarineNavEnv(WorldConfig(max_steps=5), 16, scenarios=levels, seed=3)
    td, mass, seen = env.reset(), env.constants.vessel.m.clone(), set()
    for _ in range(12):
        is_usual = env.scenario.level == 0
        assert torch.equal((env.constants.vessel.m == 400.0).all(-1), is_usual)
        assert torch.equal(env.constants.sensor.pos_std[:, 0] < 0.1, is_usual)
        td = env.step(env.rand_action(td))["next"]
        over = td["done"].squeeze(-1)
        td = env.maybe_reset(td)
        changed = (env.constants.vessel.m != mass).any(-1)
        assert not (changed & ~over).any()
        mass = env.constants.vessel.m.clone()
        seen |= set(mass.flatten().tolist())
    assert len(seen) > 40


def test_levels_that_do_not_vary_share_the_parameters():
    env = MarineNavEnv(num_envs=2, scenarios=Curriculum(LEVELS[:1]), seed=0)
    assert env.constants.batch_size[0] == 1 and env.state_dict()["constants"] == {}


def test_weather_equals_scalar_code():
    """From the random numbers that are drawn."""
    shared, _ = build_parameters([WorldConfig()], 3, CPU, DOUBLE)
    strengths = (0.0, 0.4, 1.0, 9.0)
    levels = tuple(Level(3, 0, 0, 30.0, weather=each) for each in strengths)
    level = torch.arange(4).repeat(30)
    found = ParameterSampler(shared, levels, 3).sample(level, STILL, RandomSource.from_seed(7, len(level), CPU))
    draws = CounterDraws(RandomSource.from_seed(7, 120, CPU), DOUBLE)
    chance = draws.uniform(WEATHER, (6 + len(WAVE_FREQUENCY_RATIOS),), ()).T.tolist()
    weather = found.weather
    assert weather is not None
    for row, (towards, wind, height, apart, late, missed, *phases) in enumerate(chance):
        got, strength = weather[row], strengths[level[row]]
        direction = 2.0 * math.pi * towards
        speed = 8.0 * strength * wind
        expected = [speed * math.cos(direction), speed * math.sin(direction)]
        assert got.wind.tolist() == pytest.approx(expected)
        expected = [0.4 * strength * height * share for share in WAVE_AMPLITUDE_RATIOS]
        assert got.wave_amplitude.tolist() == pytest.approx(expected)
        expected = [2.0 * math.pi / MODERATE_WEATHER.wave_period * ratio for ratio in WAVE_FREQUENCY_RATIOS]
        assert got.wave_frequency.tolist() == pytest.approx(expected)
        waves = direction + math.radians(30.0) * (2.0 * apart - 1.0)
        assert got.wave_direction.item() == pytest.approx(waves)
        assert got.wave_phase.tolist() == pytest.approx([2.0 * math.pi * each for each in phases])
        assert got.hull_height.item() == MODERATE_WEATHER.hull_height
        most = min(math.floor(strength + 0.5), MAX_DELAY)
        assert got.delay.item() == math.floor(late * (most + 1))
        assert got.missed.item() == pytest.approx(min(0.1 * strength * missed, 1.0))
    assert weather.delay[level == 3].unique().tolist() == [*range(MAX_DELAY + 1)]


def test_calm_levels_have_the_weather_of_the_world():
    own = replace(MODERATE_WEATHER, wind_direction=1.0)
    shared, _ = build_parameters([WorldConfig(weather=own)], 2, CPU, DOUBLE)
    levels = (Level(2, 0, 0, 30.0), Level(2, 0, 0, 30.0, weather=1.0))
    level = torch.arange(2).repeat(10)
    drawn = ParameterSampler(shared, levels, 2).sample(level, STILL, RandomSource.from_seed(0, len(level), CPU))
    assert drawn.weather is not None and shared.weather is not None
    for name, value in shared.weather.items():
        calm, stormy = (drawn.weather.get(name)[level == each] for each in (0, 1))
        assert torch.equal(calm, value.expand(calm.shape)), name
        assert name not in ("wind", "wave_phase") or not torch.isclose(stormy, value).any()
