"""Wind, waves, late commands and missed detections: against the oracle, and in the world."""

import math
from dataclasses import replace

import pytest
import torch

from marinenav_env import MarineNavEnv, WorldConfig, write_scenarios
from marinenav_env.config import MODERATE_WEATHER, WeatherConfig
from marinenav_env.physics.weather import build_weather, wave_force, wind_force
from tests.marinenav_env.helpers import CPU, random_world, simple_episode
from tests.oracle import weather as oracle

DOUBLE = torch.float64
STORMS = [
    WeatherConfig(
        wind_speed=3.0 + number,
        wind_direction=number,
        wave_height=0.2 + 0.1 * number,
        wave_period=2.5 + 0.3 * number,
        wave_direction=2.0 * number,
        wave_seed=number,
        hull_height=0.8,
        delay=number % 3,
        missed=0.1,
    )
    for number in range(3)
]


@pytest.fixture(scope="module")
def storm():
    world = random_world(5, [(2, 0, 1)] * len(STORMS), inactive=0.0)
    world.state.steps = torch.arange(len(STORMS)) * 7
    return world, build_weather(STORMS, CPU, DOUBLE)


def test_wind_equals_the_oracle(storm):
    world, weather = storm
    state, vessel = world.state, world.parameters.vessel
    got = torch.stack(wind_force(state.velocity_ground[..., :2], state.pose[..., 2], vessel, weather), -1)
    for e in range(len(STORMS)):
        for i in range(2):
            expected = oracle.wind_force(
                weather.wind[e].tolist(),
                state.velocity_ground[e, i].tolist(),
                float(state.pose[e, i, 2]),
                float(vessel.length[e, i]),
                float(vessel.width[e, i]),
                0.8,
            )
            assert got[e, i].tolist() == pytest.approx(expected, rel=1e-9)


def test_waves_equal_the_oracle(storm):
    world, weather = storm
    pose, vessel, seconds = (world.state.pose, world.parameters.vessel, torch.tensor([0.0, 3.5, 91.0]))
    got = torch.stack(wave_force(pose, seconds.double(), vessel, weather), -1)
    columns = (weather.wave_amplitude, weather.wave_frequency, weather.wave_phase)
    for e in range(len(STORMS)):
        waves = list(zip(*(each[e].tolist() for each in columns), strict=True))
        sizes = [float(each[e, 0]) for each in (vessel.m, vessel.length, vessel.width)]
        expected = oracle.wave_force(
            waves, float(weather.wave_direction[e]), float(seconds[e]), pose[e, 0].tolist(), *sizes
        )
        assert got[e, 0].tolist() == pytest.approx(expected, rel=2e-3, abs=0.05)


def world_of(weather, **options):
    episodes = [
        replace(episode, world=replace(episode.world, weather=each))
        for each in weather
        for episode in [simple_episode([(10, 10, 0), (10, 22, 0)], [(50, 10), (50, 22)], **options)]
    ]
    return MarineNavEnv(WorldConfig(), scenarios=episodes, dtype=DOUBLE, seed=0)


def test_episodes_of_a_file_are_in_the_weather_of_the_world(tmp_path):
    """Files state no weather; episodes with their own keep it."""
    file, episode = tmp_path / "two.json", simple_episode([(5.0, 5.0, 0.0)], [(40.0, 40.0)])
    write_scenarios(file, [episode, episode])
    env = MarineNavEnv(WorldConfig(weather=MODERATE_WEATHER), scenarios=file)
    assert env.constants.weather is not None
    assert torch.equal(env.constants.weather.wind, build_weather([MODERATE_WEATHER] * 2, CPU, torch.float32).wind)
    own = replace(episode, world=replace(episode.world, weather=STORMS[0]))
    env = MarineNavEnv(WorldConfig(weather=MODERATE_WEATHER), scenarios=[own, episode])
    assert torch.equal(
        env.constants.weather.wind, build_weather([STORMS[0], MODERATE_WEATHER], CPU, torch.float32).wind
    )
    assert MarineNavEnv(WorldConfig(), scenarios=file).constants.weather is None


def test_the_world_applies_all_of_it():
    calm = WeatherConfig()
    env = world_of(
        [
            calm,
            replace(calm, delay=2),
            replace(calm, wind_speed=8.0),
            replace(calm, wave_height=0.4),
            replace(calm, missed=1.0),
        ]
    )
    td, thrust, seen = env.reset(), [], []
    for _ in range(4):
        td["robots", "action"] = torch.ones_like(env.rand_action(td)["robots", "action"])
        td = env.step(td)["next"]
        thrust.append(env.state.thrust[:, 0, 0].tolist())
        seen.append(td["robots", "observation", "objects_mask"].any(-1).all(-1).tolist())
    assert [row[1] for row in thrust] == [0.0, 0.0, 500.0, 1000.0] and thrust[0][0] == 500.0
    along = env.state.pose[:, 0, 0].tolist()
    assert along[1] < along[0] < along[2] and along[3] != along[0] == along[4]
    assert seen[0] == [True, True, True, True, False]


def test_waves_have_the_energies_of_a_spectrum():
    """Pierson and Moskowitz: S ~ r^-5 exp(-5/4 r^-4), of frequencies over that of the peak."""
    ratios = (0.7, 0.85, 1.0, 1.2, 1.5, 1.9)
    edges = [0.7, 0.775, 0.925, 1.1, 1.35, 1.7, 1.9]
    energy = [
        ratio**-5 * math.exp(-1.25 * ratio**-4) * (high - low)
        for ratio, low, high in zip(ratios, edges[:-1], edges[1:], strict=True)
    ]
    weather = build_weather([WeatherConfig(wave_height=2.0, wave_period=5.0)], CPU, DOUBLE)
    peak = 2.0 * math.pi / 5.0
    assert weather.wave_frequency[0].tolist() == pytest.approx([peak * each for each in ratios])
    assert weather.wave_amplitude[0].tolist() == pytest.approx(
        [2.0 * math.sqrt(each / sum(energy) / 8.0) for each in energy]
    )
    phases = torch.rand(6, generator=torch.Generator().manual_seed(0)).double()
    torch.testing.assert_close(weather.wave_phase[0], 2.0 * math.pi * phases)
