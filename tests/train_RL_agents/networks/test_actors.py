"""Actors: deterministic and Gaussian, and densities against torch's distributions."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import Normal, TransformedDistribution

from tests.train_RL_agents.helpers import SPEC, Atan, make_inputs, seeded
from train_RL_agents.networks.actors import Actor, GaussianActor, sample_squashed, squash_log_derivative
from train_RL_agents.networks.encoder_config import EncoderConfig
from train_RL_agents.networks.layers import squash

pytestmark = pytest.mark.usefixtures("seeded_weights")


def test_actor_by_hand():
    actor, given = Actor(EncoderConfig(), SPEC), make_inputs(6, generator=seeded())
    features = actor.encode(given)
    for layer in (actor.hidden_layer, actor.hidden_layer_2):
        features = (features @ layer.weight.T + layer.bias).clamp_min(0.0)
    mean = features @ actor.output_layer.weight.T + actor.output_layer.bias
    torch.testing.assert_close(actor.pre_activation(given), mean)
    torch.testing.assert_close(actor(given), torch.atan(mean) * 2.0 / math.pi)
    nn.init.constant_(actor.output_layer.bias, 1e4)
    assert (actor(given).abs() < 1.0).all()


def test_gaussian_actor_bounds_its_spread():
    actor, given = GaussianActor(EncoderConfig(), SPEC), make_inputs(6, generator=seeded())
    for bias, bound in ((1e3, 2.0), (-1e3, -20.0)):
        nn.init.constant_(actor.output_layer_log_std.bias, bias)
        assert torch.equal(actor(given)[1], torch.full((6, 2), bound))


def test_slope_of_squashing_is_that_of_autograd():
    value = torch.linspace(-8.0, 8.0, 33, requires_grad=True)
    (slope,) = torch.autograd.grad(squash(value).sum(), value)
    torch.testing.assert_close(squash_log_derivative(value).detach(), slope.log())


def test_density_of_a_squashed_sample_is_that_of_torch():
    mean, log_std, normal = torch.randn(3, 50, 2, generator=seeded(), dtype=torch.float64)
    action, log_density = sample_squashed((mean, log_std), normal)
    torch.testing.assert_close(action, 2.0 / math.pi * torch.atan(mean + log_std.exp() * normal))
    expected = TransformedDistribution(Normal(mean, log_std.exp()), [Atan()])
    torch.testing.assert_close(log_density, expected.log_prob(action).sum(-1))
