"""Geometry of encounters, and levels that differ from another."""

import math
from dataclasses import replace
from itertools import combinations

import pytest
import torch

from marinenav_env import Curriculum, MarineNavEnv
from marinenav_env.config import ScenarioConfig
from marinenav_env.levels import Level
from marinenav_env.scenarios.draws import GeneratorDraws
from marinenav_env.scenarios.encounter_sampler import (
    MIN_COURSE_DIFFERENCE,
    USUAL_SPEED,
    draw_courses,
    smallest_course_difference,
)
from marinenav_env.scenarios.scenario import ScenarioSampler

CPU, DOUBLE = torch.device("cpu"), torch.float64
TURN = 2.0 * math.pi


def seeded():
    return torch.Generator().manual_seed(0)


def draws(size):
    return GeneratorDraws(seeded(), size, DOUBLE)


def between(first, second):
    """Angle between two courses (rad)."""
    apart = abs(first - second) % (2.0 * math.pi)
    return min(apart, 2.0 * math.pi - apart)


def closest_courses(courses, present):
    there = [course for course, real in zip(courses, present, strict=True) if real]
    return min([between(*pair) for pair in combinations(there, 2)], default=math.pi)


@pytest.mark.parametrize(("candidates", "least"), [(256, 20.0), (2, 20.0), (256, 7.0)])
def test_courses_equal_scalar_code(monkeypatch, candidates, least):
    """Of two draws none may keep the separation: then the one that comes closest to it."""
    monkeypatch.setattr("marinenav_env.scenarios.encounter_sampler.MAX_COURSE_CANDIDATES", candidates)
    present = [[slot < 1 + row % 6 for slot in range(6)] for row in range(24)]
    generator = seeded()
    kinds = torch.randint(3, (24, candidates, 5), generator=generator).tolist()
    vary = torch.rand(24, candidates, 5, generator=generator, dtype=DOUBLE).tolist()
    middle, spread = (180.0, -90.0, 90.0), (10.0, 90.0 - least, 90.0 - least)
    separation = torch.full((24,), math.radians(least), dtype=DOUBLE)
    found = draw_courses(torch.tensor(present), draws(24), separation).tolist()
    for row, there in enumerate(present):
        options = [
            [0.0, *(math.radians(middle[k] + spread[k] * (2.0 * u - 1.0)) for k, u in zip(*each, strict=True))]
            for each in zip(kinds[row], vary[row], strict=True)
        ]
        apart = [min(closest_courses(each, there), math.radians(least)) for each in options]
        best = next(i for i, each in enumerate(apart) if each >= max(apart) - 1e-12)
        assert found[row] == pytest.approx(options[best]), row


def test_encounters_equal_scalar_code(monkeypatch, drawn_numbers):
    """Starts, goals, courses, speeds and traffic, from the random numbers that were drawn."""
    levels = (Level(2, 0, 0, 0.0, encounter=True, map_size=80.0),
              Level(3, 0, 0, 0.0, encounter=True, traffic=0.5),
              Level(2, 0, 0, 0.0, encounter=True, traffic=0.9),
              Level(3, 0, 0, 0.0, encounter=True, traffic=0.5, slow_vessel=True))  # fmt: skip
    present = [[True, True, False], [True] * 3, [True, True, False], [True] * 3]
    level = torch.arange(4).repeat(30)
    courses = draw_courses(torch.tensor(present)[level], draws(120))
    # Nearly parallel ones too, which start farther off or have to wait for long.
    courses[::5, 1] = torch.linspace(0.002, 0.3, len(courses[::5]), dtype=DOUBLE)
    monkeypatch.setattr("marinenav_env.scenarios.encounter_sampler.draw_courses", lambda *given: courses)
    drawn_numbers.clear()
    drawn = ScenarioSampler(ScenarioConfig(), levels, CPU, DOUBLE).sample(level, seeded())
    assert drawn.scripted is not None
    reach, traffic, jitter = (each.tolist() for each in drawn_numbers[2:5])
    times = set()
    for row, number in enumerate(level.tolist()):
        share, there = levels[number].traffic, present[number]
        centre, course = (40.0 if number == 0 else 27.5), courses[row].tolist()
        before, beyond = (15.0 + 10.0 * reach[k][row][0] for k in range(2))
        chord = 2.0 * math.sin(closest_courses(course, there) / 2.0)
        ahead_of = [max(before, 13.0 / chord)] * 3
        speed, keeping = [0.0] * 3, [False] * 3
        if share:
            chance, vary, turn = (traffic[k][row] for k in range(3))
            controlled = levels[number].slow_vessel
            slow = chance[0] < 0.25 or controlled
            speed = [2.0 * (1.0 + 0.3 * (2.0 * each - 1.0)) for each in vary]
            keeping = [False, *(each < share for each in chance[1:])]
            if slow:
                course[1] = math.radians(20.0 * (2.0 * turn[1] - 1.0))
                speed[1], keeping[1] = 0.8, not controlled
            velocity = [(v * math.cos(c), v * math.sin(c)) for c, v in zip(course, speed, strict=True)][: sum(there)]
            pairs = combinations(velocity, 2)
            time = max(before / 2.0, 13.0 / min(math.dist(*pair) for pair in pairs))
            times.add("long" if time > 30.0 else "close" if time > before / 2.0 else "usual")
            ahead_of = [v * min(time, 30.0) for v in speed]
        for r, real in enumerate(there):
            if not real:
                assert not drawn.robot_mask[row, r] and not drawn.scripted[row, r]
                continue
            ahead = (math.cos(course[r]), math.sin(course[r]))
            start = [centre - ahead_of[r] * ahead[k] + 1.5 * (2.0 * jitter[0][row][r][k] - 1.0) for k in range(2)]
            goal = [centre + beyond * ahead[k] + 1.5 * (2.0 * jitter[1][row][r][k] - 1.0) for k in range(2)]
            assert drawn.start[row, r].tolist() == pytest.approx(start)
            assert drawn.goal[row, r].tolist() == pytest.approx(goal)
            assert drawn.heading[row, r].item() == pytest.approx(course[r])
            expected = [speed[r] * ahead[0], speed[r] * ahead[1], 0.0]
            assert drawn.velocity[row, r].tolist() == pytest.approx(expected)
            assert drawn.robot_mask[row, r] and bool(drawn.scripted[row, r]) == keeping[r]
    assert times == {"long", "close", "usual"}


def test_levels_have_separations_of_their_own():
    levels = tuple(
        Level(2, 0, 0, 0.0, encounter=True, traffic=traffic, separation=least)
        for traffic, least in ((0.0, 0.0), (0.0, 0.1), (0.05, 0.1))
    )
    level = torch.arange(3).repeat(200)
    drawn = ScenarioSampler(ScenarioConfig(), levels, CPU, DOUBLE).sample(level, seeded())
    apart = [
        smallest_course_difference(own.heading, own.robot_mask).amin()
        for own in (drawn[level == number] for number in range(2))
    ]
    assert MIN_COURSE_DIFFERENCE <= apart[0] < MIN_COURSE_DIFFERENCE + 0.05 and 0.1 <= apart[1] < 0.15
    fast = drawn[(level == 2) & (drawn.velocity[:, 1].norm(dim=-1) > 1.0)]
    assert smallest_course_difference(fast.heading, fast.robot_mask).amin() < 0.2


def test_levels_have_maps_and_currents_of_their_own():
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


def test_speeds_and_meeting_times_vary_as_a_level_says():
    usual = Level(4, 0, 0, 0.0, encounter=True, traffic=1.0)
    levels = (usual, replace(usual, speed_spread=0.6, time_spread=1.0))
    level = torch.arange(2).repeat(400)
    drawn = ScenarioSampler(ScenarioConfig(clear_r=10.0), levels, CPU, DOUBLE).sample(level, seeded())
    velocity = drawn.velocity[..., :2]
    speed = velocity.norm(dim=-1)
    assert (speed[level == 1] <= USUAL_SPEED * 1.6).all() and speed[level == 1].amax() > USUAL_SPEED * 1.5
    assert (speed[level == 0] <= USUAL_SPEED * 1.3).all()
    # All pass the first vessel within the jitter of starts, in the second level at different times.
    place, closing = drawn.start[:, 1:] - drawn.start[:, :1], velocity[:, 1:] - velocity[:, :1]
    time = -(place * closing).sum(-1) / closing.square().sum(-1)
    passing = (place + time[..., None] * closing).norm(dim=-1)
    assert passing.amax() <= 2.0 * math.hypot(1.5, 1.5)
    quick = (closing.norm(dim=-1) > 1.0).all(-1)
    apart = (time.amax(-1) - time.amin(-1))[quick]
    assert apart[level[quick] == 0].quantile(0.9) < 3.0 < apart[level[quick] == 1].median()
    # The goal of the first is behind all meetings.
    way = (drawn.goal - drawn.start)[:, 0].norm(dim=-1)
    assert (way + 6.0 >= speed[:, 0] * time.amax(-1))[quick].all()
    distance = (drawn.start[:, :, None] - drawn.start[:, None]).norm(dim=-1) + 99.0 * torch.eye(4)
    assert distance.amin((1, 2))[level == 1].quantile(0.1) > 10.0


@pytest.mark.heavy
def test_traffic_keeps_course_and_speed_whatever_it_is_told():
    levels = (Level(3, 0, 0, 0.0, encounter=True, traffic=0.7),)
    env = MarineNavEnv(num_envs=40, scenarios=Curriculum(levels, pool_size=40, refresh_size=40), dtype=DOUBLE, seed=0)
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
    now, keeping = env.state, scripted & ~arrived
    torch.testing.assert_close(now.pose[keeping][:, 2], before.pose[keeping][:, 2])
    torch.testing.assert_close(now.velocity_water[keeping], before.velocity_water[keeping])
    sailed = (now.pose - before.pose)[keeping][:, :2]
    torch.testing.assert_close(sailed, 20.0 * before.velocity_water[keeping][:, :2])
    assert now.collided[~scripted].any()  # with those that do not give way
    # An episode is over when those that are controlled have ended.
    ended = (now.collided | now.arrived | scripted).all(-1)
    assert torch.equal(td["done"].squeeze(-1), ended) and ended.any()
