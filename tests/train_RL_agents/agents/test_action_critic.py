"""Critics of given actions, and what agents with several of them share."""

import pytest
import torch
from torch import nn

from tests.train_RL_agents.helpers import SPEC, each_entry, make_inputs, seeded
from train_RL_agents.agents.action_critic import ActionCritic
from train_RL_agents.agents.agent_configs import ActionCriticConfig, QuantileConfig
from train_RL_agents.agents.implicit_critic import ImplicitQuantileCritic

pytestmark = pytest.mark.usefixtures("seeded_weights")

ACTIONS = 2.0 * torch.rand(4, 2, generator=seeded(1)) - 1.0


def linear(layer, features):
    """A hidden layer with its norm, in plain terms."""
    weights, norm = (layer[0], layer[1]) if isinstance(layer, nn.Sequential) else (layer, None)
    out = features @ weights.weight.T + weights.bias
    if norm is not None:
        spread = torch.sqrt(out.var(-1, unbiased=False, keepdim=True) + norm.eps)
        out = (out - out.mean(-1, keepdim=True)) / spread * norm.weight + norm.bias
    return out.clamp_min(0.0)


@pytest.mark.parametrize("critic", ["scalar", "quantile"])
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("action_input", ["early", "published"])
def test_critic_by_hand(critic, layer_norm, action_input):
    config = ActionCriticConfig(
        critic=critic, quantiles=5, layer_norm=layer_norm, action_input=action_input, hidden_sizes=(12, 9)
    )
    net, given = ActionCritic(config, SPEC), make_inputs(4, generator=seeded())
    features = net.encode(given)
    if action_input == "early":
        features = linear(net.hidden_layer, torch.cat((features, ACTIONS), 1))
    else:
        encoder = net.action_encoder[0]
        factor = (ACTIONS @ encoder.weight.T + encoder.bias).clamp_min(0.0)
        features = linear(net.hidden_layer, features) * factor
    features = linear(net.hidden_layer_2, features)
    expected = features @ net.output_layer.weight.T + net.output_layer.bias
    assert expected.shape == (4, 5 if critic == "quantile" else 1)
    torch.testing.assert_close(net(given, ACTIONS), expected)
    fleets = each_entry(given, lambda each: each.unflatten(0, (2, 2)))
    found = net(fleets, ACTIONS.view(2, 2, 2))
    torch.testing.assert_close(found, expected.unflatten(0, (2, 2)))


def implicit(embedding):
    return ImplicitQuantileCritic(QuantileConfig(embedding=embedding, hidden_sizes=(12, 9, 7)), SPEC)


@pytest.mark.parametrize("own_taus", [False, True])
@pytest.mark.parametrize("embedding", ["late", "published"])
def test_implicit_critic_by_hand(embedding, own_taus):
    """One robot and one fraction at a time."""
    generator, critic = seeded(), implicit(embedding)
    given, action = make_inputs(4, generator=generator), torch.rand(4, 2, generator=generator)
    taus = torch.rand(*((4, 3) if own_taus else (3,)), generator=generator)
    got = critic(given, action, taus)
    assert got.shape == (4, 3)
    encoded, (first, *others) = critic.encode(given), critic.hidden_layers
    for b in range(4):
        for i in range(3):
            tau = taus[b, i] if own_taus else taus[i]
            embedded = critic.cos_embedding(tau[None])[0]
            if embedding == "late":
                features = linear(first, torch.cat((encoded[b], action[b])))
            else:
                features = linear(first, encoded[b] * embedded) * critic.action_encoder(action[b])
            for layer in others:
                features = linear(layer, features)
            if embedding == "late":
                features = features * embedded
            expected = critic.output_layer.weight[0] @ features + critic.output_layer.bias[0]
            torch.testing.assert_close(got[b, i], expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("lead", [(6,), (3, 2)])
@pytest.mark.parametrize("embedding", ["late", "published"])
def test_means_of_many_actions_are_those_of_their_quantiles(embedding, lead):
    critic, given = implicit(embedding), make_inputs(*lead, generator=seeded())
    taus = torch.rand(*lead, 8, generator=seeded(1))
    actions = 2.0 * torch.rand(*lead, 9, 2, generator=seeded(2)) - 1.0
    means = critic.mean(given, actions, taus)
    assert means.shape == (*lead, 9)
    for k in range(9):
        each = critic(given, actions[..., k, :], taus).mean(-1)
        torch.testing.assert_close(means[..., k], each)
