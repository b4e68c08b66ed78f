"""The order, the slots and the noise of what robots see, which test_world.py compares with the oracle."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from marinenav_env.config import ActuatorConfig, SensorConfig, VesselConfig, WorldConfig
from marinenav_env.scenarios.episode import stack_episodes
from marinenav_env.scenarios.parameters import build_parameters
from marinenav_env.sensing import perception
from marinenav_env.stepping.world import initial_state
from marinenav_env.vessels import read_vessel, scale_of_vessel
from tests.marinenav_env.env_helpers import make
from tests.marinenav_env.helpers import CPU, QUIET, World, random_world, simple_episode

SLOTS = 5


def look(world, noise, slots=SLOTS):
    parameters = world.parameters
    return perception.observe(
        world.state, world.scenario, parameters.vessel, parameters.sensor, world.quantiles, noise, slots
    )


def von_mises_cdf(kappa):
    """Angles and the distribution function there, by the midpoint rule."""
    edges = np.linspace(-np.pi, np.pi, 400_001)
    middle = 0.5 * (edges[1:] + edges[:-1])
    mass = np.exp(kappa * (np.cos(middle) - 1.0))
    return edges, np.concatenate(([0.0], np.cumsum(mass))) / mass.sum()


# Concentration and mean cosine, the ratio of Bessel functions I1 / I0.
KAPPAS = [(0.0, 0.0), (4.0, 0.8635226), (50.0, 0.9899489674), (500.0, 0.9989994990)]


@pytest.mark.parametrize(("kappa", "mean_cosine"), KAPPAS)
def test_quantile_table_is_the_inverse_of_the_distribution_function(kappa, mean_cosine):
    table = perception.von_mises_quantiles([kappa])
    uniform = (torch.arange(1_000_000, dtype=torch.float64) + 0.5) / 1e6
    angle = perception.look_up_quantile(table, torch.tensor(0), uniform)
    edges, cdf = von_mises_cdf(kappa)
    assert np.abs(np.interp(angle.numpy(), edges, cdf) - uniform.numpy()).max() < 1.5e-4
    assert float(angle.cos().mean()) == pytest.approx(mean_cosine, abs=2e-5)
    # The tails weigh most in the second moment.
    variance = float((np.diff(cdf) * (0.5 * (edges[1:] + edges[:-1])) ** 2).sum())
    assert float(angle.square().mean()) == pytest.approx(variance, rel=2e-3)
    assert float((angle + angle.flip(0)).abs().max()) < 1e-6  # symmetric


def test_the_last_quantile_stays_in_the_table():
    table = perception.von_mises_quantiles([1.0, 1.0]).float()
    one = torch.tensor([1.0, 1.0 - 2.0**-24, 0.0])
    got = perception.look_up_quantile(table, torch.tensor(1), one)
    torch.testing.assert_close(got, torch.stack((table[1, -1], table[1, -1], table[1, 0])))


@pytest.mark.parametrize("objects", [3, 64, 90])
def test_the_nearest_come_first_then_by_number(objects):
    """Obstacles around a robot, at whole metres from it, many at the same; radii tell which."""
    generator, range_ = torch.Generator().manual_seed(objects), 20.0
    gaps = (3.0 * torch.randint(9, (3, objects), generator=generator)).tolist()
    radii = [0.5 + number / 128.0 for number in range(objects)]
    sensor = replace(QUIET, range=range_, angle=2.0 * math.pi, max_objects=64)
    episodes = []
    for row in gaps:
        sides = torch.randint(2, (objects,), generator=generator).tolist()
        places = [(gap + radius) * (-1.0) ** side for gap, radius, side in zip(row, radii, sides, strict=True)]
        obstacles = [(x, 0.0, radius) for x, radius in zip(places, radii, strict=True)]
        episodes.append(simple_episode([(0.0, 0.0, 0.0)], [(9.0, 9.0)], obstacles, sensor))
    scenario, parameters, quantiles = stack_episodes(episodes, CPU, torch.float64)
    state = initial_state(scenario, parameters.rules.core_radius)
    world = World(episodes, scenario, parameters, quantiles, state)
    found = look(world, world.noise(0), slots=64)
    for e, row in enumerate(gaps):
        seen = [number for number in range(objects) if row[number] <= range_]
        order = sorted(seen, key=lambda number, row=row: (row[number], number))[:64]
        assert int(found.objects_mask[e, 0].sum()) == len(order)
        assert found.objects_state[e, 0, : len(order), 4].tolist() == [radii[i] for i in order]


@pytest.mark.heavy
def test_many_objects_need_no_table_of_triples():
    """Their number cubed would be 1 GB."""
    world = random_world(0, [(650, 0, 0)], size=2000.0)
    observation = look(world, world.noise(1))
    assert observation.objects_mask.shape == (1, 650, SLOTS)


def test_scales_of_entries_follow_from_length_speed_and_thrust_of_the_boat():
    boat = read_vessel("roboboat")
    ratio = scale_of_vessel(boat)
    own, objects, _ = perception.perception_entries(WorldConfig(vessel=boat))
    assert boat.max_thrust == 35.0 and ratio.length == pytest.approx(1.35 / 5.0)
    assert own.scale == pytest.approx([5.4] * 2 + [2.0 * ratio.speed] * 2 + [1.0 / ratio.time, 35.0, 35.0])
    assert objects.scale == pytest.approx([5.4] * 2 + [2.0 * ratio.speed] * 2 + [0.54])
    # What has no name keeps the published world, whatever its numbers are.
    nameless = WorldConfig(vessel=VesselConfig(length=9.0, max_thrust=0.0, xU=-120.0))
    assert perception.perception_entries(nameless)[0].scale == perception.perception_entries(WorldConfig())[0].scale


def test_numbers_say_which_objects_are_in_the_slots():
    sensor = replace(QUIET, objects_id=True)
    env = make("mixture", config=WorldConfig(sensor=sensor), seed=2)
    step, seen = env.reset(), 0
    for _ in range(20):
        step = env.step(step.set(("robots", "action"), torch.ones(*env.state.active.shape, 2)))["next"]
        observation, state = step["robots", "observation"], env.state
        places = torch.cat((state.pose[..., :2], env.scenario.obstacle_position), 1)
        present = torch.cat((state.active, env.scenario.obstacle_mask), 1)
        for e, r, slot in observation["objects_mask"].nonzero().tolist():
            number = int(observation["objects_id"][e, r, slot]) - 1
            north, east = (places[e, number] - state.pose[e, r, :2]).tolist()
            heading, (x, y) = state.pose[e, r, 2], observation["objects_state"][e, r, slot, :2].tolist()
            there = math.cos(heading) * x - math.sin(heading) * y, math.sin(heading) * x + math.cos(heading) * y
            assert there == pytest.approx((north, east), abs=1e-4)
            seen += number >= state.active.shape[1]
        assert not observation["objects_id"][~observation["objects_mask"]].any()
        assert present.any() and env.entries["objects_id"].kind == "identity"
    assert seen > 20


def test_entries_describe_what_is_observed():
    sensor = SensorConfig(max_objects=(3, 7))
    vessel = VesselConfig(min_thrust=(-400.0, -500.0), max_thrust=(900.0, 1000.0))
    own, objects, mask = perception.perception_entries(WorldConfig(vessel=vessel, sensor=sensor))
    place, speed, thrust = (-1e4, 1e4), (-1e2, 1e2), (-500.0, 1000.0)
    assert (own.name, own.kind, own.shape) == ("self_state", "vector", (7,))
    assert own.limits == (place, place, speed, speed, speed, thrust, thrust)
    assert own.scale == (20.0, 20.0, 2.0, 2.0, 1.0, 1000.0, 1000.0)
    assert (objects.name, objects.kind, objects.shape) == ("objects_state", "objects", (7, 5))
    assert objects.mask == mask.name and all(entry.meaning for entry in (own, objects, mask))
    assert objects.limits == (place, place, speed, speed, place)
    assert objects.scale == (20.0, 20.0, 2.0, 2.0, 2.0)
    assert (mask.name, mask.kind, mask.shape, mask.limits) == ("objects_mask", "mask", (7,), ((0, 1),))
    other = VesselConfig(min_thrust=(-300.0, -600.0), max_thrust=(800.0, 700.0))
    thrust = (-900.0, 1200.0)
    for steering, angle in (("thrusters", thrust), (("thrusters", "rudder"), (-1200.0, 1200.0))):
        boat = replace(other, actuators=ActuatorConfig(steering=steering, lag=0.1))
        drawn = build_parameters([WorldConfig(vessel=boat)], 2, CPU, torch.float64)[0]
        found = perception.with_thrust_limits({own.name: own, mask.name: mask}, drawn.vessel, drawn.extras, 1.5)
        assert found[own.name].limits == (place, place, speed, speed, speed, thrust, angle)
        assert found[mask.name] is mask
