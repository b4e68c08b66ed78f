"""Metres around a place are those of the ellipsoid."""

import numpy as np
import pytest

from marinenav_env.waters.projection import LocalPlane

PLACES = [(25.7742, -80.1810), (63.44, 10.4), (-33.85, 151.21), (0.0, 0.0), (69.0, 179.9995)]
# Geodesics of 1,000 m from each place at azimuths of 37 and 250 degrees, by pyproj 3.7.2 (Geod(ellps="WGS84").fwd).
ENDS = {
    (25.7742, -80.181): [[-80.1749999862, 25.7814087801], [-80.1903677988, 25.7711124428]],
    (63.44, 10.4): [[10.4120613450, 63.4471641554], [10.3811737615, 63.4369304515]],
    (-33.85, 151.21): [[151.2165022689, -33.8427996997], [151.1998459393, -33.8530830749]],
    (0.0, 0.0): [[0.0054061964, 0.0072226158], [-0.0084414024, -0.0030931258]],
    (69.0, 179.9995): [[-179.9854535782, 69.0071588317], [179.9760169637, 68.9969322934]],
}


@pytest.mark.parametrize("place", PLACES)
def test_a_kilometre_is_true_to_a_centimetre(place):
    ends = np.array(ENDS[place])
    azimuths = np.radians([37.0, 250.0])
    expected = 1000.0 * np.stack([np.cos(azimuths), np.sin(azimuths)], -1)
    np.testing.assert_allclose(LocalPlane(*place).to_metres(ends), expected, rtol=0.0, atol=1e-3)


@pytest.mark.parametrize("place", PLACES)
def test_degrees_and_metres_are_inverse(place):
    points = np.random.default_rng(1).uniform(-5000.0, 5000.0, (50, 2))
    plane = LocalPlane(*place)
    np.testing.assert_allclose(plane.to_metres(plane.to_degrees(points)), points, rtol=0.0, atol=1e-6)


def test_metres_far_north_do_not_jump_within_a_window():
    """Half a degree of longitude is 11 km at 78 degrees of latitude, and a window may have 20 km."""
    near = LocalPlane(78.2, 15.6).to_metres(np.array([[16.09999, 78.25], [16.10001, 78.25]]))
    assert np.hypot(*(near[1] - near[0])) < 1.0


def test_what_is_on_the_other_side_of_the_earth_is_not_here():
    plane = LocalPlane(25.0, -80.0)
    far = plane.to_metres(np.array([[100.0, -25.0], [-80.0, 65.0], [10.0, 25.0]]))
    assert (np.hypot(*far.T) > 1e6).all()
