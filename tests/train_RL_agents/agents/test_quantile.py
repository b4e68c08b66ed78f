"""Risk levels of agents that know quantiles."""

import torch

from tests.train_RL_agents.helpers import make_inputs, seeded
from train_RL_agents.agents.quantile import QuantileConfig, nearness_risk, risk_level


def test_risk_adapts_to_the_closest_object_that_is_there():
    given = make_inputs(4, generator=seeded(0))
    objects, mask = torch.zeros(4, 5, 5), torch.zeros(4, 5, dtype=torch.bool)
    objects[:, 0, :2], objects[:, 1, :2] = torch.tensor([30.0, 40.0]), torch.tensor([3.0, -4.0])
    mask[1, 0] = mask[2, 1] = True  # 50 m away, 5 m away
    mask[3, :2] = True
    risk = nearness_risk(given._replace(objects_state=objects, objects_mask=mask))
    torch.testing.assert_close(risk, torch.tensor([1.0, 1.0, 0.5, 0.5]))


def test_a_level_that_is_asked_for_comes_before_the_configured_one():
    given, asked = make_inputs(3, generator=seeded()), torch.tensor([1.0, 0.5, 0.1])
    for risk in ("neutral", "adaptive"):
        assert risk_level(QuantileConfig(risk=risk), given, asked) is asked
    assert risk_level(QuantileConfig(risk="neutral"), given, None) is None
    level = risk_level(QuantileConfig(risk="adaptive"), given, None)
    assert torch.equal(level, nearness_risk(given))


def test_masks_of_exported_networks_are_floating():
    given = make_inputs(50, generator=seeded())
    floating = given._replace(objects_mask=given.objects_mask.double())
    assert torch.equal(nearness_risk(floating), nearness_risk(given))
