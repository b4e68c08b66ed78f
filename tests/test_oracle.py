"""The scalar oracle against hand-computed values; the world agrees with it and with recorded episodes."""

import math

import pytest

from tests.oracle import dynamics

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
