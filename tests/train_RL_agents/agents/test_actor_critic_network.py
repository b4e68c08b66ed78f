"""Networks of PPO and A2C: outputs of a new agent, and values of a fleet."""

import torch

from tests.train_RL_agents.helpers import each_entry, make_inputs, seeded
from tests.train_RL_agents.learners import agent_of
from train_RL_agents.agents import AGENTS
from train_RL_agents.agents.actor_critic_network import FleetTrunk
from train_RL_agents.agents.agent_configs import ActorCriticConfig
from train_RL_agents.networks.observation import ACTIVE_KEY

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


def fleet(name=NAMES[0], robots=6, **settings):
    agent = agent_of(name, critic="fleet", **settings)
    given = make_inputs(4, robots, generator=seeded())
    given[ACTIVE_KEY] = torch.rand(4, robots, generator=seeded(1)) < 0.6
    given[ACTIVE_KEY][:, 0] = True
    given[ACTIVE_KEY][:, 3] = False
    return agent, given


def value_of(agent, observation):
    return agent.networks["policy"](observation)[1]


def test_inactive_robots_are_not_looked_at():
    agent, given = fleet()
    junk = {**given, "self_state": given["self_state"].clone()}
    junk["self_state"][:, 3] = 1e3
    before, after = value_of(agent, given), value_of(agent, junk)
    torch.testing.assert_close(after[given[ACTIVE_KEY]], before[given[ACTIVE_KEY]])
    without = each_entry(given, lambda each: each[:, [0, 1, 2, 4, 5]])
    torch.testing.assert_close(value_of(agent, without)[:, 0], before[:, 0])
    # Active ones are.
    moved = {**given, "self_state": given["self_state"].clone()}
    moved["self_state"][:, 0] += 5.0
    others = given[ACTIVE_KEY].clone()
    others[:, 0] = False
    assert not torch.isclose(value_of(agent, moved), before)[others].any()


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
