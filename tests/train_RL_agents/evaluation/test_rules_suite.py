"""Conduct told from tracks that are drawn by hand."""

import math
from types import SimpleNamespace

import pytest
import torch

from marinenav_env import WorldConfig
from train_RL_agents.evaluation.contenders import ActingOptions, run_set
from train_RL_agents.evaluation.rules_suite import ENCOUNTERS, complies, conduct, summary
from train_RL_agents.evaluation.suites import make_set

STEPS = 60
CROSSING = ENCOUNTERS["crossing from starboard"]
HEAD_ON, OVERTAKING = ENCOUNTERS["head-on"], ENCOUNTERS["overtaking"]


def track(start, course, speed, changes=()):
    """Poses [T, 3] and speeds over ground [T, 3] of a vessel that changes course and speed.

    Args:
        changes: by step, turn (rad) and speed from then on (m/s).
    """
    x, y = start
    changes, poses, velocities = dict(changes), [], []
    for number in range(STEPS + 1):
        turn, speed = changes.get(number, (0.0, speed))
        course += turn
        poses.append([x, y, course % (2.0 * math.pi)])
        velocities.append([speed * math.cos(course), speed * math.sin(course), 0.0])
        x, y = x + 0.5 * velocities[-1][0], y + 0.5 * velocities[-1][1]
    return poses, velocities


def seen(own, other, collided_at=None):
    """Conduct of one encounter."""
    poses, velocities = (torch.tensor(each).transpose(0, 1)[:, None]
                         for each in zip(own, other, strict=True))  # fmt: skip
    active = torch.ones(STEPS + 1, 1, 2, dtype=torch.bool)
    collided = torch.zeros(STEPS, 1, 2, dtype=torch.bool)
    if collided_at is not None:
        active[collided_at + 1 :] = False
        collided[collided_at] = True
    radius = torch.full((1, 2), 2.8)
    return conduct(SimpleNamespace(poses=poses, velocities=velocities, active=active,
                                   collided=collided, vessel_radius=radius))  # fmt: skip


FROM_STARBOARD = track((20.0, 20.0), -math.pi / 2, 2.0)
FROM_AHEAD = track((40.0, 0.0), math.pi, 2.0)


def test_nobody_gives_way():
    found = seen(track((0.0, 0.0), 0.0, 2.0), FROM_STARBOARD, collided_at=19)
    assert found.turn.tolist() == [[0, 0]]
    assert found.gave_way.tolist() == [[False, False]]
    assert found.collision.tolist() == [True]
    assert found.gap.item() == pytest.approx(-5.6, abs=2.0)
    assert not complies(CROSSING, found).any()


def test_give_way_vessel_turns_and_passes_astern():
    own = track((0.0, 0.0), 0.0, 2.0, {5: (0.9, 2.0), 28: (-0.9, 2.0)})
    found = seen(own, FROM_STARBOARD)
    assert found.turn.tolist() == [[1, 0]]
    assert found.gave_way.tolist() == [[True, False]]
    assert not found.crossed_ahead[0, 0]
    assert complies(CROSSING, found).all()
    assert not complies(ENCOUNTERS["crossing from port"], found).any()


def test_give_way_vessel_slows_down():
    found = seen(track((0.0, 0.0), 0.0, 2.0, {5: (0.0, 0.5), 30: (0.0, 2.0)}), FROM_STARBOARD)
    assert found.turn.tolist() == [[0, 0]]
    assert found.gave_way.tolist() == [[True, False]]
    assert complies(CROSSING, found).all()


def test_give_way_vessel_hurries_past_ahead():
    own = track((0.0, 0.0), 0.0, 2.0, {2: (-0.3, 4.0)})
    found = seen(own, FROM_STARBOARD)
    assert found.turn.tolist() == [[-1, 0]]
    assert found.gave_way[0, 0]
    assert found.crossed_ahead[0, 0]
    assert not complies(CROSSING, found).any()


@pytest.mark.parametrize(("own_turn", "other_turn", "kept"),
                         [(0.4, 0.4, True), (0.4, 0.0, False), (-0.4, -0.4, False)])  # fmt: skip
def test_head_on_both_turn_to_starboard(own_turn, other_turn, kept):
    own = track((0.0, 0.0), 0.0, 2.0, {4: (own_turn, 2.0)})
    other = track((40.0, 0.0), math.pi, 2.0, {4: (other_turn, 2.0)})
    assert complies(HEAD_ON, seen(own, other)).tolist() == [kept]


def test_turns_after_the_closest_approach_do_not_count():
    own = track((0.0, 4.0), 0.0, 2.0, {25: (0.8, 1.0)})
    found = seen(own, FROM_AHEAD)
    assert found.turn.tolist() == [[0, 0]]
    assert not found.gave_way.any()
    assert found.gap.item() == pytest.approx(4.0 - 5.6, abs=0.1)


def test_overtaking_on_either_side():
    other = track((12.0, 0.0), 0.0, 0.8)
    for side in (0.4, -0.4):
        own = track((0.0, 0.0), 0.0, 2.0, {4: (side, 2.0), 12: (-side, 2.0)})
        found = seen(own, other)
        assert found.gave_way.tolist() == [[True, False]]
        assert complies(OVERTAKING, found).all()


def test_summary_of_two_kinds():
    good = seen(track((0.0, 0.0), 0.0, 2.0, {5: (0.9, 2.0), 28: (-0.9, 2.0)}), FROM_STARBOARD)
    row = summary(CROSSING, good, [True])
    assert (row["compliance"], row["only_own_gave_way"], row["starboard_turns"]) == (1.0, 1.0, 1.0)
    assert row["both_gave_way"] == row["nobody_gave_way"] == row["only_other_gave_way"] == 0.0
    assert row["closest_approach"] == pytest.approx(max(0.0, good.gap.item()))


def test_going_straight_breaks_every_rule():
    chosen = make_set("rules", WorldConfig(max_steps=60), 4)
    _, recording = run_set(
        "straight", chosen, WorldConfig(), ActingOptions(), torch.device("cpu"), "x"
    )
    found = conduct(recording)
    for name, encounter in ENCOUNTERS.items():
        rows = [group == name for group in recording.groups]
        assert sum(rows) == 4
        assert summary(encounter, found, rows)["compliance"] == 0.0
    assert found.collision.double().mean() > 0.8
    assert found.gave_way.double().mean() < 0.3
