"""Geometry of Imazu's problems and of random encounters."""

import math
from itertools import combinations

import pytest
import torch

from marinenav_env import WorldConfig
from marinenav_env.rules.roles import ROLES, relative_motion, roles
from train_RL_agents.evaluation.suites.encounter_suites import (
    COURSES_BY_KIND,
    IMAZU_COURSES,
    imazu_scenarios,
    random_encounters,
)

WORLD = WorldConfig()


def poses(drawn):
    return torch.cat((drawn.start, drawn.heading[..., None]), -1)


def named(drawn, own, other):
    """Roles of one vessel towards another at the start."""
    return [ROLES[number] for number in roles(relative_motion(poses(drawn), drawn.velocity))[own, other]]


def apart(drawn):
    """Distances of the vessels that there are, [N, R, R]; infinite elsewhere."""
    between = torch.linalg.vector_norm(drawn.start[:, :, None] - drawn.start[:, None], dim=-1)
    both = drawn.robot_mask[:, :, None] & drawn.robot_mask[:, None]
    return torch.where(both & ~torch.eye(between.shape[-1], dtype=torch.bool), between, torch.inf)


def test_random_encounters_have_the_roles_of_their_group():
    drawn = random_encounters(WORLD, 20, 3)
    of_group = {}
    for _, part in drawn:
        of_group.setdefault(int(part.level[0]), []).append(part)
    assert [sum(map(len, parts)) for parts in of_group.values()] == [20] * 9
    expected = ("head-on", "give-way", "stand-on", "overtaking", "overtaken")
    for (kind, parts), role in zip(of_group.items(), expected, strict=False):
        assert set(named(parts[0], 0, 1)) == {role}, list(COURSES_BY_KIND)[kind]
    for robots, parts in zip((3, 4, 5, 6), list(of_group.values())[len(COURSES_BY_KIND) :], strict=True):
        assert all(part.robot_mask.shape[-1] == robots for part in parts)
        assert all(apart(part).min() > 8.0 for part in parts)
        assert set(named(parts[1], 0, 1)) == {"overtaking"} and list(map(len, parts)) == [10, 10]


def test_times_to_meet_equal_scalar_code():
    kinds = set()
    for _, drawn in (*imazu_scenarios(WORLD, 1), *random_encounters(WORLD, 6, 4)):
        for one in drawn:
            there = one.robot_mask
            parts = (one.velocity[:, :2], one.start, one.goal)
            velocity, start, goal = (each[there].tolist() for each in parts)
            assert {round(math.hypot(*each), 6) for each in velocity} <= {2.0, 0.78}
            closing = {(i, j): math.dist(velocity[i], velocity[j]) for i, j in combinations(range(len(velocity)), 2)}
            own = max(25.0 / each for (i, _), each in closing.items() if i == 0)
            clear = max(10.0 / each for each in closing.values() if each > 0.0)
            time = max(min(max(own, 12.0), 30.0), clear)
            kinds.add("soon" if own < 12.0 else "late" if own > 30.0 else "between")
            kinds.add("clear" if clear == time else "sight")
            time = 0.5 * math.ceil(2.0 * time) + 0.25  # between two control steps
            for v, first, last in zip(velocity, start, goal, strict=True):
                ahead = [each / math.hypot(*v) for each in v]
                assert first == pytest.approx([62.0 - time * each for each in v])
                assert last == pytest.approx([62.0 + 20.0 * each for each in ahead])
    assert {"late", "between", "sight"} <= kinds, kinds


def test_problems_are_those_of_the_literature():
    """The first four have two vessels, the next seven three, the others four."""
    assert [len(each) for each in IMAZU_COURSES] == [1] * 4 + [2] * 7 + [3] * 11
    one, two, three = IMAZU_COURSES[:4], IMAZU_COURSES[4:11], IMAZU_COURSES[11:]
    assert [course for (course,) in one] == [180, 270, 0, 45]
    assert [first for first, _ in two] == [180, -10, 0, 180, -30, -90, 90]
    assert [second for _, second in two] == [-90, -45, -45, -90, -90, 15, -30]
    assert [first for first, _, _ in three] == [180, 180, -10, 0, 45, 0, -135, 15, 0, -15, 0]
    assert [second for _, second, _ in three] == [-45, 10, -45, -45, 90, 10, -15, -15, -15, 15, -45]
    assert [third for *_, third in three] == [-10, 45, *[-90] * 3, -45, -30, -135, *[-90] * 3]
