"""Drawn scenarios: every constraint, and the same acceptance as the loops."""

import math

import pytest
import torch

from marinenav_env.config import ScenarioConfig
from marinenav_env.levels import DRAWN_BEHAVIOURS, LEVELS, Level
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.scenario import ScenarioSampler
from marinenav_env.support.validation import ConfigError
from tests.marinenav_env.helpers import CPU
from tests.oracle import scenario as oracle

WITH_CORES = (Level(5, 8, 4, 40.0), Level(6, 4, 6, 30.0))
CROWDED = Level(14, 12, 20, 40.0)
VARIED = ScenarioConfig(v_range=(2.0, 4.0), obs_r_range=(0.5, 2.5))


def draw(config, levels, count):
    """Scenarios of all levels in turn."""
    sampler = ScenarioSampler(config, levels, CPU, torch.float64)
    return sampler.sample(torch.arange(count) % len(levels), torch.Generator().manual_seed(0))


def test_scenarios_start_at_rest_and_missing_slots_are_empty():
    levels = (Level(2, 0, 1, 30.0), CROWDED)
    scenario = draw(VARIED, levels, 60)
    for name in ("velocity", "thrust", "thruster_angle"):
        assert not scenario.get(name).any()
    assert scenario.level.tolist() == [0, 1] * 30
    assert scenario.robot_mask.shape == (60, 14) and scenario.velocity.shape == (60, 14, 3)
    assert scenario.obstacle_mask.shape == (60, 20) and scenario.core_position.shape == (60, 12, 2)
    simple = scenario[::2]
    assert simple.robot_mask.sum(-1).eq(2).all() and simple.obstacle_mask.sum(-1).eq(1).all()
    assert not simple.core_circulation.any()
    for mask, names in (
        (scenario.robot_mask, ("start", "goal")),
        (scenario.obstacle_mask, ("obstacle_position", "obstacle_radius")),
        (scenario.core_circulation != 0.0, ("core_position",)),
    ):
        assert not mask.all()
        for name in names:
            assert not scenario.get(name)[~mask].any(), name
            assert scenario.get(name)[mask].all(), name


# The loops, one candidate after another ---------------------------------------------------------


@pytest.mark.parametrize(("level", "draws"), [(WITH_CORES[0], 500), (WITH_CORES[1], 60), (CROWDED, 150), (CROWDED, 1)])
def test_accepts_what_the_loops_accept_of_the_same_candidates(level, draws, drawn_numbers):
    config = ScenarioConfig(v_range=(2.0, 4.0), obs_r_range=(0.5, 2.5), draws=draws)
    sampler, count = ScenarioSampler(config, (level,), CPU, torch.float64), 40
    generator = torch.Generator().manual_seed(draws)
    scenarios = sampler.sample(torch.zeros(count, dtype=torch.int64), generator)
    numbers = [tensor.tolist() for tensor in drawn_numbers]

    def point(unit, margin):
        x, y = (margin + u * (size - 2.0 * margin) for u, size in zip(unit, (55.0, 55.0), strict=True))
        return x, y

    def accept(candidates, wanted, fits):
        accepted = []
        for candidate in candidates:
            if len(accepted) < wanted and fits(candidate, accepted):
                accepted.append(candidate)
        return accepted

    for e in range(count):
        starts, goals, core_points, turns, speeds, obstacle_points, sizes, headings = (
            column[e] for column in numbers[:8]
        )
        robots = accept(
            [(point(s, 2.0), point(g, 2.0)) for s, g in zip(starts, goals, strict=True)],
            level.num_robots,
            lambda c, taken: oracle.robot_fits(*c, taken, level.min_start_goal_dis, config),
        )
        ends = [robot[0] for robot in robots] + [robot[1] for robot in robots]
        cores = accept(
            [
                (*point(at, 0.0), turn < 0.5, 2.0 * math.pi * 0.5 * (2.0 + 2.0 * speed))
                for at, (turn,), (speed,) in zip(core_points, turns, speeds, strict=True)
            ],
            level.num_cores,
            lambda c, taken, ends=ends: oracle.core_fits(c, ends, taken, config),
        )
        obstacles = accept(
            [(*point(at, 5.0), 0.5 + 2.0 * size) for at, (size,) in zip(obstacle_points, sizes, strict=True)],
            level.num_obstacles,
            lambda c, taken, ends=ends, cores=cores: oracle.obstacle_fits(c, ends, cores, taken, config),
        )
        found = scenarios[e]
        there, gamma = found.robot_mask, found.core_circulation
        signed = [(x, y, strength if clockwise else -strength) for x, y, clockwise, strength in cores]
        for actual, expected in (
            (found.start[there], [start for start, _ in robots]),
            (found.goal[there], [goal for _, goal in robots]),
            (found.heading[there, None], [(2.0 * math.pi * each,) for each in headings[: len(robots)]]),
            (torch.cat((found.core_position, gamma[:, None]), -1)[gamma != 0.0], signed),
            (torch.cat((found.obstacle_position, found.obstacle_radius[:, None]), -1)[found.obstacle_mask], obstacles),
        ):
            assert actual.tolist() == [pytest.approx(list(row), abs=1e-12) for row in expected]


@pytest.mark.parametrize(
    ("level", "refused"),
    [
        (Level(3, 0, 1, 0.0, encounter=True, map_size=10.0), "level.map_size=10.0: must be above"),
        (Level(3, 0, 0, math.sqrt(2.0) * 16.0, map_size=20.0), "must be below 22.6"),
    ],
)
def test_a_level_without_room_is_refused(level, refused):
    with pytest.raises(ConfigError, match=refused):
        ScenarioSampler(ScenarioConfig(), (LEVELS[0], level), CPU, torch.float32)


# Encounters -------------------------------------------------------------------------------------


def met(monkeypatch, courses, *levels, **sides):
    """Encounters of vessels on given courses, without random offsets."""
    given = torch.tensor(courses, dtype=torch.float64)
    monkeypatch.setattr("marinenav_env.scenarios.encounter_sampler.draw_courses", lambda *_: given)
    monkeypatch.setattr("marinenav_env.scenarios.encounter_sampler.MAX_PLACE_OFFSET", 0.0)
    return draw(ScenarioConfig(**sides), levels, len(courses))


def encounter(robots, traffic=0.0, slow_vessel=False):
    return Level(robots, 0, 0, 0.0, encounter=True, traffic=traffic, slow_vessel=slow_vessel)


def test_a_vessel_that_is_overtaken_is_the_first_and_the_second_keeps_its_course(monkeypatch):
    level = Level(3, 0, 0, 0.0, encounter=True, traffic=0.5, overtaken=True)
    drawn = met(monkeypatch, [[0.0, 1.5, 3.0]] * 200, level)
    assert drawn.scripted is not None
    assert not drawn.scripted[:, 0].any() and drawn.scripted[:, 1].all()
    assert drawn.scripted[:, 2].double().mean().item() == pytest.approx(0.5, abs=0.15)
    speed, course = drawn.velocity[..., :2].norm(dim=-1), drawn.heading[:, 1] * 180.0 / math.pi
    torch.testing.assert_close(speed[:, 0], torch.full_like(speed[:, 0], 0.8))
    assert (speed[:, 1] >= 1.4).all()
    assert -20.0 <= course.min() < -19.0 and 19.0 < course.max() <= 20.0
    # The second is behind the first; 22 m, if it is not much slower than usual.
    behind = drawn.start[:, 0] - drawn.start[:, 1]
    assert (behind[:, 0] > 0.0).all() and (behind.norm(dim=-1) > 17.0).all()


# Vessels that misbehave -------------------------------------------------------------------------


def unruly(robots=3, share=0.6, **options):
    return Level(robots, 0, 0, 0.0, encounter=True, unruly=share, **options)


def test_the_share_of_the_others_misbehaves_in_every_way(monkeypatch):
    drawn = met(monkeypatch, [[0.0, 1.5, 3.0]] * 3000, unruly())
    assert drawn.scripted is not None and drawn.behaviour is not None and drawn.onset is not None
    misbehave = drawn.behaviour > 0
    shares = misbehave.double().mean(0).tolist()
    assert shares[0] == 0.0 and shares[1:] == pytest.approx([0.6, 0.6], abs=0.04)
    # A quarter of the second ones is slow, and keeps course and speed if it does not misbehave.
    assert (misbehave <= drawn.scripted).all()
    keeping = drawn.scripted & ~misbehave
    assert not keeping[:, [0, 2]].any() and keeping[:, 1].double().mean().item() == pytest.approx(0.1, abs=0.03)
    counts = torch.bincount(drawn.behaviour[misbehave], minlength=len(DRAWN_BEHAVIOURS)).tolist()
    assert counts[0] == 0 and min(counts[1:]) > 0.85 * max(counts[1:])


@pytest.mark.parametrize(("length", "pace"), [(1.0, 1.0), (0.5, 0.8)])
def test_behaviours_begin_2_to_8_s_before_the_vessels_meet(monkeypatch, length, pace):
    scale = {"scale": length, "speed_scale": pace, "clear_r": 10.0 * length}
    drawn = met(monkeypatch, [[0.0, 1.5]] * 2000, unruly(2, 1.0), **scale)
    assert drawn.behaviour is not None and drawn.onset is not None
    assert (drawn.behaviour[:, 1] > 0).all() and not drawn.onset[:, 0].any()
    time = (drawn.start[:, 1] - 27.5).norm(dim=-1) / drawn.velocity[:, 1].norm(dim=-1)
    lead = (time - drawn.onset[:, 1]) * pace / length
    assert 2.0 <= lead.min() < 2.1 and 7.9 < lead.max() <= 8.0 and drawn.onset.min() >= 0.0


def test_levels_have_behaviours_of_their_own(monkeypatch):
    levels = (
        unruly(2, 1.0, behaviours=("stop",)),
        unruly(3, 1.0, behaviours=("act_late", "see_nothing")),
        encounter(3, traffic=1.0),
        encounter(3),
    )
    drawn = met(monkeypatch, [[0.0, 1.5, 3.0]] * 400, *levels)
    assert drawn.scripted is not None and drawn.behaviour is not None
    rows = [(drawn.level == number)[:, None] & drawn.scripted for number in range(len(levels))]
    seen = [set(drawn.behaviour[chosen].tolist()) for chosen in rows]
    assert seen == [{3}, {1, 7}, {0}, set()]
    moving = drawn.velocity.norm(dim=-1).gt(0.0).any(-1)
    assert moving[drawn.level < 3].all() and not moving[drawn.level == 3].any()


def test_a_slow_vessel_that_the_first_overtakes_does_not_misbehave(monkeypatch):
    drawn = met(monkeypatch, [[0.0, 1.5, 3.0]] * 100, unruly(3, 1.0, slow_vessel=True))
    assert drawn.scripted is not None and not drawn.scripted[:, :2].any() and drawn.scripted[:, 2].all()


def test_scenarios_without_them_are_drawn_as_before():
    """The same numbers, with a level that has some beside them or not."""
    traffic, other = encounter(3, traffic=0.5), unruly()
    source = RandomSource.from_seed(5, 8, CPU)
    alone = ScenarioSampler(ScenarioConfig(), (traffic,), CPU, torch.float64).sample(torch.zeros(8).long(), source)
    beside = ScenarioSampler(ScenarioConfig(), (traffic, other), CPU, torch.float64).sample(
        torch.zeros(8).long(), source
    )
    assert alone.behaviour is None and beside.behaviour is not None and not beside.behaviour.any()
    for name in ("start", "goal", "heading", "velocity", "scripted"):
        assert torch.equal(alone.get(name), beside.get(name))
