"""The scalar oracle against hand-computed values and against recorded noise-free episodes."""

import copy
import math
import random
from typing import Any

import numpy as np
import pytest

from tests.marinenav_env.helpers import recordings
from tests.oracle import angles, dynamics, episode, reward, scenario
from tests.oracle.colregs import turn_angle
from tests.oracle.contact import touches
from tests.oracle.current import current_at
from tests.oracle.perception import NO_NOISE, Robot, Sensor, observe

RECORDED = {key: (entry["config"], arrays) for key, (entry, arrays) in recordings().items()}
"""Config and arrays of every recorded episode by key."""
TOLERANCE = 1e-8

close = pytest.approx


def vessel_at(x: float, y: float, theta: float = 0.0, vx: float = 0.0, vy: float = 0.0) -> Robot:
    """A vessel moving over ground with (vx, vy), its goal at the origin."""
    return Robot([x, y, theta, 0.0, 0.0, 0.0, vx, vy, 0.0, 0.0, 0.0], (0.0, 0.0))


def test_wrap_is_half_open() -> None:
    assert angles.wrap_two_pi(-1e-17) == 0.0
    assert angles.wrap_two_pi(2.0 * math.pi) == 0.0
    assert angles.wrap_two_pi(-math.pi / 2.0) == close(1.5 * math.pi)
    assert angles.wrap_pi(math.pi) == -math.pi
    assert angles.wrap_pi(1.5 * math.pi) == close(-math.pi / 2.0)


def test_current_of_one_core() -> None:
    core = (0.0, 0.0, True, math.pi)
    assert current_at(2.0, 0.0, [core], 0.5) == close((0.0, -0.25))  # pi / (2 pi 2)
    assert current_at(0.0, 2.0, [core], 0.5) == close((0.25, 0.0))
    assert current_at(0.25, 0.0, [core], 0.5) == close((0.0, -0.5))  # half the edge speed of 1
    assert current_at(0.5, 0.0, [core], 0.5) == close((0.0, -1.0))
    assert current_at(0.0, 0.0, [core], 0.5) == (0.0, 0.0)


def test_mass_matrix_is_inverted_in_full() -> None:
    params = dynamics.VesselParams(
        m=10.0,
        Izz=5.0,
        xDotU=-2.0,
        yDotV=-4.0,
        yDotR=-1.0,
        nDotV=-3.0,
        nDotR=-6.0,
        length=4.0,
        left_angle=math.pi / 2.0,
    )
    # M = [[12, 0, 0], [0, 14, 1], [0, 3, 11]], tau = [0, 1, -2]
    still = (0.0, 0.0, 0.0)
    got = dynamics.acceleration(params, still, still, (1.0, 0.0))
    assert got == close([0.0, 13.0 / 151.0, -31.0 / 151.0])


def test_every_hydrodynamic_coefficient_enters() -> None:
    params = dynamics.VesselParams(
        yDotV=-4.0,
        yDotR=-1.0,
        yR=-1.0,
        yRV=-2.0,
        yVR=-3.0,
        yRR=-4.0,
        nV=-5.0,
        nVV=-6.0,
        nRV=-7.0,
        nVR=-8.0,
    )
    velocity = [0.0, 1.0, 2.0]
    linear = dynamics.product(dynamics.linear_damping(params), velocity)
    quadratic = dynamics.product(dynamics.nonlinear_damping(params, *velocity), velocity)
    coriolis = dynamics.product(dynamics.added_mass_coriolis(params, *velocity), velocity)
    assert linear == close([0.0, 102.0, 1965.0])
    assert quadratic == close([0.0, 176.0, 3836.0])
    assert coriolis == close([-12.0, 0.0, 0.0])


def test_observation_noise() -> None:
    robots = [vessel_at(0.0, 0.0), vessel_at(10.0, 0.0, 0.0, 1.0, 0.0)]
    noise = [NO_NOISE, (1.0, -2.0, 3.0, -4.0, -math.pi / 2.0)]
    _, objects, _ = observe(0, robots, [], Sensor(), noise)
    assert objects[0] == close([10.05, -0.1, 1.15, -0.2, 0.7 * robots[1].radius])
    obstacle_noise = [(0.0, 0.0, 2.0, 0.0, math.pi), NO_NOISE]
    _, objects, _ = observe(0, robots[:1], [(5.0, 0.0, 2.0)], Sensor(), obstacle_noise)
    assert objects[0] == close([5.0, 0.0, 0.1, 0.0, 2.0])  # 0.8 r + 0.2 r


def test_range_sector_activity_and_count() -> None:
    quiet = Sensor(pos_std=0.0, vel_std=0.0, r_mean_ratio=1.0)
    ego = [vessel_at(0.0, 0.0)]
    assert sum(observe(0, ego, [(21.0, 0.0, 1.0), (21.1, 0.0, 1.0)], quiet)[2]) == 1
    half = Sensor(angle=math.pi, pos_std=0.0, vel_std=0.0, r_mean_ratio=1.0)
    assert sum(observe(0, ego, [(0.1, -5.0, 1.0), (-0.1, -5.0, 1.0)], half)[2]) == 1
    crowd = [(0.0, float(y), 1.0) for y in range(10, 3, -1)]
    assert [o[1] for o in observe(0, ego, crowd, quiet)[1]] == [4.0, 5.0, 6.0, 7.0, 8.0]
    pair = [*ego, vessel_at(3.0, 0.0)]
    assert any(observe(0, pair, [], quiet)[2])
    pair[1].active = False
    assert not any(observe(0, pair, [], quiet)[2])


def test_contact_is_a_matter_of_distance_alone() -> None:
    ego = vessel_at(0.0, 0.0)
    assert touches(0, [ego], [(0.0, ego.radius + 1.0, 1.0)])
    assert not touches(0, [ego], [(0.0, ego.radius + 1.01, 1.0)])
    pair = [ego, vessel_at(5.5, 0.0)]
    assert touches(0, pair, []) and touches(1, pair, [])
    pair[1].active = False
    assert not touches(0, pair, []) and not touches(1, pair, [])


def test_colregs_head_on() -> None:
    # b = 4 at 10 m, and an own radius as long as the tangent sqrt(84)
    objects, own_radius = [[10.0, 0.0, -2.0, 0.0, 3.0]], math.sqrt(84.0)
    applies, phi = turn_angle(objects, [True], (2.0, 0.0), own_radius)
    assert applies and phi == close(math.asin(0.4) + math.pi / 4.0)
    assert turn_angle(objects, [False], (2.0, 0.0), own_radius) == (False, 0.0)
    assert turn_angle(objects, [True], (0.49, 0.0), own_radius) == (False, 0.0)
    assert turn_angle([[10.0, 0.0, -0.49, 0.0, 3.0]], [True], (2.0, 0.0)) == (False, 0.0)
    assert turn_angle([[17.1, 0.0, -2.0, 0.0, 3.0]], [True], (2.0, 0.0)) == (False, 0.0)


def test_colregs_crossing() -> None:
    from_starboard = [5.0, 5.0, 0.0, -2.0, 4.0]  # b = 5, the tangent is 5 m long
    applies, phi = turn_angle([from_starboard], [True], (2.0, 0.0), 5.0)
    assert applies and phi == close(0.75 * math.pi)
    from_port = [5.0, -5.0, 0.0, 2.0, 4.0]
    assert turn_angle([from_port], [True], (2.0, 0.0), 5.0) == (False, 0.0)
    behind_the_line = [1.0, 11.0, 0.0, -2.0, 0.0]  # (11, -1) in the object's frame is cut off
    assert turn_angle([behind_the_line], [True], (2.0, 0.0), 5.0) == (False, 0.0)


def test_colregs_goes_on_to_the_next_object() -> None:
    later = [5.0, 5.0, 0.0, -2.0, 4.0]  # a crossing with asin(b / |p|) = pi / 4
    # Both are head-on, but the first is within its margin and the second asks for a turn to port.
    within_margin, to_port = [3.0, 0.0, -2.0, 0.0, 2.5], [2.0, -4.0, -2.0, 0.0, 0.0]
    for first in (within_margin, to_port):
        assert turn_angle([first], [True], (2.0, 0.0), 0.0) == (False, 0.0)
        applies, phi = turn_angle([first, later], [True, True], (2.0, 0.0), 0.0)
        assert applies and phi == close(math.pi / 2.0)


def test_reward_and_endings() -> None:
    assert reward.reward(10.0, 9.0, 0.5, False, False) == close(0.85)
    assert reward.reward(10.0, 9.0, 0.5, True, False) == close(-4.15)
    assert reward.reward(10.0, 9.0, 0.5, False, True) == close(10.85)
    assert reward.reward(10.0, 9.0, 0.5, True, True) == close(-4.15)
    assert reward.endings(False, False, 999) == reward.Ending(False, False)
    assert reward.endings(False, False, 1000) == reward.Ending(False, True)
    assert reward.endings(False, True, 1000) == reward.Ending(True, False)
    assert not reward.episode_over([True, False], [True, False])
    assert reward.episode_over([True, False], [True, False], evaluation=True)
    assert reward.episode_over([True, True], [False, False])


BUSY = scenario.Level(5, 8, 4, 40.0)


@pytest.mark.parametrize("level", [*scenario.LEVELS.values(), BUSY])
def test_sampled_scenarios_are_valid(level: scenario.Level) -> None:
    rng = random.Random(0)
    for _ in range(20):
        drawn = scenario.sample(level, rng)
        assert scenario.check(drawn, level) == []
        assert len(drawn["starts"]) == level.robots


def test_budget_leaves_fewer_than_asked() -> None:
    crowded = scenario.Level(100, 100, 1000, 40.0)
    drawn = scenario.sample(crowded, random.Random(0))
    assert 0 < len(drawn["starts"]) < 100
    assert 0 < len(drawn["cores"]) < 100
    assert len(drawn["obstacles"]) < 1000
    assert scenario.check(drawn, crowded) == []
    assert scenario.sample(crowded, random.Random(0), scenario.ScenarioParams(budget=0))["starts"] == []


FULL = 3.0 * math.pi  # circulation of the default edge speed


@pytest.mark.parametrize(
    ("name", "value", "violation"),
    [
        ("starts", [(5.0, 5.0), (5.0, 14.0)], "starts 0 and 1 within"),
        ("starts", [(1.0, 5.0), (5.0, 50.0)], "start 0 outside"),
        ("goals", [(50.0, 5.0), (50.0, 14.0)], "goals 0 and 1 within"),
        ("goals", [(44.0, 5.0), (50.0, 50.0)], "robot 0: goal too near"),
        ("goals", [(50.0, 5.0), (54.0, 50.0)], "goal 1 outside"),
        ("headings", [0.0, 2.0 * math.pi], "heading 1"),
        ("headings", [0.0], "differ in number"),
        ("cores", [(0.4, 27.0, True, FULL)], "core 0 leaves"),
        ("cores", [(5.0, 15.0, True, FULL)], "core 0 too near start or goal 0"),
        ("cores", [(27.0, 27.0, True, 1.1 * FULL)], "core 0: edge speed"),
        ("cores", [(27.0, 27.0, True, FULL), (27.0, 29.9, True, FULL)], "cores 0 and 1 clash"),
        ("cores", [(27.0, 27.0, True, FULL), (27.0, 28.6, False, FULL)], "cores 0 and 1 clash"),
        ("cores", [(20.0 + 5.0 * i, 27.0, True, FULL) for i in range(3)], "3 cores, 2 asked"),
        ("obstacles", [(27.0, 4.0, 1.0)], "obstacle 0 outside"),
        ("obstacles", [(27.0, 27.0, 1.1)], "obstacle 0: radius"),
        ("obstacles", [(5.0, 15.9, 1.0)], "obstacle 0 too near start or goal 0"),
        ("obstacles", [(27.0, 27.0, 1.0), (27.0, 28.9, 1.0)], "obstacles 0 and 1 touch"),
        ("obstacles", [(35.0, 27.0, 1.0)], "obstacle 0 touches core 0"),
    ],
)
def test_check_names_the_violation(name: str, value: list[Any], violation: str) -> None:
    valid: scenario.Scenario = {
        "starts": [(5.0, 5.0), (5.0, 50.0)],
        "goals": [(50.0, 5.0), (50.0, 50.0)],
        "headings": [0.0, 1.0],
        "cores": [(36.0, 27.0, True, FULL)],
        "obstacles": [(27.0, 27.0, 1.0), (20.0, 27.0, 1.0)],
    }
    level = scenario.Level(2, 2, 2, 40.0)
    assert scenario.check(valid, level) == []
    found = scenario.check({**valid, name: value}, level)
    assert any(violation in text for text in found), found


@pytest.mark.parametrize("key", RECORDED)
def test_replay_of_recording(key: str) -> None:
    config, expected = RECORDED[key]
    got = episode.replay(config, expected["action"])
    assert set(got) == set(expected) - {"action"}
    errors = episode.largest_errors(got, expected)
    assert all(error <= TOLERANCE for error in errors.values()), errors


def test_recordings_cover_the_world() -> None:
    configs = [config for config, _ in RECORDED.values()]
    arrays = [a for _, a in RECORDED.values()]
    assert {3, 5, 6} <= {config["env"]["num_robots"] for config in configs}
    assert any(config["env"]["cores"]["positions"] for config in configs)
    assert any(config["env"]["obstacles"]["positions"] for config in configs)
    assert {a["action"].ndim for a in arrays} == {2, 3}
    for flag in ("collision", "reach_goal", "colregs"):
        assert any(a[flag].any() for a in arrays)


def test_truncated_robot_is_done_but_not_deactivated() -> None:
    config, expected = RECORDED["ep016"]
    got = episode.replay(config, expected["action"][:4], max_steps=2)
    assert got["done"].all(axis=1).tolist() == [False, True, True, True]
    assert not got["deactivated"].any()
    assert (got["state"][2] == got["state"][4]).all()
    assert not got["reward"][2:].any() and not got["self_obs"][3:].any()


def test_detected_radius_and_power_are_per_robot() -> None:
    config, expected = RECORDED["ep100"]
    changed = copy.deepcopy(config)
    changed["robots"]["detect_r"][1] = 1.0
    changed["robots"]["power_coefficient"][1] = 2.0
    got = episode.replay(changed, expected["action"])
    assert (got["objects"][0, :, 0, 4] == [1.0, config["robots"]["detect_r"][0]]).all()
    assert (got["collision"] == expected["collision"]).all()
    assert got["energy"] == close(expected["energy"] * [1.0, 2.0])


def test_replay_takes_noise() -> None:
    config, expected = RECORDED["ep100"]
    noisy = copy.deepcopy(config)
    noisy["robots"]["perception"]["pos_std"] = [0.05, 0.05]
    got = episode.replay(noisy, expected["action"], lambda t, i: [(t, 0.0, 0.0, 0.0, 0.0)] * 2)
    shift = np.hypot(*(got["objects"] - expected["objects"])[1, 0, 0, :2])
    assert shift == close(0.05)
    assert got["state"] == close(expected["state"])
