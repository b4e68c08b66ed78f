from dataclasses import replace

import pytest
import torch

from marinenav_env import WorldConfig
from train_RL_agents.config.schema import EvalSchedule
from train_RL_agents.evaluation.running.episodes import draw_scenarios
from train_RL_agents.evaluation.suites import SUITE_NAMES, suites
from train_RL_agents.evaluation.suites.suites import make_scenario_set

WORLD = WorldConfig()


def test_the_command_line_knows_all_suites():
    assert tuple(suites.SUITES) == SUITE_NAMES


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


def test_who_overtakes_has_the_strongest_thrusters_there_are():
    strong = replace(WORLD, vessel=replace(WORLD.vessel, max_thrust=(900.0, 1100.0)))
    parts = make_scenario_set("rules", strong, 1).parts
    assert [part.world.vessel.max_thrust for part in parts] == [*[(900.0, 1100.0)] * 3, (1100.0, 120.0)]


@pytest.mark.parametrize("usual", [2.8, (3.5, 1.0, 1.0, 1.0, 1.0, 1.0)])
@pytest.mark.parametrize("name", ["imazu_own", "encounters_own"])
def test_vessels_that_are_not_steered_meet_at_a_point(name, usual):
    """And the own vessel is hit at the distance of two vessels like her."""
    own = usual if isinstance(usual, float) else usual[0]
    for part in make_scenario_set(name, replace(WORLD, vessel=replace(WORLD.vessel, radius=usual)), 1).parts:
        first, *others = part.world.vessel.radius
        assert part.only_own and others == [0.01] * (part.scenarios.start.shape[1] - 1)
        assert first + 0.01 == pytest.approx(2.0 * own)
