"""Encounters of two vessels."""

import math

import pytest
import torch

from marinenav_env.config import VesselConfig
from marinenav_env.rules.roles import ROLES, relative_motion, roles
from train_RL_agents.evaluation.suites.rules_suite import ENCOUNTERS, encounter_scenarios


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
