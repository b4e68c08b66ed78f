"""Manoeuvres told from tracks that are drawn by hand."""

import math
import random
from types import SimpleNamespace

import pytest
import torch

from marinenav_env.config import VesselConfig
from marinenav_env.rules.roles import ROLES, relative_motion, roles
from train_RL_agents.evaluation.rules_suite import ENCOUNTERS, encounter_scenarios
from train_RL_agents.evaluation.two_vessel_rules import (
    EncounterOutcomes,
    compliance_metrics,
    complies,
    encounter_outcomes,
)

STEPS = 60
CROSSING = ENCOUNTERS["crossing from starboard"]


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


STRAIGHT = track((0.0, 0.0), 0.0, 2.0)
ASTERN = track((0.0, 0.0), 0.0, 2.0, {5: (0.9, 2.0), 28: (-0.9, 2.0)})
HURRIED = track((0.0, 0.0), 0.0, 2.0, {2: (-0.3, 4.0)})


def turning(start, course, turn):
    """A track that turns at once."""
    return track(start, course, 2.0, {4: (turn, 2.0)})


@pytest.mark.parametrize(
    ("kind", "tracks", "turns", "gave_way", "ahead", "kept"),
    [
        ("crossing from starboard", (STRAIGHT, FROM_STARBOARD, 19), [0, 0], [False, False], None, False),
        ("crossing from starboard", (ASTERN, FROM_STARBOARD), [1, 0], [True, False], [False, True], True),
        ("crossing from port", (ASTERN, FROM_STARBOARD), [1, 0], [True, False], [False, True], False),
        (
            "crossing from starboard",
            (track((0.0, 0.0), 0.0, 2.0, {5: (0.0, 0.5), 30: (0.0, 2.0)}), FROM_STARBOARD),
            *([0, 0], [True, False], None, True),
        ),
        ("crossing from starboard", (HURRIED, FROM_STARBOARD), [-1, 0], [True, False], [True, False], False),
        (
            "crossing from port",
            (STRAIGHT, track((20.0, -20.0), math.pi / 2, 2.0, {5: (0.9, 2.0), 28: (-0.9, 2.0)})),
            *([0, 1], [False, True], None, True),
        ),
        ("crossing from port", (STRAIGHT, track((20.0, -20.0), math.pi / 2, 2.0)), [0, 0], [False, False], None, False),
        ("head-on", (turning((0.0, 0.0), 0.0, 0.4), turning((40.0, 0.0), math.pi, 0.4)), [1, 1], None, None, True),
        ("head-on", (turning((0.0, 0.0), 0.0, 0.4), FROM_AHEAD), [1, 0], None, None, False),
        ("head-on", (turning((0.0, 0.0), 0.0, -0.4), turning((40.0, 0.0), math.pi, -0.4)), [-1, -1], None, None, False),
        # A turn after the closest approach does not count.
        ("head-on", (track((0.0, 4.0), 0.0, 2.0, {25: (0.8, 1.0)}), FROM_AHEAD), [0, 0], [False, False], None, False),
        (
            "overtaking",
            (track((0.0, 0.0), 0.0, 2.0, {4: (0.4, 2.0), 12: (-0.4, 2.0)}), track((12.0, 0.0), 0.0, 0.8)),
            *([1, 0], [True, False], None, True),
        ),
        (
            "overtaking",
            (track((0.0, 0.0), 0.0, 2.0, {4: (-0.4, 2.0), 12: (0.4, 2.0)}), track((12.0, 0.0), 0.0, 0.8)),
            *([-1, 0], [True, False], None, True),
        ),
        # A vessel that stays right ahead has crossed ahead.
        ("overtaking", (STRAIGHT, track((12.0, 0.0), 0.0, 0.8), 8), [0, 0], [False, False], [False, True], False),
    ],
)
def test_manoeuvres_and_rules_of_tracks(kind, tracks, turns, gave_way, ahead, kept):
    found = seen(*tracks)
    assert found.turn.tolist() == [turns]
    assert gave_way is None or found.gave_way.tolist() == [gave_way]
    assert ahead is None or found.crossed_ahead.tolist() == [ahead]
    assert complies(ENCOUNTERS[kind], found).tolist() == [kept]


def test_every_encounter_is_judged_by_itself():
    three = joined(*(seen(own, FROM_STARBOARD) for own in (ASTERN, STRAIGHT, HURRIED)))
    assert complies(CROSSING, three).tolist() == [True, False, False]


def test_summary_counts_only_its_rows_and_means_over_them():
    to_port = track((0.0, 0.0), 0.0, 2.0, {5: (-0.5, 2.0)})
    other_turns = track((20.0, 20.0), -math.pi / 2, 2.0, {5: (0.9, 2.0)})
    found = [
        seen(ASTERN, FROM_STARBOARD),
        seen(STRAIGHT, other_turns),
        seen(to_port, other_turns),
        seen(STRAIGHT, FROM_STARBOARD, 19),
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
