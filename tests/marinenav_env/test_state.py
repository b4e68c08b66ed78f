"""The tensors of the world."""

from dataclasses import fields

import torch

from marinenav_env import MarineNavEnv
from marinenav_env.config import HULL_TERMS, ActuatorConfig, VesselConfig
from marinenav_env.scenarios.scenario import blank_scenarios
from marinenav_env.state import ActuatorParameters, Parameters, Scenario, State, Vessel
from tests.marinenav_env.helpers import CPU


def test_every_field_of_a_vessel_is_a_tensor():
    names = [item.name for item in fields(VesselConfig)]
    actuators = [item.name for item in fields(ActuatorConfig)]
    assert {item.name for item in fields(Vessel)} == {*names} - {"name", "actuators", *HULL_TERMS}
    assert [item.name for item in fields(ActuatorParameters)] == [*actuators, *HULL_TERMS]


def test_absent_fields_are_in_the_same_order_in_every_process(monkeypatch):
    """Kept code has guards on their order, and a set of names has another one in each process."""
    found = []
    for reverse in (False, True):
        for kind in (State, Scenario, Parameters):
            monkeypatch.setattr(kind, "__expected_keys__", sorted(kind.__expected_keys__, reverse=reverse))
        now, parameters = MarineNavEnv(seed=0).world_state
        blank = blank_scenarios(1, 1, 1, 1, CPU, torch.float32)
        found.append([list(each.to_dict(retain_none=True)) for each in (now.state, now.scenario, parameters, blank)])
    assert found[0] == found[1]
