"""Parts of networks: encoder, actor, quantile embedding, frozen calls."""

import math

import pytest
import torch
from torch import nn

from tests.train_RL_agents.helpers import make_inputs, seeded
from train_RL_agents.networks.features import OBJECT_SCALE, SELF_SCALE
from train_RL_agents.networks.layers import (
    ENCODED,
    HIDDEN,
    Actor,
    CosineEmbedding,
    ObservationNetwork,
    call_without_grad,
    hidden,
    squash,
)
from train_RL_agents.networks.observation import Inputs


@pytest.fixture(autouse=True)
def _seeded_weights():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def inputs(*shape, seed=0):
    return make_inputs(*shape, generator=seeded(seed))


def test_encoding_by_hand():
    """One robot and one object at a time, with plain matrix products."""
    net, given = ObservationNetwork("scaled"), inputs(4)
    got = net.encode(given)
    assert got.shape == (4, ENCODED)
    own_layer, object_layer = net.self_encoder[0], net.object_encoder[0]
    for b in range(4):
        own = own_layer.weight @ (given.self_state[b] / torch.tensor(SELF_SCALE)) + own_layer.bias
        parts = [own.clamp_min(0.0)]
        for k in range(5):
            one = object_layer.weight @ (given.objects_state[b, k] / torch.tensor(OBJECT_SCALE))
            one = (one + object_layer.bias).clamp_min(0.0)
            parts.append(one if given.objects_mask[b, k] else torch.zeros(40))
        torch.testing.assert_close(got[b], torch.cat(parts))


def test_unscaled_networks_take_inputs_as_they_are():
    scaled, raw = ObservationNetwork("scaled"), ObservationNetwork("raw")
    raw.self_encoder.load_state_dict(scaled.self_encoder.state_dict())
    raw.object_encoder.load_state_dict(scaled.object_encoder.state_dict())
    given = inputs(8)
    divided = Inputs(
        given.self_state / torch.tensor(SELF_SCALE),
        given.objects_state / torch.tensor(OBJECT_SCALE),
        given.objects_mask,
    )
    torch.testing.assert_close(raw.encode(divided), scaled.encode(given))
    assert not torch.allclose(raw.encode(given), scaled.encode(given))


def test_content_of_empty_slots_does_not_matter():
    net, given = ObservationNetwork(), inputs(16)
    junk = torch.where(given.objects_mask[..., None], given.objects_state, 1e4)
    assert (junk != given.objects_state).any()
    torch.testing.assert_close(net.encode(given._replace(objects_state=junk)), net.encode(given))


def test_leading_dimensions_are_free():
    actor, given = Actor("scaled"), inputs(3, 4)
    flat = Inputs(*(each.flatten(0, 1) for each in given))
    torch.testing.assert_close(actor(given).flatten(0, 1), actor(flat))
    assert actor(Inputs(*(each[0] for each in flat))).shape == (2,)


def test_squash_is_two_over_pi_atan():
    values = torch.tensor([0.0, 1.0, -1.0, math.tan(0.3 * math.pi / 2.0), 1e12])
    torch.testing.assert_close(squash(values), torch.tensor([0.0, 0.5, -0.5, 0.3, 1.0]))


def test_actor_by_hand():
    actor, given = Actor("scaled"), inputs(6)
    features = actor.encode(given)
    for layer in (actor.hidden_layer, actor.hidden_layer_2):
        features = (features @ layer.weight.T + layer.bias).clamp_min(0.0)
    mean = features @ actor.output_layer.weight.T + actor.output_layer.bias
    torch.testing.assert_close(actor(given), torch.atan(mean) * 2.0 / math.pi)
    nn.init.constant_(actor.output_layer.bias, 1e4)
    assert (actor(given).abs() < 1.0).all()


def test_layers_have_the_published_names_and_sizes():
    shapes = {name: tuple(value.shape) for name, value in Actor(False).named_parameters()}
    assert shapes == {
        "self_encoder.0.weight": (56, 7),
        "self_encoder.0.bias": (56,),
        "object_encoder.0.weight": (40, 5),
        "object_encoder.0.bias": (40,),
        "hidden_layer.weight": (128, 256),
        "hidden_layer.bias": (128,),
        "hidden_layer_2.weight": (128, 128),
        "hidden_layer_2.bias": (128,),
        "output_layer.weight": (2, 128),
        "output_layer.bias": (2,),
    }


def test_hidden_layer_norm_is_optional():
    features = 5.0 + 3.0 * torch.randn(10, ENCODED, generator=seeded())
    plain, normed = hidden(ENCODED, HIDDEN, False), hidden(ENCODED, HIDDEN, True)
    assert isinstance(plain, nn.Linear)
    out = normed(features)
    torch.testing.assert_close(out.mean(-1), torch.zeros(10), atol=1e-5, rtol=0.0)
    torch.testing.assert_close(out.std(-1, unbiased=False), torch.ones(10), atol=1e-3, rtol=0.0)
    assert plain(features).mean(-1).abs().max() > 0.1


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


def test_frozen_call_sends_gradients_to_inputs_only():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    value = torch.randn(5, 3, generator=seeded(), requires_grad=True)
    frozen = call_without_grad(net, value)
    torch.testing.assert_close(frozen, net(value))
    frozen.sum().backward()
    assert all(parameter.grad is None for parameter in net.parameters())
    expected = torch.autograd.grad(net(value).sum(), value)[0]
    torch.testing.assert_close(value.grad, expected)
    assert expected.abs().max() > 0.0
