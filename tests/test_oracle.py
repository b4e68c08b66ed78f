"""The scalar oracle against hand-computed values and against recorded noise-free episodes."""

import math

import pytest

from tests.marinenav_env.helpers import recordings
from tests.oracle import dynamics, episode

RECORDED = {key: (entry["config"], arrays) for key, (entry, arrays) in recordings().items()}
"""Config and arrays of every recorded episode by key."""
TOLERANCE = 1e-8

close = pytest.approx


def test_mass_matrix_is_inverted_in_full() -> None:
    params = dynamics.VesselParams(
        m=10.0,
        Izz=5.0,
        xDotU=-2.0,
        yDotV=-4.0,
        yDotR=-1.0,
        nDotV=-3.0,
        nDotR=-6.0,
        length=4.0,
        left_angle=math.pi / 2.0,
    )
    # M = [[12, 0, 0], [0, 14, 1], [0, 3, 11]], tau = [0, 1, -2]
    still = (0.0, 0.0, 0.0)
    got = dynamics.acceleration(params, still, still, (1.0, 0.0))
    assert got == close([0.0, 13.0 / 151.0, -31.0 / 151.0])


def test_every_hydrodynamic_coefficient_enters() -> None:
    params = dynamics.VesselParams(
        yDotV=-4.0, yDotR=-1.0, yR=-1.0, yRV=-2.0, yVR=-3.0, yRR=-4.0, nV=-5.0, nVV=-6.0, nRV=-7.0, nVR=-8.0
    )
    velocity = [0.0, 1.0, 2.0]
    linear = dynamics.product(dynamics.linear_damping(params), velocity)
    quadratic = dynamics.product(dynamics.nonlinear_damping(params, *velocity), velocity)
    coriolis = dynamics.product(dynamics.added_mass_coriolis(params, *velocity), velocity)
    assert linear == close([0.0, 102.0, 1965.0])
    assert quadratic == close([0.0, 176.0, 3836.0])
    assert coriolis == close([-12.0, 0.0, 0.0])


@pytest.mark.parametrize("key", RECORDED)
def test_replay_of_recording(key: str) -> None:
    config, expected = RECORDED[key]
    got = episode.replay(config, expected["action"])
    assert set(got) == set(expected) - {"action"}
    errors = episode.largest_errors(got, expected)
    assert all(error <= TOLERANCE for error in errors.values()), errors


def test_recordings_cover_the_world() -> None:
    configs = [config for config, _ in RECORDED.values()]
    arrays = [a for _, a in RECORDED.values()]
    assert {3, 5, 6} <= {config["env"]["num_robots"] for config in configs}
    assert any(config["env"]["cores"]["positions"] for config in configs)
    assert any(config["env"]["obstacles"]["positions"] for config in configs)
    assert {a["action"].ndim for a in arrays} == {2, 3}
    for flag in ("collision", "reach_goal", "colregs"):
        assert any(a[flag].any() for a in arrays)


def test_truncated_robot_is_done_but_not_deactivated() -> None:
    config, expected = RECORDED["ep016"]
    got = episode.replay(config, expected["action"][:4], max_steps=2)
    assert got["done"].all(axis=1).tolist() == [False, True, True, True]
    assert not got["deactivated"].any()
    assert (got["state"][2] == got["state"][4]).all()
    assert not got["reward"][2:].any() and not got["self_obs"][3:].any()
