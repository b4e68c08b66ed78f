"""Roles of encounters made by hand; pairs are compared with the oracle in test_encounters.py and test_reward.py."""

import math

import pytest
import torch
from torch import Tensor

from marinenav_env.rules.roles import ROLES, relative_motion, roles


def vessel(x: float, y: float, course: float, speed: float = 2.0) -> list[float]:
    """x, y, heading, velocity; the course in degrees from north."""
    angle = math.radians(course)
    return [x, y, angle % (2.0 * math.pi), speed * math.cos(angle), speed * math.sin(angle)]


def tensors(rows: list[list[float]]) -> tuple[Tensor, Tensor]:
    """Pose and velocity [1, R, 3] of vessels."""
    table = torch.tensor(rows, dtype=torch.float64)[None]
    return table[..., :3], torch.cat((table[..., 3:], torch.zeros_like(table[..., :1])), -1)


OWN = vessel(0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("other", "own_role", "other_role"),
    [
        (vessel(30.0, 2.0, 180.0), "head-on", "head-on"),
        (vessel(30.0, -2.0, 200.0), "head-on", "head-on"),
        (vessel(20.0, 20.0, -90.0), "give-way", "stand-on"),
        (vessel(20.0, -20.0, 90.0), "stand-on", "give-way"),
        (vessel(20.0, 8.0, -135.0), "give-way", "stand-on"),
        (vessel(20.0, 0.0, 0.0, 0.8), "overtaking", "overtaken"),
        (vessel(-20.0, 3.0, 0.0, 3.0), "overtaken", "overtaking"),
        # After one of two that were head-on has turned to starboard, both have the other to port.
        (vessel(20.0, -5.0, 210.0), "head-on", "head-on"),
    ],
)
def test_roles(other: list[float], own_role: str, other_role: str) -> None:
    found = roles(relative_motion(*tensors([OWN, other])))[..., 0]
    named = [[ROLES[number] for number in row] for row in found.tolist()]
    assert named == [["none", own_role], [other_role, "none"]]


@pytest.mark.parametrize("drift", [0.0, 1e-17, -1e-17, 1e-9, -1e-9])
def test_vessels_at_rest_do_not_approach_each_other(drift: float) -> None:
    """What is left of their speeds is rounding: its sign would decide whether there is a risk of collision."""
    seen = relative_motion(*tensors([vessel(0.0, 0.0, 0.0, 0.0), vessel(20.0, 3.0, 90.0, drift)]))
    assert torch.equal(seen.tcpa, torch.zeros_like(seen.tcpa))
