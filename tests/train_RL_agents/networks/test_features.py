"""What encoders are given: the geometry of encounters against scalar geometry."""

import math

import pytest
import torch

from tests.train_RL_agents.helpers import make_inputs, seeded
from train_RL_agents.networks.features import GeometryScales, encounter_geometry, goal_geometry, num_features

RADIUS = 2.3
"""Of the observing vessel (m)."""
USUAL = GeometryScales()


def slow_geometry(own, other, scales):
    """One encounter, by stepping both vessels through a fine grid of times."""
    px, py, vx, vy, radius = other.tolist()
    wx, wy = vx - own[2].item(), vy - own[3].item()
    distance = math.hypot(px, py)
    moments = [scales.horizon * step / 20_000 for step in range(20_001)]
    distances = [math.hypot(px + t * wx, py + t * wy) for t in moments]
    closest = min(distances)
    return {
        "clearance": (distance - radius - RADIUS) / scales.length,
        "near": math.exp(-max(distance - radius - RADIUS, 0.0) / scales.near_distance),
        "closing": -(px * wx + py * wy) / distance / scales.speed,
        "time": moments[distances.index(closest)] / scales.horizon,
        "missed": (closest - radius - RADIUS) / scales.length,
        "x": px / distance,
        "y": py / distance,
        "wx": wx / scales.speed,
        "wy": wy / scales.speed,
    }


@pytest.mark.parametrize("scales", [USUAL, GeometryScales(5.0, 1.7)])
def test_encounters_against_stepping_through_time(scales):
    given = make_inputs(6, generator=seeded(0))
    own = given["self_state"] * torch.tensor([20.0, 20.0, 2.0, 1.0, 1.0, 500.0, 500.0])
    others = given["objects_state"] * torch.tensor([8.0, 8.0, 2.0, 2.0, 1.0])
    got = encounter_geometry(own, others, RADIUS, scales)
    assert got.shape == (6, 5, num_features("geometric")[1] - 5)
    for robot, k in given["objects_mask"].nonzero().tolist():
        wanted = torch.tensor(list(slow_geometry(own[robot], others[robot, k], scales).values()))
        torch.testing.assert_close(got[robot, k], wanted, atol=2e-3, rtol=0.0)


@pytest.mark.parametrize("own_speed", [0.0, 1.5])
def test_empty_slots_and_vessels_at_rest_give_finite_numbers(own_speed):
    own = torch.tensor([[0.0, 0.0, own_speed, 0.0, 0.0, 0.0, 0.0]])
    assert goal_geometry(own, USUAL).isfinite().all()
    assert encounter_geometry(own, torch.zeros(1, 5, 5), RADIUS, USUAL).isfinite().all()
