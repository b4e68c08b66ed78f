"""Layers and functions: hidden layers, quantile embedding, calls without gradients."""

import pytest
import torch

from tests.train_RL_agents.helpers import seeded
from train_RL_agents.networks.layers import add_action, ensemble_outputs, features_product, make_hidden_layer

pytestmark = pytest.mark.usefixtures("seeded_weights")


@pytest.mark.parametrize("layer_norm", [False, True])
def test_concatenated_layer_is_the_layer_of_both_concatenated(monkeypatch, layer_norm):
    layer = make_hidden_layer(6, 5, layer_norm).double()
    given = {"generator": seeded(), "dtype": torch.float64}
    features, actions = torch.randn(7, 1, 4, **given), torch.randn(7, 3, 2, **given)
    inputs = [features.requires_grad_(), actions.requires_grad_(), *layer.parameters()]
    both = torch.cat((features.expand(7, 3, 4), actions), -1)
    for free in ({"cpu"}, set()):  # as on a GPU
        monkeypatch.setattr("marinenav_env.runtime.host_reads.FREE_HOST_READ_DEVICES", free)
        found = []
        for values in (add_action(layer, features_product(layer, features), actions), layer(both)):
            found.append((values, torch.autograd.grad(values.pow(3).sum(), inputs)))
        torch.testing.assert_close(*found)


@pytest.mark.parametrize("frozen", [False, True])
def test_networks_computed_together_are_each_as_alone(monkeypatch, frozen):
    networks = [make_hidden_layer(3, 5, True).double() for _ in range(2)]
    found = []
    for free in ({"cpu"}, set()):  # as on a GPU
        monkeypatch.setattr("marinenav_env.runtime.host_reads.FREE_HOST_READ_DEVICES", free)
        given = torch.randn(7, 3, generator=seeded(), dtype=torch.float64).requires_grad_()
        values = ensemble_outputs(networks, own=[given, 2.0 * given], frozen=frozen)
        learned = [] if frozen else [each for net in networks for each in net.parameters()]
        total = values[0].square().sum() + 3.0 * values[1].square().sum()
        found.append((values, torch.autograd.grad(total, [given, *learned])))
    torch.testing.assert_close(*found)
    assert found[1][0][0].requires_grad and not torch.equal(*found[1][0])
