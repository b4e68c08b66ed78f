"""Networks of PPO and A2C: outputs of a new agent, and values of a fleet."""

from itertools import product

import pytest
import torch

from tests.train_RL_agents.helpers import each_entry, make_inputs, seeded
from tests.train_RL_agents.learners import agent_of
from train_RL_agents.agents import AGENTS
from train_RL_agents.agents.actor_critic_network import ActorCriticConfig, FleetTrunk
from train_RL_agents.networks.observation import ACTIVE_KEY

NAMES = [name for name, kind in AGENTS.items() if kind.algorithm == "on-policy"]
NORMAL = ("gaussian", "clipped_gaussian")


@pytest.mark.parametrize("state_dependent", [False, True])
@pytest.mark.parametrize("actions", NORMAL)
def test_a_new_agent_spreads_its_actions_as_configured(actions, state_dependent):
    settings = {"actions": actions, "state_dependent_std": state_dependent, "log_std": -1.5}
    agent, given = agent_of(NAMES[0], **settings), make_inputs(20, generator=seeded())
    outputs = agent.outputs(given)
    torch.testing.assert_close(outputs["log_sigma"], torch.full((20, 2), -1.5), atol=0.05, rtol=0.0)
    assert outputs["mu"].abs().max() < 0.1
    found = [name for name, _ in agent.networks.named_parameters() if name.endswith(".log_std")]
    assert len(found) == (not state_dependent)


def test_weights_begin_orthogonal_and_those_of_the_policy_small():
    network = agent_of(NAMES[0], critic="fleet").networks["policy"]
    gains = {network.output_layer: 0.01, network.value_layer: 1.0}
    for layer in network.modules():
        if isinstance(layer, torch.nn.Linear):
            found = torch.linalg.svdvals(layer.weight.detach())
            gain = gains.get(layer, 2.0**0.5)
            torch.testing.assert_close(found, torch.full_like(found, gain), rtol=1e-4, atol=1e-5)
            assert not layer.bias.any()


def test_log_standard_deviations_of_the_network_are_clipped():
    agent = agent_of(NAMES[0], actions="gaussian", state_dependent_std=True)
    layer = agent.networks["policy"].output_layer
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.copy_(torch.tensor([-30.0, 5.0, -30.0, 5.0]))
    outputs = agent.outputs(make_inputs(1, generator=seeded()))
    assert outputs["mu"].tolist() == [[-30.0, 5.0]]
    assert outputs["log_sigma"].tolist() == [[-20.0, 2.0]]


@pytest.mark.parametrize(("actions", "state_dependent"), [("categorical", False), *product(NORMAL, (False, True))])
def test_outputs_of_fleets_are_those_of_their_robots(actions, state_dependent):
    agent = agent_of(NAMES[0], actions=actions, state_dependent_std=state_dependent)
    given = make_inputs(12, generator=seeded())
    fleets = each_entry(given, lambda each: each.unflatten(0, (4, 3)))
    network = agent.networks["policy"]
    for ours, theirs in zip(network(fleets), network(given), strict=True):
        torch.testing.assert_close(ours, theirs.unflatten(0, (4, 3)))
    torch.testing.assert_close(network.policy(fleets), network.policy(given).unflatten(0, (4, 3)))


# Values of a fleet -------------------------------------------------------------------------------


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


def test_any_number_of_robots_even_none_that_is_active():
    agent, given = fleet()
    one = each_entry(given, lambda each: each[:, :1])
    assert value_of(agent, one).shape == (4, 1)
    given[ACTIVE_KEY] = torch.zeros_like(given[ACTIVE_KEY])
    assert value_of(agent, given).isfinite().all()


def test_each_robot_acts_on_its_own_observation():
    agent, given = fleet()
    alone = each_entry(given, lambda each: each[:, :1])
    torch.testing.assert_close(agent.outputs(given)["logits"][:, :1], agent.outputs(alone)["logits"])
    assert agent.samples_are_joint
    assert not agent_of(NAMES[0]).samples_are_joint


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
