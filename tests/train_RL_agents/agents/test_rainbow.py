"""Rainbow: its network, targets, priorities and quantiles against numbers worked out by hand."""

import pytest
import torch
from torch import nn

from tests.train_RL_agents.agents.helpers import states, transition
from tests.train_RL_agents.helpers import SPEC, make_inputs, seeded
from train_RL_agents.agents.rainbow import DistributionNetwork, Rainbow, RainbowConfig

close = pytest.approx


class Distributions(nn.Module):
    """Probabilities of three atoms, [noise][state][action]; the noise is a row of one number."""

    def __init__(self, *by_noise):
        super().__init__()
        self.table = torch.tensor(by_noise)

    def forward(self, observation, noise=None):
        number = 0 if noise is None else int(noise[0])
        return self.table[number][observation["self_state"][..., 0].long()].log()


LOW, EVEN, HIGH = [0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]


def agent_with(learned, target):
    agent = Rainbow(RainbowConfig(atoms=3, v_min=-2.0, v_max=2.0), 2)
    agent.networks["critic"], agent.targets["critic"] = learned, target
    return agent


def test_network_by_hand():
    config = RainbowConfig(atoms=5, hidden_sizes=(8, 6), sigma_0=0.5)
    net, given = DistributionNetwork(config, 4, SPEC), make_inputs(3, generator=seeded())
    sizes = [(net.encoded_width, 8), (8, 6), (6, 20), (6, 5)]
    assert net.noise_sizes == [sum(size) for size in sizes]
    noise = torch.randn(sum(net.noise_sizes), generator=seeded(1))
    for numbers in (None, noise):
        parts = [None] * 4 if numbers is None else list(numbers.split([sum(s) for s in sizes]))
        features = net.encode(given)
        for layer, part in zip(net.hidden_layers, parts[:2], strict=True):
            features = layer(features, part).clamp_min(0.0)
        advantages = net.output_layer(features, parts[2]).view(3, 4, 5)
        common = net.value_layer(features, parts[3])[:, None]
        logits = common + advantages - advantages.sum(1, keepdim=True) / 4
        expected = logits - logits.exp().sum(-1, keepdim=True).log()
        torch.testing.assert_close(net(given, numbers), expected)
    assert not torch.allclose(net(given), net(given, noise))


def test_loss_by_hand():
    """One network chooses the next action under a draw of its own, the target values it."""
    # Under noise 0 the learned network says EVEN of state 0, action 1; under 1 it would choose
    # action 1 in state 1, under 0 and 2 action 0. The target network's noise is 2.
    learned = Distributions([[LOW, EVEN], [HIGH, LOW]], [[LOW, LOW], [LOW, HIGH]], [[LOW, LOW], [HIGH, LOW]])
    target = Distributions([[LOW] * 2, [LOW] * 2], [[LOW] * 2, [LOW] * 2],
                           [[LOW] * 2, [LOW, [0.5, 0.0, 0.5]]])  # fmt: skip
    noise = torch.tensor([[0.0], [1.0], [2.0]])
    given = transition(reward=0.5, discount=0.5)
    losses = agent_with(learned, target).loss(given, noise)
    # Atoms -2 and 2 go to -0.5 and 1.5: between -2 and 0, and between 0 and 2.
    projected = [0.5 * 0.25, 0.5 * 0.75 + 0.5 * 0.25, 0.5 * 0.75]
    logs = torch.tensor(EVEN).log().tolist()
    error = -sum(share * log for share, log in zip(projected, logs, strict=True))
    assert losses["loss"].item() == close(error)
    assert losses["priority"].tolist() == close([error]) and not losses["priority"].requires_grad
    assert losses["target"].item() == close(0.5)
    assert losses["value"].item() == close(0.0, abs=1e-6)


def test_acts_on_the_means_and_explores_under_noise():
    agent = agent_with(Distributions([[LOW, EVEN]], [[HIGH, EVEN]]), nn.Identity())
    given = states(0.0)
    torch.testing.assert_close(agent.scores(agent.outputs(given)), torch.tensor([[-1.4, 0.0]]))
    assert agent.act(given).tolist() == [1]
    assert agent.explore(given, torch.tensor([1.0]))[0].tolist() == [0]


def test_quantiles_of_the_return():
    agent = agent_with(Distributions([[LOW, EVEN], [HIGH, [0.3, 0.3, 0.4]]]), nn.Identity())
    found = agent.return_quantiles(states(0.0, 0.0, 1.0, 1.0), torch.tensor([0, 1, 0, 1]))
    # At 1/6, 1/2 and 5/6.
    low, high, all_of_them = [-2.0, -2.0, 0.0], [0.0, 2.0, 2.0], [-2.0, 0.0, 2.0]
    assert found.tolist() == [low, all_of_them, high, all_of_them]
    # Where rounding leaves the sum of the probabilities below a fraction.
    agent.networks["critic"] = Distributions([[[0.3, 0.3, 0.2]] * 2])
    assert agent.return_quantiles(states(0.0), torch.tensor([0]))[0, -1] == 2.0
