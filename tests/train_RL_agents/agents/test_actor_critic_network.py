"""Networks of PPO and A2C: outputs of a new agent, and values of a fleet."""

import torch

from tests.train_RL_agents.helpers import agent_of, seeded
from train_RL_agents.agents import AGENTS
from train_RL_agents.agents.actor_critic_network import FleetTrunk
from train_RL_agents.agents.agent_configs import ActorCriticConfig

NAMES = [name for name, kind in AGENTS.items() if kind.algorithm == "on-policy"]


def test_weights_begin_orthogonal_and_those_of_the_policy_small():
    network = agent_of(NAMES[0], critic="fleet").networks["policy"]
    gains = {network.output_layer: 0.01, network.value_layer: 1.0}
    for layer in network.modules():
        if isinstance(layer, torch.nn.Linear):
            found = torch.linalg.svdvals(layer.weight.detach())
            gain = gains.get(layer, 2.0**0.5)
            torch.testing.assert_close(found, torch.full_like(found, gain), rtol=1e-4, atol=1e-5)
            assert not layer.bias.any()


def test_fleet_features_by_hand():
    trunk = FleetTrunk(3, ActorCriticConfig(hidden_sizes=(4,)))
    encoded = torch.rand(3, 5, 3, generator=seeded())
    active = torch.tensor([[True, False, True, True, False], [False] * 5, [False] * 4 + [True]])
    found, (layer, _) = trunk(encoded, active), trunk.layers
    for row in range(3):
        there = [encoded[row, r] for r in range(5) if active[row, r]]
        mean = sum(there) / len(there) if there else torch.zeros(3)
        for r in range(5):
            joined = torch.cat((encoded[row, r], mean))
            expected = (layer.weight @ joined + layer.bias).clamp_min(0.0)
            torch.testing.assert_close(found[row, r], expected)
