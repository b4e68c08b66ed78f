"""Manoeuvres told from tracks that are drawn by hand."""

import math
import random
from types import SimpleNamespace

import pytest
import torch

from marinenav_env import WorldConfig
from marinenav_env.config import VesselConfig
from marinenav_env.rules.roles import ROLES, relative_motion, roles
from train_RL_agents.evaluation.contenders import ActingOptions, Contender, run_set
from train_RL_agents.evaluation.rules_suite import ENCOUNTERS, encounter_scenarios
from train_RL_agents.evaluation.suites import make_scenario_set
from train_RL_agents.evaluation.two_vessel_rules import (
    EncounterOutcomes,
    compliance_metrics,
    complies,
    encounter_outcomes,
)

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


def recorded(own, other, collided_at=None):
    """A recording of one encounter."""
    poses, velocities = (torch.tensor(each).transpose(0, 1)[:, None] for each in zip(own, other, strict=True))
    active = torch.ones(STEPS + 1, 1, 2, dtype=torch.bool)
    collided = torch.zeros(STEPS, 1, 2, dtype=torch.bool)
    if collided_at is not None:
        active[collided_at + 1 :] = False
        collided[collided_at] = True
    radius = torch.full((1, 2), 2.8)
    return SimpleNamespace(poses=poses, velocities=velocities, active=active, collided=collided, vessel_radius=radius)


def seen(*encounter):
    """Manoeuvres of one encounter."""
    return encounter_outcomes(recorded(*encounter))


def joined(*parts):
    """Manoeuvres in several encounters."""
    columns = zip(*(vars(each).values() for each in parts), strict=True)
    return EncounterOutcomes(*map(torch.cat, columns))


def test_only_an_overtaken_vessel_has_another_thrust():
    found = {name: each.other_thrust for name, each in ENCOUNTERS.items() if each.other_thrust}
    assert found == {"overtaking": 120.0}


@pytest.mark.parametrize("encounter", ENCOUNTERS.values(), ids=ENCOUNTERS)
def test_scenarios_equal_scalar_code(encounter):
    vessel = VesselConfig(xU=(-60.0, -50.0, -40.0), xUU=-30.0)
    drawn = encounter_scenarios(encounter, vessel, 4, 7)
    generator = torch.Generator().manual_seed(7)
    offset, turn, faster = (
        (2.0 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1.0).tolist()
        for shape in ((4, 2, 2), (4, 2), (4, 2))
    )
    assert drawn.robot_mask.tolist() == [[True, True]] * 4
    assert drawn.start.dtype == torch.float64
    for row in range(4):
        for r, course in enumerate((0.0, encounter.course)):
            ahead, before = (math.cos(course), math.sin(course)), encounter.distance[r]
            start = [27.5 - before * ahead[k] + offset[row][r][k] for k in range(2)]
            assert drawn.start[row, r].tolist() == pytest.approx(start)
            goal = [27.5 + 20.0 * each for each in ahead]
            assert drawn.goal[row, r].tolist() == pytest.approx(goal)
            heading = course + math.radians(2.5) * turn[row][r]
            assert drawn.heading[row, r].item() == pytest.approx(heading)
            speed = encounter.speed[r] * (1.0 + 0.15 * faster[row][r])
            velocity = [speed * math.cos(heading), speed * math.sin(heading), 0.0]
            assert drawn.velocity[row, r].tolist() == pytest.approx(velocity)
            drag = ((60.0, 50.0)[r] + 30.0 * speed) * speed
            assert drawn.thrust[row, r].tolist() == pytest.approx([drag / 2.0] * 2)


def test_every_encounter_has_the_role_of_its_name():
    expected = {
        "head-on": ("head-on", "head-on"),
        "overtaking": ("overtaking", "overtaken"),
        "crossing from starboard": ("give-way", "stand-on"),
        "crossing from port": ("stand-on", "give-way"),
    }
    courses = {name: math.degrees(each.course) for name, each in ENCOUNTERS.items()}
    assert list(courses.values()) == pytest.approx([180.0, -90.0, 90.0, 0.0])
    for name, encounter in ENCOUNTERS.items():
        first, other = zip(encounter.distance, encounter.speed, strict=True)
        assert first[0] / first[1] == pytest.approx(other[0] / other[1])  # at one time
        drawn = encounter_scenarios(encounter, VesselConfig(), 20, 0)
        pose = torch.cat((drawn.start, drawn.heading[..., None]), -1)
        found = roles(relative_motion(pose, drawn.velocity))
        for one, role in enumerate(expected[name]):
            assert {ROLES[number] for number in found[one, 1 - one]} == {role}, name
            gives_way = role in ("head-on", "give-way", "overtaking")
            assert encounter.gives_way[one] == gives_way, name


def scalar_manoeuvres(own, other, collided_at):
    """Gap, turns, who gave way and who crossed ahead, told frame by frame."""
    poses, velocities = zip(own, other, strict=True)
    # Active until the step of the collision; the frame after it counts, too.
    last = STEPS if collided_at is None else min(collided_at + 1, STEPS)
    apart = [math.dist(a[:2], b[:2]) for a, b in zip(*poses, strict=True)][: last + 1]
    closest = apart.index(min(apart))
    turns, gave_way, ahead = [0, 0], [False, False], [False, False]
    for one in (0, 1):
        fastest = 0.0
        for t in range(closest + 1):
            off = poses[one][t][2] - poses[one][0][2]
            off = math.atan2(math.sin(off), math.cos(off))
            if abs(off) >= math.radians(15.0):
                turns[one] = turns[one] or (1 if off > 0.0 else -1)
                gave_way[one] = True
            speed = math.hypot(*velocities[one][t][:2])
            fastest = max(fastest, speed)
            gave_way[one] |= speed < 0.7 * fastest
        theta, across = poses[1 - one][0][2], []
        for t in range(last + 1):
            dx, dy = (poses[one][t][k] - poses[1 - one][t][k] for k in range(2))
            across.append(math.cos(theta) * dy - math.sin(theta) * dx)
            passes = t > 0 and across[t] * across[t - 1] <= 0.0
            ahead[one] |= passes and math.cos(theta) * dx + math.sin(theta) * dy > 0.0
    return min(apart) - 5.6, turns, gave_way, ahead


def test_manoeuvres_equal_scalar_code():
    draw, kinds, encounters = random.Random(5), set(), []
    for _ in range(60):
        tracks = []
        for course in (0.0, draw.uniform(-3.0, 3.0)):
            start = (
                20.0 - draw.uniform(5.0, 25.0) * math.cos(course),
                20.0 - draw.uniform(5.0, 25.0) * math.sin(course),
            )
            changes = {
                draw.randrange(1, 30): (draw.uniform(-0.6, 0.6), draw.uniform(0.8, 2.5))
                for _ in range(draw.randrange(3))
            }
            tracks.append(track(start, course, draw.uniform(1.0, 2.5), changes))
        encounters.append((*tracks, draw.choice([None, None, 8, 20])))
    parts = [vars(recorded(*each)) for each in encounters]
    found = encounter_outcomes(
        SimpleNamespace(
            **{
                name: torch.cat([each[name] for each in parts], 0 if name == "vessel_radius" else 1)
                for name in parts[0]
            }
        )
    )
    for row, encounter in enumerate(encounters):
        gap, turns, gave_way, ahead = scalar_manoeuvres(*encounter)
        assert found.gap[row].item() == pytest.approx(gap, abs=1e-4), row
        assert found.turn[row].tolist() == turns and found.gave_way[row].tolist() == gave_way
        assert found.crossed_ahead[row].tolist() == ahead
        assert bool(found.collision[row]) == (encounter[2] is not None)
        kinds |= {*turns, *(f"ahead {each}" for each in ahead), str(gave_way)}
    assert len(kinds) == 3 + 2 + 4, kinds


FROM_STARBOARD = track((20.0, 20.0), -math.pi / 2, 2.0)
FROM_AHEAD = track((40.0, 0.0), math.pi, 2.0)


def test_nobody_gives_way():
    found = seen(track((0.0, 0.0), 0.0, 2.0), FROM_STARBOARD, 19)
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


def test_a_vessel_that_comes_from_port_gives_way():
    kind, straight = ENCOUNTERS["crossing from port"], track((0.0, 0.0), 0.0, 2.0)
    turns = track((20.0, -20.0), math.pi / 2, 2.0, {5: (0.9, 2.0), 28: (-0.9, 2.0)})
    assert complies(kind, seen(straight, turns)).all()
    assert not complies(kind, seen(straight, track((20.0, -20.0), math.pi / 2, 2.0))).any()


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


@pytest.mark.parametrize(("own_turn", "other_turn", "kept"), [(0.4, 0.4, True), (0.4, 0.0, False), (-0.4, -0.4, False)])
def test_head_on_both_turn_to_starboard(own_turn, other_turn, kept):
    own = track((0.0, 0.0), 0.0, 2.0, {4: (own_turn, 2.0)})
    other = track((40.0, 0.0), math.pi, 2.0, {4: (other_turn, 2.0)})
    assert complies(HEAD_ON, seen(own, other)).tolist() == [kept]


def test_every_encounter_is_judged_by_itself():
    turns = track((0.0, 0.0), 0.0, 2.0, {4: (0.4, 2.0)})
    other = track((40.0, 0.0), math.pi, 2.0, {4: (0.4, 2.0)})
    assert complies(HEAD_ON, joined(seen(turns, other), seen(turns, FROM_AHEAD))).tolist() == [True, False]
    astern = track((0.0, 0.0), 0.0, 2.0, {5: (0.9, 2.0), 28: (-0.9, 2.0)})
    straight = track((0.0, 0.0), 0.0, 2.0)
    hurried = track((0.0, 0.0), 0.0, 2.0, {2: (-0.3, 4.0)})
    both = joined(*(seen(own, FROM_STARBOARD) for own in (astern, straight, hurried)))
    assert complies(CROSSING, both).tolist() == [True, False, False]


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


def test_a_vessel_that_stays_right_ahead_has_crossed_ahead():
    found = seen(track((0.0, 0.0), 0.0, 2.0), track((12.0, 0.0), 0.0, 0.8), 8)
    assert found.crossed_ahead.tolist() == [[False, True]]


def test_summary_of_two_kinds():
    good = seen(track((0.0, 0.0), 0.0, 2.0, {5: (0.9, 2.0), 28: (-0.9, 2.0)}), FROM_STARBOARD)
    row = compliance_metrics(CROSSING, good, [True])
    assert (row["compliance"], row["only_own_gave_way"], row["starboard_turns"]) == (1.0, 1.0, 1.0)
    assert row["both_gave_way"] == row["nobody_gave_way"] == row["only_other_gave_way"] == 0.0
    assert row["closest_approach"] == pytest.approx(max(0.0, good.gap.item()))


def test_summary_counts_only_its_rows_and_means_over_them():
    turning = track((0.0, 0.0), 0.0, 2.0, {5: (0.9, 2.0), 28: (-0.9, 2.0)})
    to_port = track((0.0, 0.0), 0.0, 2.0, {5: (-0.5, 2.0)})
    straight = track((0.0, 0.0), 0.0, 2.0)
    other_turns = track((20.0, 20.0), -math.pi / 2, 2.0, {5: (0.9, 2.0)})
    found = [
        seen(turning, FROM_STARBOARD),
        seen(straight, other_turns),
        seen(to_port, other_turns),
        seen(straight, FROM_STARBOARD, 19),
    ]
    row = compliance_metrics(CROSSING, joined(*found, found[0]), [True] * 4 + [False])
    assert row["compliance"] == 0.5
    names = ("only_own_gave_way", "only_other_gave_way", "both_gave_way", "nobody_gave_way")
    assert [row[name] for name in names] == [0.25] * 4
    assert row["starboard_turns"] == 0.5
    gaps = [max(each.gap.item(), 0.0) for each in found]
    assert row["closest_approach"] == pytest.approx(sum(gaps) / 4)
    # Where nobody turned there is no share of turns.
    assert compliance_metrics(CROSSING, found[3], [True])["starboard_turns"] == 0.0


@pytest.mark.heavy
def test_going_straight_breaks_every_rule():
    chosen = make_scenario_set("rules", WorldConfig(max_steps=60), 4)
    _, recording = run_set(Contender("straight"), chosen, WorldConfig(), ActingOptions(), torch.device("cpu"), "x")
    found = encounter_outcomes(recording)
    for name, encounter in ENCOUNTERS.items():
        rows = [group == name for group in recording.groups]
        assert sum(rows) == 4
        assert compliance_metrics(encounter, found, rows)["compliance"] == 0.0
    assert found.collision.double().mean() > 0.8
    assert found.gave_way.double().mean() < 0.3
