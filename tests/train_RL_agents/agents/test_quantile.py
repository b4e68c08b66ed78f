"""Fractions and risk levels; the short ways to means and to one action's quantiles."""

from itertools import product

import pytest
import torch

from tests.train_RL_agents.helpers import SPEC, each_entry, make_inputs, seeded
from train_RL_agents.agents.agent_configs import QuantileConfig
from train_RL_agents.agents.quantile import QuantileNetwork, nearness_risk


def test_risk_adapts_to_the_closest_object_that_is_there():
    given = make_inputs(4, generator=seeded(0))
    objects, mask = torch.zeros(4, 5, 5), torch.zeros(4, 5, dtype=torch.bool)
    objects[:, 0, :2], objects[:, 1, :2] = torch.tensor([30.0, 40.0]), torch.tensor([3.0, -4.0])
    objects[..., 2:] = 7.0  # not a position
    mask[1, 0] = mask[2, 1] = True  # 50 m away, 5 m away
    mask[3, :2] = True
    risk = nearness_risk({**given, "objects_state": objects, "objects_mask": mask}, 10.0)
    torch.testing.assert_close(risk, torch.tensor([1.0, 1.0, 0.5, 0.5]))
    fleets = {"objects_state": objects.view(2, 2, 5, 5), "objects_mask": mask.view(2, 2, 5)}
    assert torch.equal(nearness_risk({**given, **fleets}, 10.0), risk.view(2, 2))


KINDS = list(product(("late", "published"), (True, False)))


@pytest.fixture(params=KINDS, ids=str)
def network(request):
    embedding, dueling = request.param
    config = QuantileConfig(embedding=embedding, hidden_sizes=(12, 9, 7))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield QuantileNetwork(config, dueling, 25, SPEC)


def test_mean_is_that_of_the_quantiles(network):
    given, taus = make_inputs(6, generator=seeded(1)), torch.rand(8, generator=seeded(2))
    torch.testing.assert_close(network.mean(given, taus), network(given, taus).mean(-2))
    own = torch.rand(6, 8, generator=seeded(3))
    torch.testing.assert_close(network.mean(given, own), network(given, own).mean(-2))


def test_quantiles_of_one_action_are_those_among_all(network):
    given, taus = make_inputs(6, generator=seeded(1)), torch.rand(8, generator=seeded(2))
    action = torch.tensor([0, 24, 3, 3, 7, 12])
    wanted = network(given, taus)[torch.arange(6), :, action]
    torch.testing.assert_close(network.action_quantiles(given, taus, action), wanted)
    one = {name: each[:1] for name, each in given.items()}
    torch.testing.assert_close(network.action_quantiles(one, taus[:1], action[:1]), wanted[:1, :1])
    fleets = each_entry(given, lambda each: each.unflatten(0, (2, 3)))
    found = network.action_quantiles(fleets, taus, action.view(2, 3))
    torch.testing.assert_close(found, wanted.view(2, 3, 8))


def test_network_by_hand(network):
    given, taus = make_inputs(3, generator=seeded(1)), torch.rand(4, generator=seeded(2))
    embedding = network.cos_embedding
    waves = torch.cos(torch.pi * taus[:, None] * torch.arange(64))
    embedded = (waves @ embedding.weight.T + embedding.bias).clamp_min(0.0)
    features = network.encode(given)[:, None]
    if not network.late:
        features = features * embedded
    for layer in network.hidden_layers:
        features = layer(features).relu()
    if network.late:
        features = features * embedded
    expected = features @ network.output_layer.weight.T + network.output_layer.bias
    if network.value_layer is not None:
        value = features @ network.value_layer.weight.T + network.value_layer.bias
        expected = expected - expected.mean(-1, keepdim=True) + value
    torch.testing.assert_close(network(given, taus), expected)
