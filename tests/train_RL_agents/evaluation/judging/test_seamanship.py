"""Compliance in tracks that are drawn by hand, and of random ones by the oracle."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from marinenav_env import WorldConfig
from marinenav_env.config import RewardConfig, ScenarioConfig, SensorConfig
from marinenav_env.rules.encounters import EncounterState
from marinenav_env.rules.roles import ROLES
from marinenav_env.scenarios.map_bank import with_room_for_shores
from tests.train_RL_agents.evaluation.helpers import FROM_STARBOARD, NORTH, RADIUS, RULES, STEPS, track, tracks
from train_RL_agents.evaluation.judging.failures import EpisodeWatch
from train_RL_agents.evaluation.judging.seamanship import (
    BREACHES,
    SHARE_METRICS,
    JudgedEncounters,
    broken_duty_rates,
    compliance_summary,
    count_duties,
    judge,
    measure_compliance,
    safety_scores,
    steps_and_paths,
    steps_and_paths_alone,
)
from train_RL_agents.evaluation.running.recording import record
from train_RL_agents.evaluation.suites.suites import make_scenario_set
from train_RL_agents.utils.statistics import poisson_interval


def found(*vessels, rules=RULES):
    """Encounters of the first two vessels in tracks, own and other, with the names of their roles."""
    judged = judge(tracks(*vessels, rules=rules, radius=0.5))  # so that they pass without a contact
    rows = [(judged.own == own) & (judged.other == 1 - own) for own in (0, 1)]
    assert [int(row.sum()) for row in rows] == [1, 1]
    both = JudgedEncounters(*(each[:0] for each in (judged.episode, judged.own, judged.other)), of(judged.state, rows))
    return both, [ROLES[int(number)] for number in both.state.role]


def of(state, rows):
    """Fields of the encounters that masks select, one after another."""
    return EncounterState(*(torch.cat([field[row] for row in rows]) for field in state))


def verdicts(judged):
    """Breaches of encounters, in words; empty if kept."""
    return [BREACHES[index] if index >= 0 else "" for index in judged.breaches().tolist()]


@pytest.mark.parametrize(
    ("changes", "breach"),
    [
        ((), "no manoeuvre in time"),
        (((9, (30.0, 2.0)),), ""),  # to starboard, astern of the other
        (((9, (0.0, 0.6)),), ""),  # slows down
        (((9, (-40.0, 2.0)),), "wrong side"),
        (((6, (0.0, 4.5)),), "no manoeuvre in time"),  # hurries past ahead
        (((10, (16.0, 5.0)),), "crossed ahead"),
        (((16, (60.0, 2.0)),), "no manoeuvre in time"),
        (((6, (40.0, 2.0)),), ""),  # while it is a candidate, which ends the risk
        (((6, (-80.0, 2.0)),), "wrong side"),  # likewise
    ],
)
def test_crossing_give_way(changes, breach):
    judged, roles = found(track(*NORTH, changes), FROM_STARBOARD)
    assert roles == ["give-way", "stand-on"]
    assert verdicts(judged)[0] == breach
    assert not judged.state.has_left.any()


def test_a_risk_that_ends_before_it_is_confirmed_is_fleeting():
    """The other turns to a parallel course three steps after its first sight, which is sooner than 3 s."""
    turns = track((20.0, 20.0), -90.0, 2.0, ((7, (90.0, 2.0)),))
    judged, _ = found(track(*NORTH), turns)
    assert judged.is_fleeting.all() and not judged.state.has_duty.any()
    at_once, _ = found(track(*NORTH), turns, rules=replace(RULES, confirm=0.0))
    assert at_once.state.has_duty.all()
    urgent, _ = found(track(*NORTH), turns, rules=replace(RULES, urgent_time=8.0))
    assert urgent.state.has_duty.all()


def test_a_new_encounter_begins_after_the_last_is_past_and_clear():
    """The other crosses, turns round when it is past, and comes back."""
    back = track((14.0, 16.0), -90.0, 2.0, ((30, (180.0, 2.0)),))
    judged = judge(tracks(track(*NORTH, ((12, (0.0, 0.2)),)), back))
    roles = [ROLES[int(role)] for role in judged.state.role[(judged.own == 0) & judged.state.counts]]
    assert roles == ["give-way", "stand-on"]


def test_no_encounter_out_of_sight_or_without_risk():
    judged = judge(tracks(track(*NORTH), track((20.0, 12.0), 180.0, 2.0)))
    assert len(judged.own) == 0


def test_a_duty_that_is_open_when_the_other_arrives_is_not_broken():
    recording = tracks(track(*NORTH), FROM_STARBOARD)
    assert judge(recording).state.is_broken.any()
    recording.active[12:, 0, 1] = False
    judged = judge(recording)
    assert judged.state.has_duty.all() and not judged.state.is_broken.any()


def test_safety_from_those_that_are_still_there():
    seen = tracks(track((0.0, 0.0), 0.0, 0.0), track((100.0, 0.0), 180.0, 5.0))
    assert safety_scores(seen).tolist() == [[0.0, 0.0]]
    seen.active[9:, :, 0] = False
    assert safety_scores(seen).tolist() == [[1.0, 1.0]]


def test_safety_from_contact_to_domain():
    seen = tracks(track(*NORTH), track((40.0, 6.8), 180.0, 2.0), track((0.0, -30.0), 0.0, 2.0))
    expected = [(6.8 - 5.6) / (8.0 - 5.6)] * 2 + [1.0]
    assert safety_scores(seen)[0].tolist() == pytest.approx(expected, abs=1e-6)
    # Only the sum of two radii counts, as where vessel 1 alone is controlled.
    seen.vessel_radius[:] = torch.tensor([2.0 * RADIUS - 0.01, 0.01, 0.01])
    assert safety_scores(seen)[0, [0, 2]].tolist() == pytest.approx([0.5, 1.0], abs=1e-6)


def test_a_vessel_alone_is_safe():
    assert safety_scores(tracks(track(*NORTH))).tolist() == [[1.0]]


def test_sailed():
    seen = tracks(track(*NORTH), track((9.0, 9.0), 90.0, -1.0))
    seen.active[10:, 0, 0] = False
    steps, path, astern = steps_and_paths(seen)
    assert steps.tolist() == [[10, 40]] and astern.tolist() == [[0, 40]]
    assert path[0].tolist() == pytest.approx([10.0, 20.0])


def test_a_vessel_that_never_arrives_alone_gives_no_delay():
    seen = tracks(track(*NORTH))
    seen.arrived = torch.zeros(STEPS, 1, 1, dtype=torch.bool)
    assert all(value.isnan().tolist() == [True] for value in steps_and_paths_alone(seen))
    seen.arrived[-1] = True
    assert [value.tolist() for value in steps_and_paths_alone(seen)] == [[40.0], [40.0]]


@pytest.mark.parametrize("course", [0.0, 90.0, 30.0, -120.0])
def test_a_vessel_goes_astern_from_a_twentieth_of_a_metre_a_second_on(course):
    seen = tracks(*(track((0.0, 0.0), course, speed) for speed in (-0.06, -0.04, 3.0)))
    assert steps_and_paths(seen)[2].tolist() == [[STEPS, 0, 0]]


@pytest.mark.parametrize("keeps", [True, False])
def test_marks_by_hand(keeps):
    recording = tracks(track(*NORTH, ((9, (30.0, 2.0)),) if keeps else ()), FROM_STARBOARD, radius=0.5)
    arrived = torch.zeros(STEPS, 1, 2, dtype=torch.bool)
    arrived[-1, :, 0] = True
    both = torch.ones(1, 2, dtype=torch.bool)
    vars(recording).update(arrived=arrived, robot_mask=both.clone())
    alone = torch.tensor([[36, 40]]), torch.tensor([[32.0, 40.0]])
    measured = measure_compliance(judge(recording), recording, alone, both)
    given = {name: each[0].tolist() for name, each in measured.items()}
    nan, share = math.nan, float(keeps)
    assert given["rules_kept"] == [share, 1.0]
    for name, own in (("substantial", share), ("early", share), ("right_side", 1.0)):
        assert given[name] == pytest.approx([own, nan], nan_ok=True), name
    assert given["stood_on"] == pytest.approx([nan, 1.0], nan_ok=True)
    assert given["delay"] == pytest.approx([2.0, nan], nan_ok=True)  # 4 steps more
    assert given["detour"] == pytest.approx([40.0 / 32.0 - 1.0, nan], nan_ok=True)
    assert given["astern"] == [0.0, 0.0]
    *counts, fleeting = count_duties(judge(recording), both)
    assert fleeting.tolist() == [0]
    assert [by_role[0, 1:3].tolist() for by_role in counts] == [[int(keeps), 1], [1, 1]]  # give-way, stand-on
    # Hours of both vessels, of the one that is scored, and of no encounter.
    hours = float(steps_and_paths(recording)[0].sum()) * 0.5 / 3600.0
    whole, none = broken_duty_rates(judge(recording), recording, both, [torch.tensor([True]), torch.tensor([False])])
    assert whole["broken_duties"] == 1 - int(keeps) and whole["hours_per_broken_head_on_low"] is None
    low, high = poisson_interval(1 - int(keeps))
    assert whole["hours_per_broken_duty"] == (None if keeps else pytest.approx(hours))
    assert whole["hours_per_broken_give_way_high"] == (None if keeps else pytest.approx(hours / low))
    assert whole["hours_per_broken_duty_low"] == pytest.approx(hours / high)
    assert whole["hours_per_broken_stand_on_low"] == pytest.approx(hours / poisson_interval(0)[1])
    assert none["broken_duties"] == 0 and none["hours_per_broken_duty_low"] is None
    (other,) = broken_duty_rates(judge(recording), recording, torch.tensor([[False, True]]), [torch.tensor([True])])
    assert other["broken_duties"] == 0 and other["hours_per_broken_give_way_low"] is None
    assert other["hours_per_broken_duty_low"] == pytest.approx(0.5 * hours / poisson_interval(0)[1])
    # A contact breaks the duties of both; who is not scored has no metrics.
    recording.vessel_radius[:], both[0, 0] = 10.0, False
    found = measure_compliance(judge(recording), recording, alone, both)
    assert found["rules_kept"][0].tolist() == pytest.approx([nan, 0.0], nan_ok=True)
    assert all(each[0, 0].isnan() for each in found.values())


def test_summary_counts_encounters_and_vessels():
    nan = math.nan
    rows = {
        name: torch.zeros(3, 2, dtype=torch.float64)
        for name in (*SHARE_METRICS[1:], "safety", "delay", "detour", "astern")
    }
    rows["rules_kept"] = torch.tensor([[1.0, nan], [0.0, 1.0], [nan, nan]], dtype=torch.float64)
    rows["delay"] = torch.tensor([[1.0, 3.0], [nan, 2.0], [9.0, 9.0]], dtype=torch.float64)
    rows["stood_on"] = rows["stood_on"] * nan
    seen = compliance_summary(rows, torch.tensor([True, True, False]))
    assert seen["all_kept"] == 0.5 and seen["rules_kept"] == pytest.approx(2 / 3)
    assert seen["delay"] == 2.0 and seen["delay_low"] == pytest.approx(2.0 - 1.96 * (1 / 3) ** 0.5, abs=1e-3)
    assert seen["delay_high"] - seen["delay"] == pytest.approx(seen["delay"] - seen["delay_low"])
    assert seen["stood_on"] is None and 0.0 < seen["rules_kept_low"] < 2 / 3
    single = compliance_summary(rows, torch.tensor([False, True, False]))
    assert single["delay"] == 2.0 and single["delay_low"] is single["delay_high"] is None


def test_the_share_astern_counts_active_vessels_by_their_speed_along_the_bow():
    """At a bow of 60 degrees: -0.06 m/s, 0.06, -0.06 of one that has ended; at 0: -0.04, -0.06."""
    third = math.pi / 3
    state = SimpleNamespace(
        pose=torch.tensor([[[0.0, 0.0, angle] for angle in (third, third, third, 0.0, 0.0)]]),
        velocity_ground=torch.tensor([[[0.4, -0.3], [-0.4, 0.3], [0.4, -0.3], [-0.04, -1.0], [-0.06, 1.0]]]),
        active=torch.tensor([[True, True, False, True, True]]),
    )
    world = SimpleNamespace(now=SimpleNamespace(state=state))
    counter, env = EpisodeWatch(), SimpleNamespace(config=WorldConfig())
    counter(SimpleNamespace(before=world, after=world, rows=torch.tensor([0])), env)
    assert counter.value == 2 / 4


@pytest.mark.heavy
@pytest.mark.parametrize(("land", "sees_through"), [(False, False), (True, False), (True, True)])
def test_the_reward_penalises_the_duties_that_the_judge_finds_broken(land, sees_through):
    """Compare vessels that steer at random, step by step in the world and afterwards in its recording."""
    config = WorldConfig(
        reward=RewardConfig(timestep_penalty=0.0, COLREGs_penalty=0.0, broken_duty_penalty=-100.0),
        sensor=SensorConfig(sees_through_land=sees_through),
        max_steps=60,
        dt=0.25,
        substeps=2,
        ends_at_first_collision=True,
    )
    scenarios = make_scenario_set("encounters", config, 20, 3).parts[-1].scenarios
    if land:
        scenarios = with_piers_between(scenarios)
    generator = torch.Generator().manual_seed(0)

    def steer(step):
        mask = step["robots", "mask"]
        return step.set(("robots", "action"), 2.0 * torch.rand((*mask.shape, 2), generator=generator) - 1.0)

    options = {"continuous": True, "device": torch.device("cpu"), "drop_ended": False}
    _, recording = record(steer, scenarios, config, name="x", groups=["all"] * len(scenarios), **options)
    judged = judge(recording)
    broken = torch.zeros(recording.robot_mask.shape, dtype=torch.bool)
    broken[judged.episode[judged.state.is_broken], judged.own[judged.state.is_broken]] = True
    assert torch.equal((recording.reward < -50.0).any(0), broken)
    assert 0.1 < broken.double().mean() < 0.9
    if land:  # the setting makes a difference to the verdict
        other = judge(replace(recording, sees_through_land=~recording.sees_through_land))
        assert len(other.own) != len(judged.own)


def with_piers_between(scenarios):
    """Scenarios with a pier of 4 m across the middle of the line between the first two starts."""
    scenarios = with_room_for_shores(scenarios, ScenarioConfig(shore_segments=16))
    first, second = scenarios.start[:, :2].unbind(1)
    along = 2.0 * torch.nn.functional.normalize(second - first, dim=-1).flip(-1) * torch.tensor([1.0, -1.0])
    middle = 0.5 * (first + second)
    scenarios.shores[:, 0] = torch.cat((middle - along, middle + along), -1)
    scenarios.shores[:, 1] = scenarios.shores[:, 0].roll(2, -1)
    return scenarios
