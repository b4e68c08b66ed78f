"""The tensors of the world."""

from dataclasses import fields

from marinenav_env.config import VesselConfig
from marinenav_env.state import Vessel


def test_every_field_of_a_vessel_is_a_tensor() -> None:
    assert [each.name for each in fields(Vessel)] == [each.name for each in fields(VesselConfig)]
