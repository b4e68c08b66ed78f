"""Layers and functions: hidden layers, quantile embedding, calls without gradients."""

import math

import pytest
import torch
from torch import nn

from tests.train_RL_agents.helpers import seeded
from train_RL_agents.networks.layers import (
    CosineEmbedding,
    add_action,
    call_with_frozen_parameters,
    dueling_values,
    ensemble_outputs,
    features_product,
    init_orthogonal,
    make_hidden_layer,
    squash,
    to_float32,
)

pytestmark = pytest.mark.usefixtures("seeded_weights")


def test_squash_is_two_over_pi_atan():
    values = torch.tensor([0.0, 1.0, -1.0, math.tan(0.3 * math.pi / 2.0), 1e12])
    torch.testing.assert_close(squash(values), torch.tensor([0.0, 0.5, -0.5, 0.3, 1.0]))


def test_hidden_layer_norm_is_optional():
    features = 5.0 + 3.0 * torch.randn(10, 256, generator=seeded())
    plain, normed = make_hidden_layer(256, 128, False), make_hidden_layer(256, 128, True)
    assert isinstance(plain, nn.Linear)
    out = normed(features)
    torch.testing.assert_close(out.mean(-1), torch.zeros(10), atol=1e-5, rtol=0.0)
    torch.testing.assert_close(out.std(-1, unbiased=False), torch.ones(10), atol=1e-3, rtol=0.0)
    assert plain(features).mean(-1).abs().max() > 0.1


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


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 3)])
def test_cosine_embedding_by_hand(shape):
    embedding, taus = CosineEmbedding(7, cosines=5), torch.rand(shape, generator=seeded())
    got = embedding(taus)
    assert got.shape == (*shape, 7)
    flat = got.reshape(-1, 7)
    for tau, row in zip(taus.flatten().tolist(), flat, strict=True):
        cosines = torch.tensor([math.cos(math.pi * i * tau) for i in range(5)])
        expected = (embedding.weight @ cosines + embedding.bias).clamp_min(0.0)
        torch.testing.assert_close(row, expected)


def test_call_without_grad_sends_gradients_to_inputs_only():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    value = torch.randn(5, 3, generator=seeded(), requires_grad=True)
    frozen = call_with_frozen_parameters(net, value)
    torch.testing.assert_close(frozen, net(value))
    frozen.sum().backward()
    assert all(parameter.grad is None for parameter in net.parameters())
    expected = torch.autograd.grad(net(value).sum(), value)[0]
    torch.testing.assert_close(value.grad, expected)
    assert expected.abs().max() > 0.0


def test_orthogonal_weights():
    net = nn.Sequential(nn.Linear(8, 5), nn.ReLU(), nn.Sequential(nn.Linear(5, 5)))
    init_orthogonal(net, 3.0)
    for layer in (net[0], net[2][0]):
        torch.testing.assert_close(layer.weight @ layer.weight.T, 9.0 * torch.eye(5))
        assert not layer.bias.any()


def test_dueling_values_by_hand():
    features, output, value = (
        torch.randn(3, 4, generator=seeded()),
        nn.Linear(4, 6),
        nn.Linear(4, 1),
    )
    plain = features @ output.weight.T + output.bias
    torch.testing.assert_close(dueling_values(features, output, None), plain)
    common = features @ value.weight.T + value.bias
    expected = common + plain - plain.mean(-1, keepdim=True)
    torch.testing.assert_close(dueling_values(features, output, value), expected)


def test_only_bfloat16_is_widened():
    for given, wanted in ((torch.bfloat16, torch.float32), (torch.float64, torch.float64)):
        assert to_float32(torch.ones(2, dtype=given)).dtype == wanted


@pytest.mark.parametrize("frozen", [False, True])
def test_networks_computed_together_are_each_as_alone(monkeypatch, frozen):
    networks = [make_hidden_layer(3, 5, True) for _ in range(2)]
    found = []
    for free in ({"cpu"}, set()):  # as on a GPU
        monkeypatch.setattr("marinenav_env.runtime.host_reads.FREE_HOST_READ_DEVICES", free)
        given = torch.randn(7, 3, generator=seeded()).requires_grad_()
        values = ensemble_outputs(networks, own=[given, 2.0 * given], frozen=frozen)
        learned = [] if frozen else [each for net in networks for each in net.parameters()]
        total = values[0].square().sum() + 3.0 * values[1].square().sum()
        found.append((values, torch.autograd.grad(total, [given, *learned])))
    torch.testing.assert_close(*found)
    assert found[1][0][0].requires_grad and not torch.equal(*found[1][0])
