"""Views of recorded episodes against the recording and the outlines that the rules describe."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from marinenav_env.config import ColregsConfig
from marinenav_env.rules.encounters import CANDIDATE, CONFIRMED
from tests.train_RL_agents.figures.helpers import CROSSING_PAIR, HEAD_ON_PAIR, in_turned_frame, small_recording
from train_RL_agents.evaluation.judging.seamanship import judge
from train_RL_agents.figures.episode_view import (
    CROSSING,
    HEAD_ON,
    NO_RULE,
    compute_clearance,
    view_episode,
    zone_in_world,
    zone_outline,
)

RULES = ColregsConfig()


@pytest.mark.parametrize("number", (1, 2, 8))
def test_view_is_the_recording_cut_to_what_was_there(number):
    recording, row = small_recording(), number - 1
    view = view_episode(recording, number)
    steps, there = int(recording.steps[row]), recording.robot_mask[row]
    assert (view.frames, view.vessels) == (steps + 1, int(there.sum()))
    for name in ("poses", "velocities", "thrust"):
        expected = getattr(recording, name)[: steps + 1, row, there].numpy()
        assert np.array_equal(getattr(view, name), expected)
    # While the episode goes on, those are active that the recording calls so.
    assert np.array_equal(view.active[:-1], recording.active[:steps, row, there].numpy())
    # What the world said after a step holds in the frame that the next one begins with.
    is_active = recording.active[1:steps, row, there].numpy()
    said = recording.colregs[: steps - 1, row, there].numpy()
    assert np.array_equal((view.rule[1:-1] != NO_RULE)[is_active], said[is_active])
    turn = recording.phi[: steps - 1, row, there].numpy()
    assert view.turn[1:-1][is_active] == pytest.approx(turn[is_active], abs=1e-5)
    assert view.title == (f"episode {number} (group {number}), seed 0, {recording.outcomes[row]}")
    reach = recording.goal_distance[row, there].numpy()
    arrived = np.hypot(*(view.goals - view.poses[-1, :, :2]).T) <= reach
    assert np.array_equal(view.arrived[-1], arrived & ~view.collided[-1])
    assert view.distance[0] == pytest.approx(np.hypot(*(view.goals - view.poses[0, :, :2]).T))


def test_encounters_are_those_that_the_judge_finds():
    recording = small_recording()
    judged, count = judge(recording), 0
    for row in (CROSSING_PAIR, HEAD_ON_PAIR):
        view, here = view_episode(recording, row + 1), judged.episode == row
        expected = torch.stack((judged.own, judged.other, judged.state.role.long()), -1)[here].tolist()
        before = np.pad(view.phase[:-1], ((1, 0), (0, 0), (0, 0)))
        begins = np.isin(view.phase, (CANDIDATE, CONFIRMED)) & ~np.isin(before, (CANDIDATE, CONFIRMED))
        found = [[own, other, view.role[frame, own, other]] for frame, own, other in np.argwhere(begins)]
        assert sorted(found) == sorted(expected)
        assert np.array_equal(view.role > 0, view.phase > 0) and not view.phase[:, [0, 1], [0, 1]].any()
        confirmed = {(own, other) for _, own, other in np.argwhere(view.phase == CONFIRMED)}
        counts = here & judged.state.counts
        assert confirmed == {*zip(judged.own[counts].tolist(), judged.other[counts].tolist(), strict=True)}
        count += len(expected)
    assert count > 3


def test_rules_and_zones_are_those_of_the_recorded_world():
    rules = ColregsConfig(head_on_heading=4.0)  # no course differs by so much
    changed = replace(small_recording(), rules=rules)
    view = view_episode(changed, HEAD_ON_PAIR + 1)
    assert not view.rule.any()
    assert view.rules == rules
    wide = replace(small_recording(), rules=ColregsConfig(head_on_half_width=9.0))
    view = view_episode(wide, HEAD_ON_PAIR + 1)
    frame, vessel = np.argwhere(view.rule == HEAD_ON)[0]
    corners = zone_in_world(view, vessel, frame)
    widths = np.hypot(*(corners[0] - corners[-1]))
    assert widths == pytest.approx(18.0, abs=1e-4)


def test_objects_are_seen_where_they_are_in_the_world():
    """Without noise, what is seen is where the others and the obstacles are."""
    view = view_episode(small_recording(), 3)
    assert view.seen.any(0).any(0).any()
    known = 0
    for frame in range(view.frames - 1):
        others = np.concatenate((view.poses[frame, :, :2], view.obstacles[:, :2]))
        for vessel in range(view.vessels):
            for place in view.objects[frame, vessel][view.seen[frame, vessel]][:, :2]:
                assert np.hypot(*(others - place).T).min() < 1e-4
                known += 1
    assert known > 10
    assert not view.seen[-1].any()
    assert not view.objects[~view.seen].any()


@pytest.mark.parametrize("rule", [CROSSING, HEAD_ON])
def test_outline_holds_just_the_points_of_the_zone(rule):
    """Points of a grid, against the inequalities of the specification."""
    corners = zone_outline(rule, RULES)
    sides = np.roll(corners, -1, 0) - corners
    for x in np.arange(-12.25, 20.0, 1.5):
        for y in np.arange(-20.25, 7.0, 1.5):
            if rule == CROSSING:
                expected = -9 <= x <= 12 and -17 <= y <= 0 and not (y + 7 > -(7 / 12) * (x - 12))
            else:
                expected = 0 <= x <= 17 and abs(y) <= 4.5
            crosses = sides[:, 0] * (y - corners[:, 1]) - sides[:, 1] * (x - corners[:, 0])
            inside = (crosses > 0).all() or (crosses < 0).all()
            assert inside == expected, (x, y)


def test_a_corner_that_is_not_cut_stays():
    whole = zone_outline(CROSSING, ColregsConfig(crossing_corner_y=20.0))
    assert sorted(map(tuple, whole.tolist())) == [(-9, -17), (-9, 0), (12, -17), (12, 0)]


@pytest.mark.parametrize("index", [HEAD_ON_PAIR, CROSSING_PAIR])
def test_zone_is_drawn_where_the_vessel_is_in_it(index):
    view = view_episode(small_recording(), index + 1)
    frame, vessel = np.argwhere(view.rule != NO_RULE)[0]
    rule = view.rule[frame, vessel]
    outline = zone_in_world(view, vessel, frame)
    x, y, vx, vy, _ = view.objects[frame, vessel, view.rule_object[frame, vessel]]
    turned = [in_turned_frame(point, (x, y), (vx, vy)) for point in outline]
    assert np.array(turned) == pytest.approx(zone_outline(rule, RULES), abs=1e-4)
    # The vessel itself is within.
    sides, own = np.roll(outline, -1, 0) - outline, view.poses[frame, vessel, :2] - outline
    crosses = sides[:, 0] * own[:, 1] - sides[:, 1] * own[:, 0]
    assert (crosses > 0).all() or (crosses < 0).all()
    assert 0.0 < view.turn[frame, vessel] < math.pi


def test_clearance_is_to_the_nearest_disc():
    places = np.array([[[0.0, 0.0], [3.0, 4.0], [0.0, 20.0]]] * 3)
    active = np.array([[True, True, True], [True, False, True], [True, False, True]])
    radius, obstacles = np.array([1.0, 2.0, 1.0]), np.array([[10.0, 0.0, 1.5]])
    found = compute_clearance(places, active, radius, obstacles)
    # The second ends in frame 1, in which it still counts.
    assert found[:2, 0].tolist() == pytest.approx([2.0, 2.0])
    assert found[2, 0] == pytest.approx(10.0 - 1.0 - 1.5)
    assert found[1, 1] == pytest.approx(2.0) and found[2, 1] == math.inf
    alone = compute_clearance(places[:, :1], active[:, :1], radius[:1], obstacles[:0])
    assert (alone == math.inf).all()


@pytest.mark.parametrize("number", (1, 2, 8))
def test_terms_add_up_to_the_reward(number):
    recording, row = small_recording(), number - 1
    view = view_episode(recording, number)
    steps, there = int(recording.steps[row]), recording.robot_mask[row]
    reward = recording.reward[:steps, row, there].numpy()
    assert list(view.reward_terms) == ["progress", "rules", "time", "end"]
    assert sum(view.reward_terms.values())[1:] == pytest.approx(reward, abs=2e-3)
    assert not any(term[0].any() for term in view.reward_terms.values())
    acts = recording.active[:steps, row, there].numpy()
    assert view.reward_terms["time"][1:] == pytest.approx(-0.1 * acts)
    ends = view.reward_terms["end"][1:]
    came, hit = (getattr(recording, name)[:steps, row, there].numpy() for name in ("arrived", "collided"))
    assert ends == pytest.approx(10.0 * came - 5.0 * hit, abs=2e-3)


def test_a_vessel_that_no_action_controls_has_no_reward():
    recording = small_recording()
    behaviour = torch.full(recording.robot_mask.shape, -1)
    behaviour[:, 1] = 0
    reward = recording.reward.clone()
    reward[..., 1] = 0.0
    terms = view_episode(replace(recording, behaviour=behaviour, reward=reward), 1).reward_terms
    assert not any(term[:, 1].any() for term in terms.values()) and terms["progress"][:, 0].any()


def test_a_recording_without_weights_has_the_progress_and_the_rest():
    old = replace(small_recording(), weights=None, seed=None)
    view = view_episode(old, 1)
    assert list(view.reward_terms) == ["progress", "other"]
    assert view.seed is None and "seed" not in view.title


def test_the_closest_approach_is_the_smallest_clearance():
    view = view_episode(small_recording(), CROSSING_PAIR + 1)
    gap, frame, vessel = view.closest_approach
    assert gap == view.clearance.min() == view.clearance[frame, vessel]
    nowhere = replace(view, clearance=np.full_like(view.clearance, np.inf))
    assert nowhere.closest_approach is None


def test_returns_are_in_rewards_as_they_are():
    as_scaled, known, unknown = (
        view_episode(replace(small_recording(), reward_scale=scale), 1) for scale in (1.0, 0.1, None)
    )
    assert known.quantiles == pytest.approx(10.0 * as_scaled.quantiles)
    assert unknown.quantiles is None
