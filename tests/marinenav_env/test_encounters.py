"""Geometry of encounters, and levels that differ from another."""

import math

import pytest
import torch

from marinenav_env import ConfigError, Curriculum, MarineNavEnv
from marinenav_env.config import Level, ScenarioConfig
from marinenav_env.encounters import SEPARATION, draw_courses, meeting
from marinenav_env.scenario import (
    ENCOUNTER_DISTANCE,
    ENCOUNTER_OFFSET,
    SLOW_COURSE,
    SPEED,
    SPREAD,
    ScenarioSampler,
)

CPU, DOUBLE = torch.device("cpu"), torch.float64


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("robots", [1, 2, 6])
def test_courses_keep_apart(robots: int) -> None:
    courses = draw_courses(torch.ones(100, robots, dtype=torch.bool), seeded(), DOUBLE)
    assert courses.shape == (100, robots) and not courses[:, 0].any()
    apart = (courses[..., None] - courses[:, None]).abs().remainder(2.0 * math.pi)
    apart = torch.minimum(apart, 2.0 * math.pi - apart)[:, *torch.triu_indices(robots, robots, 1)]
    assert (apart >= SEPARATION - 1e-9).double().mean() > 0.95 if robots > 1 else not apart.numel()


def test_two_meet_head_on_and_crossing_from_either_side() -> None:
    course = draw_courses(torch.ones(300, 2, dtype=torch.bool), seeded(), DOUBLE)[:, 1]
    shares = [(course.cos() < -0.9).double().mean()]
    shares += [(side * course.sin() > 0.6).double().mean() for side in (1.0, -1.0)]
    assert all(0.2 < share < 0.5 for share in shares), shares


def test_courses_meet_at_a_point() -> None:
    course = torch.tensor([[0.0, math.pi / 2, math.pi]], dtype=DOUBLE)
    start, goal = meeting(course, torch.tensor([[10.0, 10.0, 5.0]]), 7.0, 30.0)
    expected = torch.tensor([[20.0, 30.0], [30.0, 20.0], [35.0, 30.0]], dtype=DOUBLE)
    torch.testing.assert_close(start[0], expected)
    expected = torch.tensor([[37.0, 30.0], [30.0, 37.0], [23.0, 30.0]], dtype=DOUBLE)
    torch.testing.assert_close(goal[0], expected)


def test_a_level_of_encounters_beside_a_published_one() -> None:
    levels = (Level(3, 0, 2, 30.0), Level(2, 0, 0, 0.0, encounter=True, map_size=80.0))
    sampler = ScenarioSampler(ScenarioConfig(), levels, CPU, DOUBLE)
    level = torch.arange(2).repeat(50)
    drawn = sampler.sample(level, seeded())
    alone = ScenarioSampler(ScenarioConfig(), levels[:1], CPU, DOUBLE).sample(level * 0, seeded())
    usual, met = level == 0, level == 1
    # The draws of robots come first, so that other levels do not change them.
    assert torch.equal(drawn.start[usual], alone.start[usual])
    assert drawn.robot_mask[met].tolist() == [[True, True, False]] * 50
    assert not drawn.obstacle_mask[met].any() and drawn.obstacle_mask[usual].all()
    from_centre = (drawn.start[met][:, :2] - 40.0).norm(dim=-1)
    near, far = ENCOUNTER_DISTANCE
    slack = math.sqrt(2.0) * ENCOUNTER_OFFSET
    assert near - slack < from_centre.min() and from_centre.median() < far + slack
    # Where their courses are nearly parallel they start farther off.
    assert (drawn.start[met][:, 0] - drawn.start[met][:, 1]).norm(dim=-1).min() > 8.0
    assert from_centre.max() > far + slack
    to_goal = drawn.goal[met] - drawn.start[met]
    off = torch.atan2(to_goal[..., 1], to_goal[..., 0]) - drawn.heading[met]
    assert off[:, :2].cos().min() > math.cos(0.2)


def test_levels_have_maps_and_currents_of_their_own() -> None:
    levels = (Level(3, 2, 2, 30.0), Level(3, 2, 2, 30.0, map_size=110.0, core_speed=1.0))
    sampler = ScenarioSampler(ScenarioConfig(), levels, CPU, DOUBLE)
    level = torch.arange(2).repeat(100)
    drawn = sampler.sample(level, seeded())
    for number, (side, speed) in enumerate(((55.0, 3.0), (110.0, 1.0))):
        own = drawn[level == number]
        for points in (own.start, own.goal, own.obstacle_position, own.core_position):
            assert 0.9 * side < points.max() <= side
        found = own.core_circulation.abs()[own.core_circulation != 0.0]
        torch.testing.assert_close(found, torch.full_like(found, math.pi * speed))


def test_traffic_is_under_way_and_one_vessel_may_be_overtaken() -> None:
    levels = (Level(4, 0, 0, 0.0, encounter=True), Level(4, 0, 0, 0.0, encounter=True, traffic=0.6))
    level = torch.arange(2).repeat(150)
    drawn = ScenarioSampler(ScenarioConfig(), levels, CPU, DOUBLE).sample(level, seeded())
    resting, moving = drawn[level == 0], drawn[level == 1]
    assert not resting.velocity.any() and not resting.scripted.any()
    assert not moving.scripted[:, 0].any() and 0.5 < moving.scripted[:, 1:].double().mean() < 0.75
    ahead = torch.stack((moving.heading.cos(), moving.heading.sin()), -1)
    speed = (moving.velocity[..., :2] * ahead).sum(-1)
    slow = speed[:, 1] < 1.0
    assert 0.15 < slow.double().mean() < 0.35 and moving.scripted[slow, 1].all()
    assert (moving.heading[slow, 1].abs() <= SLOW_COURSE).all()
    assert (speed[~slow] >= SPEED * (1.0 - SPREAD)).all() and (speed <= SPEED * 1.3).all()
    # All reach the centre at one time.
    left = (moving.start - 27.5).norm(dim=-1) / speed
    assert (left - left.mean(-1, keepdim=True)).abs().max() < math.hypot(1.5, 1.5) / 0.8 * 1.5
    apart = (moving.start[:, :, None] - moving.start[:, None]).norm(dim=-1)
    assert (apart + 99.0 * torch.eye(4)).amin((1, 2)).median() > 10.0


def test_traffic_keeps_course_and_speed_whatever_it_is_told() -> None:
    levels = (Level(3, 0, 0, 0.0, encounter=True, traffic=0.7),)
    env = MarineNavEnv(num_envs=40, scenarios=Curriculum(levels, pool_size=40, refresh_size=40),
                       dtype=DOUBLE)  # fmt: skip
    td, before = env.reset(), env.state.clone()
    scripted = env.scenario.scripted
    assert scripted is not None and scripted.any()
    ended = td["robots", "done"].squeeze(-1)
    assert torch.equal(ended, scripted) and torch.equal(td["robots", "mask"], ~scripted)
    arrived = torch.zeros_like(scripted)
    for _ in range(40):
        td = env.step(td.set(("robots", "action"), torch.ones(40, 3, 2)))["next"]
        assert not env.outcome.collided[scripted].any()
        assert not td["robots", "reward"][scripted].any()
        arrived |= env.outcome.arrived
    now, kept = env.state, scripted & ~arrived
    torch.testing.assert_close(now.pose[kept][:, 2], before.pose[kept][:, 2])
    torch.testing.assert_close(now.velocity_water[kept], before.velocity_water[kept])
    sailed = (now.pose - before.pose)[kept][:, :2]
    torch.testing.assert_close(sailed, 20.0 * before.velocity_water[kept][:, :2])
    assert now.collided[~scripted].any()  # with those that do not give way
    # An episode is over when those that are steered have ended.
    ended = (now.collided | now.arrived | scripted).all(-1)
    assert torch.equal(td["done"].squeeze(-1), ended) and ended.any()


def test_only_encounters_have_traffic() -> None:
    with pytest.raises(ConfigError, match="must be 0 but in an encounter"):
        Level(3, 0, 0, 30.0, traffic=0.5)
