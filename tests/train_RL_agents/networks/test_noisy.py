"""Noisy layers against weights written out."""

import torch

from tests.train_RL_agents.helpers import seeded
from train_RL_agents.networks.noisy import NoisyLinear


def test_noise_is_an_outer_product_in_the_weights():
    layer, features = NoisyLinear(3, 2, 0.5), torch.randn(4, 3, generator=seeded())
    noise = torch.tensor([4.0, -1.0, 0.25, -9.0, 0.01])
    rows, columns = torch.tensor([2.0, -1.0, 0.5]), torch.tensor([-3.0, 0.1])
    weight = layer.weight + layer.weight_sigma * torch.outer(columns, rows)
    bias = layer.bias + layer.bias_sigma * columns
    torch.testing.assert_close(layer(features, noise), features @ weight.mT + bias)
    torch.testing.assert_close(layer(features, None), features @ layer.weight.mT + layer.bias)


def test_the_scale_of_the_noise_falls_with_the_inputs():
    layer = NoisyLinear(16, 2, 0.5)
    for sigma in (layer.weight_sigma, layer.bias_sigma):
        torch.testing.assert_close(sigma, torch.full_like(sigma, 0.5 / 4.0))
    assert layer.weight.abs().max() <= 0.25
