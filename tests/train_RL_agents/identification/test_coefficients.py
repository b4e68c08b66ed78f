"""Scales and bounds of the coefficients that are fitted."""

from dataclasses import replace

import numpy as np
import pytest

from marinenav_env import read_vessel
from marinenav_env.vessels import vessel_files
from train_RL_agents.identification.coefficients import FITTABLE_COEFFICIENTS, choose_coefficients


@pytest.mark.parametrize("name", ["published", *vessel_files()])
def test_every_coefficient_has_a_scale(name):
    """A search divides by the scales; those of a boat without thrust astern are no exception."""
    for vessel in (read_vessel(name), replace(read_vessel(name), min_thrust=0.0)):
        scales = [item.scale for item in choose_coefficients(vessel, is_in_newtons=False, extra=FITTABLE_COEFFICIENTS)]
        assert np.isfinite(scales).all() and min(scales) > 0.0
