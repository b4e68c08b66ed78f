"""The tensors of the world."""

from dataclasses import fields

from marinenav_env.config import HULL_TERMS, ActuatorConfig, VesselConfig
from marinenav_env.state import ActuatorParameters, Vessel


def test_every_field_of_a_vessel_is_a_tensor():
    names = [item.name for item in fields(VesselConfig)]
    actuators = [item.name for item in fields(ActuatorConfig)]
    assert {item.name for item in fields(Vessel)} == {*names} - {"name", "actuators", *HULL_TERMS}
    assert [item.name for item in fields(ActuatorParameters)] == [*actuators, *HULL_TERMS]
