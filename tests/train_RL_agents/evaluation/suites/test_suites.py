import math
from dataclasses import replace

import pytest
import torch

from marinenav_env import LEVELS, ConfigError, WorldConfig
from train_RL_agents.config.schema import EvalSchedule
from train_RL_agents.evaluation.running.episodes import draw_scenarios
from train_RL_agents.evaluation.suites import suites
from train_RL_agents.evaluation.suites.rules_suite import ENCOUNTERS
from train_RL_agents.evaluation.suites.suites import CROWD_SIZES, NOISE_FACTORS, make_scenario_set

WORLD = WorldConfig()


def equal(one, other):
    if isinstance(one, list):
        return one == other
    names = ("start", "goal", "heading", "robot_mask", "obstacle_position")
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in names)


def test_paper_is_the_fixed_set_of_training():
    schedule = EvalSchedule()
    fixed = draw_scenarios(WORLD, schedule.levels, schedule.num_episodes, schedule.seed)
    paper = make_scenario_set("paper", WORLD)
    assert (len(paper), paper.seed) == (60, 0)
    assert equal(paper.parts[0].scenarios, fixed)
    assert paper.groups == tuple(f"level {number}" for number in range(1, 7))


def test_fresh_is_new_each_time_but_for_its_seed():
    first, again, other = (make_scenario_set("fresh", WORLD, 2, seed) for seed in (3, 3, None))
    assert len(first) == len(other) == 12
    assert equal(first.parts[0].scenarios, again.parts[0].scenarios)
    assert not equal(first.parts[0].scenarios, other.parts[0].scenarios)
    assert make_scenario_set("fresh", WORLD, 2, other.seed).seed == other.seed


def test_long_has_the_published_levels_in_batches_of_their_own(monkeypatch):
    monkeypatch.setattr(suites, "MAX_LONG_BATCH", 4)
    chosen = make_scenario_set("long", WORLD, 6, 3)
    assert chosen.groups == tuple(f"level {number}" for number in range(1, 7)) and len(chosen) == 36
    assert [len(part.scenarios) for part in chosen.parts] == [4, 2] * 6
    assert [part.scenarios.level.unique().tolist() for part in chosen.parts] == [[n] for n in range(6) for _ in "ab"]
    assert [part.scenarios.robot_mask.shape[-1] for part in chosen.parts[::2]] == [3, 4, 5, 5, 5, 5]
    first, second = chosen.parts[4].scenarios.start, chosen.parts[5].scenarios.start
    assert not torch.equal(first[:2], second) and len({part.seed for part in chosen.parts}) == 12
    again = make_scenario_set("long", WORLD, 6, 3)
    assert all(equal(part.scenarios, other.scenarios) for part, other in zip(chosen.parts, again.parts, strict=True))
    assert [part.seed for part in again.parts] == [part.seed for part in chosen.parts]


def test_currents():
    (part,) = make_scenario_set("currents", WORLD, 20).parts
    drawn = part.scenarios
    assert drawn.robot_mask.shape == (20, 6)
    # Where 500 draws leave no room there are fewer.
    assert drawn.robot_mask.sum(-1).float().mean() > 4.5
    assert (drawn.core_circulation != 0).sum(-1).float().mean() > 5.0
    assert drawn.obstacle_mask.shape == (20, 8)
    assert drawn.core_circulation.shape == (20, 8)
    far = torch.linalg.vector_norm(drawn.goal - drawn.start, dim=-1)[drawn.robot_mask]
    assert 40.0 <= far.min() < 42.0


def test_crowds_have_the_density_of_the_published_map():
    chosen = make_scenario_set("crowd", WORLD, 2)
    published = 5 / (55.0 * 55.0)
    for index, (robots, part) in enumerate(zip(CROWD_SIZES, chosen.parts, strict=True)):
        room = part.world.scenario
        assert robots / (room.width * room.height) == pytest.approx(published)
        assert part.scenarios.robot_mask.sum(-1).tolist() == [robots] * 2
        assert part.scenarios.obstacle_mask.sum(-1).tolist() == [robots * 4 // 5] * 2
        assert part.scenarios.start.max() <= room.width
        assert part.scenarios.level.tolist() == [index] * 2
    assert part.scenarios.start.max() > 100.0
    far = torch.linalg.vector_norm(part.scenarios.goal - part.scenarios.start, dim=-1)
    assert 40.0 <= far.min() < 42.0 and part.scenarios.core_circulation.shape[-1] == 0
    assert chosen.groups == tuple(f"{robots} robots" for robots in (10, 20, 30, 40, 50))


def test_without_a_seed_one_of_31_bits_is_drawn(monkeypatch):
    monkeypatch.setattr("secrets.randbelow", lambda limit: limit - 1)
    assert make_scenario_set("fresh", WORLD, 1).seed == 2**31 - 1
    assert make_scenario_set("rules", WORLD, 1).seed == 0


def test_noise_changes_nothing_but_the_sensors():
    world = replace(WORLD, sensor=replace(WORLD.sensor, vel_std=(0.1,) * 5))
    chosen = make_scenario_set("noise", world, 1)
    assert chosen.groups == ("noise x 0", "noise x 1", "noise x 2", "noise x 4")
    for factor, part in zip(NOISE_FACTORS, chosen.parts, strict=True):
        assert equal(part.scenarios, chosen.parts[0].scenarios)
        sensor = part.world.sensor
        assert sensor.pos_std == pytest.approx(factor * 0.05)
        assert sensor.vel_std == pytest.approx((factor * 0.1,) * 5)
        assert replace(part.world, sensor=world.sensor) == world
    assert len(chosen) == 4 * len(LEVELS)


def test_vessels_differ_in_mass_and_thrust():
    world = replace(WORLD, vessel=replace(WORLD.vessel, m=(400.0, 500.0, 400.0, 400.0, 400.0)))
    (part,) = make_scenario_set("vessels", world, 2).parts
    ratios = []
    for episode in part.scenarios:
        vessel = episode.world.vessel
        heavy = [one / usual for one, usual in zip(vessel.m, world.vessel.m, strict=False)]
        assert vessel.Izz == pytest.approx([450.0 * each for each in heavy])
        assert vessel.min_thrust == pytest.approx([-0.5 * each for each in vessel.max_thrust])
        ratios += zip(heavy, (each / 1000.0 for each in vessel.max_thrust), strict=True)
        assert len(vessel.m) == len(episode.start) and episode.world.sensor == WORLD.sensor
    heavy, strong = torch.tensor(ratios).log2().T
    assert len(ratios) == 2 * 27 and torch.stack((heavy, strong)).abs().max() <= 1.0
    for each in (heavy, strong):
        assert each.min() < -0.8 and each.max() > 0.8
    assert abs(torch.corrcoef(torch.stack((heavy, strong)))[0, 1]) < 0.4


def test_rules_are_two_vessels_each():
    chosen = make_scenario_set("rules", WORLD, 3)
    assert chosen.groups == tuple(ENCOUNTERS)
    for index, part in enumerate(chosen.parts):
        assert part.scenarios.robot_mask.tolist() == [[True, True]] * 3
        assert part.scenarios.level.tolist() == [index] * 3
    assert chosen.parts[-1].world.vessel.max_thrust == (1000.0, 120.0)
    assert chosen.parts[0].world == WORLD


def test_who_overtakes_has_the_strongest_thrusters_there_are():
    strong = replace(WORLD, vessel=replace(WORLD.vessel, max_thrust=(900.0, 1100.0)))
    parts = make_scenario_set("rules", strong, 1).parts
    assert [part.world.vessel.max_thrust for part in parts] == [*[(900.0, 1100.0)] * 3, (1100.0, 120.0)]


@pytest.mark.parametrize(
    ("name", "first", "last", "groups"), [("imazu", "case 1", "case 22", 22), ("encounters", "head-on", "6 vessels", 9)]
)
def test_all_vessels_are_steered_unless_the_name_says_other(name, first, last, groups):
    chosen = make_scenario_set(name, WORLD, 1)
    assert (chosen.groups[0], chosen.groups[-1], len(chosen.groups)) == (first, last, groups)
    assert {int(level) for part in chosen.parts for level in part.scenarios.level} == {*range(groups)}
    assert not any(part.only_own for part in chosen.parts)


@pytest.mark.parametrize("usual", [2.8, (3.5, 1.0, 1.0, 1.0, 1.0, 1.0)])
@pytest.mark.parametrize("name", ["imazu_own", "encounters_own"])
def test_vessels_that_are_not_steered_meet_at_a_point(name, usual):
    """And the own vessel is hit at the distance of two vessels like her."""
    own = usual if isinstance(usual, float) else usual[0]
    for part in make_scenario_set(name, replace(WORLD, vessel=replace(WORLD.vessel, radius=usual)), 1).parts:
        first, *others = part.world.vessel.radius
        assert part.only_own and others == [0.01] * (part.scenarios.start.shape[1] - 1)
        assert first + 0.01 == pytest.approx(2.0 * own)


@pytest.mark.parametrize(
    ("name", "count", "first", "last"), [("dnv", 55, "head on", "3 others"), ("imazu_ntnu", 22, "case 1", "case 22")]
)
def test_situations_that_others_wrote(name, count, first, last):
    chosen = make_scenario_set(name, WORLD, 3)
    (part,) = chosen.parts
    assert len(chosen) == 3 * count and not part.only_own
    assert (chosen.groups[0], chosen.groups[-1]) == (first, last)
    assert part.situations == tuple(number for number in range(count) for _ in range(3))
    for number in range(count):
        repeated = part.scenarios[3 * number : 3 * number + 3]
        assert repeated[0] == repeated[1] == repeated[2]
        assert len(set(part.levels[3 * number : 3 * number + 3])) == 1
    if name == "dnv":
        others = [len(part.scenarios[3 * number].start) - 1 for number in range(count)]
        groups = [chosen.groups[part.levels[3 * number]] for number in range(count)]
        assert [(group, count) for group, count in zip(groups[:5], others[:5], strict=True)] == [
            ("head on", 1),
            ("crossing give way", 1),
            ("crossing stand on", 1),
            ("overtaking give way", 1),
            ("overtaking stand on", 1),
        ]
        assert groups[5:] == [f"{some} others" for some in others[5:]]


@pytest.mark.parametrize("name", ["dnv_own", "imazu_ntnu_own"])
def test_the_own_vessel_is_hit_where_others_pass_through_each_other(name):
    steered, (part,) = (
        make_scenario_set(name.removesuffix("_own"), WORLD, 1).parts[0],
        make_scenario_set(name, WORLD, 1).parts,
    )
    assert part.only_own and not steered.only_own
    for episode, other in zip(part.scenarios, steered.scenarios, strict=True):
        first, *points = episode.world.vessel.radius
        assert points == [0.01] * (len(episode.start) - 1) and first + 0.01 == pytest.approx(2.0 * WORLD.vessel.radius)
        assert episode.start == other.start and episode.world.vessel.max_thrust == other.world.vessel.max_thrust


def test_what_is_refused():
    with pytest.raises(ConfigError, match="--suite='papr': must be one of paper, fresh"):
        make_scenario_set("papr", WORLD)
    with pytest.raises(ConfigError, match="--episodes=5: must be left out: paper is a fixed set"):
        make_scenario_set("paper", WORLD, 5)


def test_weather_blows_from_anywhere_and_faults_come_in_a_calm():
    storm, calm = (make_scenario_set(name, WORLD, 20, 0).parts[0] for name in ("weather", "faults"))
    own = [each.world.weather for each in storm.scenarios]
    assert len({each.wave_seed for each in own}) == 120
    assert {(each.wind_speed, each.wave_height) for each in own} == {(8.0, 0.4)}
    assert not any(each.delay or each.missed for each in own)
    directions = sorted(each.wind_direction for each in own)
    assert directions[0] < 0.5 and directions[-1] > 2.0 * math.pi - 0.5
    assert max(abs(each.wave_direction - each.wind_direction) for each in own) < math.radians(30.01)
    faults = calm.world.weather
    assert (faults.wind_speed, faults.wave_height) == (0.0, 0.0)
    assert (faults.delay, faults.missed) == (1, 0.1)
    assert calm.scenarios.level.tolist() == [0] * 120
