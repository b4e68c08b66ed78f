"""Situations of other programs, and what their scaling keeps."""

import math
from dataclasses import replace
from itertools import combinations

import pytest
import torch

from marinenav_env import ConfigError, MarineNavEnv, WorldConfig
from marinenav_env.scenarios.reading import packaged_situations
from marinenav_env.scenarios.situations import (
    Ship,
    Situation,
    count_turns,
    goal_after_track,
    scaled_episode,
    similarity_factors,
    time_to_closest_approach,
    waypoints_ahead,
)
from marinenav_env.vessels import scaled_world, top_speed, vessel_files

WORLD = WorldConfig()
ALL = [*packaged_situations("dnv"), *packaged_situations("imazu_ntnu")]


def ships_of(episode):
    """The ships of an episode, to scale."""
    columns = episode.start, episode.heading, episode.velocity, episode.goal
    return [
        Ship(tuple(start), heading, math.hypot(*velocity[:2]), tuple(goal))
        for start, heading, velocity, goal in zip(*columns, strict=True)
    ]


def test_scaling_keeps_bearings_courses_and_ratios_and_its_limits():
    for situation in ALL:
        episode = scaled_episode(situation, WORLD)
        lengths, speeds = similarity_factors(situation, WORLD)
        own, *others = scaled = ships_of(episode)
        for a, b in combinations(range(len(scaled)), 2):
            (x, y), (u, v) = (
                [end - start for start, end in zip(some[a].position, some[b].position, strict=True)]
                for some in (situation.ships, scaled)
            )
            assert (u, v) == pytest.approx((lengths * x, lengths * y))
        for ship, other in zip(scaled, situation.ships, strict=True):
            assert (ship.course, ship.speed) == (other.course, pytest.approx(speeds * other.speed))
        times = [time_to_closest_approach(own, other) for other in others]
        before = [time_to_closest_approach(situation.ships[0], other) for other in situation.ships[1:]]
        assert times == pytest.approx([lengths / speeds * time for time in before])
        near = min(math.dist(own.position, other.position) for other in others)
        least = min(math.dist(a.position, b.position) for a, b in combinations(scaled, 2))
        assert min(times) >= 12.0 and least >= 9.99
        assert (2.0 * min(times)) % 1.0 == pytest.approx(0.5)  # between two control steps
        # Either all are far enough, or the last meeting is as late as it may be, or two would be too close.
        assert near >= 24.99 or max(times) >= 29.9 or least < 10.8
        fastest = max(ship.speed for ship in others)
        assert own.speed <= 2.0 + 1e-9 and fastest <= 0.9 * top_speed(WORLD.vessel) + 1e-9
        assert own.speed == pytest.approx(2.0) or fastest == pytest.approx(3.0)


def test_goals_are_behind_the_meeting_and_everything_is_on_the_map():
    for situation in ALL:
        episode = scaled_episode(situation, WORLD)
        own, *others = ships_of(episode)
        times = [time_to_closest_approach(own, other) for other in others]
        sides = (episode.world.scenario.width, episode.world.scenario.height)
        for ship, time in zip((own, *others), [max(times), *times], strict=True):
            way = [end - start for start, end in zip(ship.position, ship.goal, strict=True)]
            assert math.hypot(*way) == pytest.approx(ship.speed * time + 20.0)
            turn = math.remainder(math.atan2(way[1], way[0]) - ship.course, 2.0 * math.pi)
            assert turn == pytest.approx(0.0, abs=1e-9)
            for point in (ship.position, ship.goal):
                assert all(10.0 - 1e-9 <= at <= side - 10.0 + 1e-9 for at, side in zip(point, sides, strict=True))


def test_thrust_keeps_the_speed_and_slow_vessels_have_weak_thrusters():
    for situation in ALL:
        episode = scaled_episode(situation, WORLD)
        limits = episode.world.vessel.max_thrust
        limits = limits if isinstance(limits, tuple) else (limits,) * len(episode.start)
        speeds = [math.hypot(*velocity[:2]) for velocity in episode.velocity]
        for speed, (left, right), limit in zip(speeds, episode.thrust, limits, strict=True):
            assert left == right == pytest.approx(50.0 * speed + 75.0 * speed**2)
            assert left <= limit <= 1000.0
            if speed < 0.98 * speeds[0]:
                assert top_speed(replace(WORLD.vessel, max_thrust=limit)) == pytest.approx(1.25 * speed)
            else:
                assert limit == 1000.0


@pytest.mark.heavy
@pytest.mark.parametrize("boat", vessel_files())
def test_vessels_of_every_boat_keep_course_and_speed(boat):
    """Situations are as large, and as fast, as the boats and their worlds."""
    world = scaled_world(boat)
    episodes = [scaled_episode(situation, world) for situation in ALL[::8]]
    fastest = max(math.hypot(*velocity[:2]) for episode in episodes for velocity in episode.velocity)
    assert fastest <= max(0.9 * top_speed(world.vessel), 2.0 * world.scenario.speed_scale) + 1e-6
    gaps = [math.dist(episode.start[0], start) for episode in episodes for start in episode.start[1:]]
    assert min(gaps) >= 10.0 * world.scenario.scale - 1e-6
    env = MarineNavEnv(world, scenarios=episodes, seed=0)
    step, action = env.reset(), torch.zeros(len(episodes), env.num_robots, 2)
    before = env.state
    for _ in range(10):
        step = env.step_mdp(env.step(step.set(("robots", "action"), action)))
    after, there = env.state, env.scenario.robot_mask & env.state.active
    speed, new_speed = (state.velocity_ground[..., :2].norm(dim=-1)[there] for state in (before, after))
    assert torch.allclose(new_speed, speed, atol=0.02 * float(speed.max()))
    assert ((after.pose - before.pose)[..., 2].sin()[there].abs() < 0.02).all()


def crossing(**own):
    """Two ships that meet 1 km ahead of the own one."""
    return Situation(
        "crossing",
        (replace(Ship((0.0, 0.0), 0.0, 10.0), **own), Ship((1000.0, 1000.0), -0.5 * math.pi, 10.0)),
        obstacles=((500.0, -300.0, 50.0),),
    )


def test_obstacles_and_stated_goals_are_scaled_like_the_rest():
    situation = crossing(goal=(3000.0, 100.0))
    lengths, _ = similarity_factors(situation, WORLD)
    episode = scaled_episode(situation, WORLD)
    ((x, y, radius),) = episode.obstacles
    (north, east), *_ = episode.start
    assert (x - north, y - east, radius) == pytest.approx((500.0 * lengths, -300.0 * lengths, 50.0 * lengths))
    assert y - radius >= 10.0
    way = [end - start for start, end in zip(episode.start[0], episode.goal[0], strict=True)]
    assert way == pytest.approx([3000.0 * lengths, 100.0 * lengths])


def test_a_vessel_that_meets_nobody():
    away = Ship((-2000.0, 0.0), math.pi, 10.0)
    episode = scaled_episode(Situation("away", (crossing().ships[0], away)), WORLD)
    assert math.dist(*episode.start) == pytest.approx(25.0)
    alone = Situation("alone", (Ship((0.0, 0.0), 0.0, 5.0, goal=(400.0, 0.0)),))
    episode = scaled_episode(alone, WORLD)
    assert math.dist(episode.start[0], episode.goal[0]) == pytest.approx(40.0)
    still = Situation("still", (Ship((0.0, 0.0), 0.0, 0.0), Ship((50.0, 0.0), 0.0, 0.0)))
    episode = scaled_episode(still, WORLD)
    assert episode.velocity == [[0.0, 0.0, 0.0]] * 2 and math.dist(*episode.start) == pytest.approx(25.0)


def test_vessels_of_the_world_are_kept():
    vessel = replace(WORLD.vessel, m=(400.0, 500.0, 600.0, 700.0), max_thrust=(800.0, 900.0))
    world = replace(WORLD, vessel=vessel)
    episode = scaled_episode(ALL[5], world)  # three ships, the second one slow
    assert episode.world.vessel.m == (400.0, 500.0, 600.0)
    assert episode.world.vessel.max_thrust[0] == 800.0 and episode.world.vessel.max_thrust[2] == 900.0
    assert episode.world.sensor == WORLD.sensor


@pytest.mark.parametrize(
    ("ships", "message"),
    [
        ((Ship((0.0, 0.0), 0.0, 1.0), Ship((0.0, 0.0), 1.0, 1.0)), "two ships start at the same place"),
        (
            (Ship((0.0, 0.0), 0.0, 1.0), Ship((1.0, 0.0), 0.0, 1.0), Ship((1e8, 0.0), 0.0, 1.0)),
            "the map must be at most 1e",
        ),
    ],
)
def test_situations_that_cannot_be_scaled_are_refused(ships, message):
    with pytest.raises(ConfigError, match=message):
        scaled_episode(Situation("odd", ships), WORLD)


def test_courses_and_turns_of_waypoints():
    way = [(0.0, 0.0), (0.5, 0.0), (0.0, 10.0), (10.0, 10.0)]
    assert waypoints_ahead((0.0, 0.0), way) == way[2:] and waypoints_ahead((0.0, 0.0), way[:2]) == []
    back = [(0.0, 0.0), (100.0, 0.0), (50.0, 10.0)]
    assert waypoints_ahead((20.0, 0.0), back) == back[1:] and waypoints_ahead((70.0, 6.0), back[1:]) == back[2:]
    assert [count_turns(way[:end]) for end in (1, 2, 3, 4)] == [0, 0, 1, 2]
    assert count_turns([way[0], way[0], way[3]]) == 0
    assert count_turns([(0.0, 0.0), (5.0, 0.0), (9.0, 0.01)]) == 0
    # A bend of many small turns is one.
    bend = [(100.0 * math.cos(angle), 100.0 * math.sin(angle)) for angle in (0.0, 0.01, 0.02, 0.03)]
    assert count_turns(bend) == 1


def test_places_far_from_the_origin_of_the_map_are_scaled_alike():
    """As the northings of maps, of small vessels whose lengths change little."""
    own, other = Ship((0.0, 0.0), 0.0, 2.0), Ship((40.0, 40.0), -0.5 * math.pi, 2.0)
    shifted = [replace(ship, position=(ship.position[0] + 7e6, ship.position[1] + 3e5)) for ship in (own, other)]
    near, far = (scaled_episode(Situation("x", tuple(ships)), WORLD) for ships in ((own, other), shifted))
    assert far.start == [pytest.approx(point) for point in near.start]


@pytest.mark.parametrize(
    ("points", "goal"),
    [
        ([(0.0, 0.0, 0.0), (50.0, 100.0, 0.0), (75.0, 100.0, 50.0)], (100.0, 50.0)),
        ([(0.0, 0.0, 0.0), (50.0, 100.0, 0.0), (51.0, 100.0, 0.0)], (120.0 + 100.0, 0.0)),  # it rests at its end
        ([(0.0, 0.0, 0.0), (50.0, 100.0, 0.0), (100.0, 0.0, 0.0)], (-220.0, 0.0)),  # a round trip
        ([(0.0, 0.0, 0.0), (9.0, 0.0, 0.0)], (20.0, 0.0)),
    ],
)
def test_goals_of_tracks_are_where_a_vessel_is_not_before_its_end(points, goal):
    assert goal_after_track(points, 20.0) == pytest.approx(goal)
