"""What holds for every agent, a user's own too.

The agents are those of the registry, one that stands for a user's own, and those that a user names
in ``MARINENAV_AGENTS=package.module:Class``; none is asked for by name.
"""

import copy
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from marinenav_env import ConfigError
from tests.host_reads import no_host_reads
from tests.train_RL_agents.helpers import KNOWN, each_entry, explored, make_batch, make_inputs, seeded
from train_RL_agents.agents import Agent, AgentConfig
from train_RL_agents.learning.flat import FlatWeights
from train_RL_agents.learning.gradients import make_compiled_gradient_function, make_gradient_function
from train_RL_agents.networks.encoders import ObservationNetwork
from train_RL_agents.networks.layers import call_with_frozen_parameters
from train_RL_agents.run.tags import describe_tag


@dataclass(frozen=True)
class OwnConfig(AgentConfig):
    """Settings."""

    steepness: float = 2.0
    """Factor before the tanh of the actor."""


class Linear(ObservationNetwork):
    """Numbers that are linear in the encoded observation, and perhaps in an action."""

    def __init__(self, config, spec, inputs, outputs):
        super().__init__(config, spec)
        self.layer = nn.Linear(self.encoded_width + inputs, outputs)

    def forward(self, observation, *more):
        return self.layer(torch.cat((self.encode(observation), *more), -1))


class OwnAgent(Agent):
    """As a user may write it: deterministic policy gradients with the least that the contract asks for."""

    config_type = OwnConfig
    continuous = True
    output_meanings = {"command": "left and right command before tanh"}  # noqa: RUF012
    selection_rule = "tanh of the command"

    def __init__(self, config, num_actions=25, spec=None):
        super().__init__(config, num_actions, spec)
        self.networks["actor"] = Linear(config, self.spec, 0, 2)
        self.networks["critic"] = Linear(config, self.spec, 2, 1)
        self.make_targets("actor", "critic")

    def outputs(self, observation, risk=None):
        return {"command": self.config.steepness * self.networks["actor"](observation)}

    def select(self, outputs):
        return torch.tanh(outputs["command"])

    def loss(self, batch, noise):
        with torch.no_grad():
            command = self.config.steepness * self.targets["actor"](batch.next_observation)
            following = self.targets["critic"](batch.next_observation, torch.tanh(command))
            target = batch.reward + batch.discount * following.squeeze(-1)
        value = self.networks["critic"](batch.observation, batch.action).squeeze(-1)
        action = self.act(batch.observation)
        judged = call_with_frozen_parameters(self.networks["critic"], batch.observation, action)
        return {
            "loss_critic": (value - target).square().mean(),
            "loss_actor": -judged.mean(),
            "value": value.mean(),
            "target": target.mean(),
        }


EVERY = {**KNOWN, "own": OwnAgent}
OFF_POLICY = [name for name, kind in EVERY.items() if kind.algorithm == "off-policy"]
every_agent = pytest.mark.parametrize("name", EVERY)
off_policy_agents = pytest.mark.parametrize("name", OFF_POLICY)


def build(name, seed=0, num_actions=25):
    """An agent with larger weights than a new one has: those hardly tell robots apart."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        agent = EVERY[name](EVERY[name].config_type(), num_actions)
    with torch.no_grad():
        for parameters in (agent.networks.parameters(), agent.targets.parameters()):
            for parameter in parameters:
                if parameter.ndim == 2:
                    parameter.mul_(2.0)
    return agent


def scalars(losses):
    return {key: value for key, value in losses.items() if key != "priority"}


def minimised(losses):
    return {key: value for key, value in losses.items() if key.startswith("loss")}


@every_agent
def test_defaults_construct(name):
    agent = EVERY[name](EVERY[name].config_type())
    assert agent.num_actions == 25
    assert agent.output_networks()
    assert set(agent.output_networks()) <= set(agent.networks)
    assert set(agent.targets) <= set(agent.networks)
    assert (len(agent.targets) > 0) == (agent.algorithm == "off-policy")
    assert not any(parameter.requires_grad for parameter in agent.targets.parameters())
    for key, target in agent.targets.items():
        actual, expected = agent.networks[key].state_dict(), target.state_dict()
        assert actual.keys() == expected.keys()
        for entry, value in actual.items():
            assert torch.equal(value, expected[entry])
            assert value.data_ptr() != expected[entry].data_ptr()


@every_agent
@pytest.mark.parametrize("shape", [(4, 3)])
def test_quantiles_of_the_return_are_ascending_and_one_row_per_robot(name, shape):
    agent, given = build(name), make_inputs(*shape, generator=seeded())
    with torch.no_grad():
        action = agent.act(given)
        quantiles = agent.return_quantiles(given, action)
        alone = agent.return_quantiles(each_entry(given, lambda each: each[:1]), action[:1])
    if quantiles is None:
        assert alone is None
        return
    assert quantiles.shape[:-1] == shape
    assert (quantiles.diff(dim=-1) >= 0.0).all()
    assert (quantiles[..., -1] > quantiles[..., 0]).any()
    torch.testing.assert_close(quantiles[:1], alone)


@every_agent
@pytest.mark.parametrize("mode", ["act", "explore"])
@pytest.mark.parametrize("shape", [(1,), (4, 3)])
def test_actions_have_the_shape_of_the_robots(name, shape, mode):
    agent, given = build(name), make_inputs(*shape, generator=seeded())
    with torch.no_grad():
        action = agent.act(given) if mode == "act" else explored(agent, given)
    if agent.continuous:
        assert action.shape == (*shape, 2)
        assert action.dtype == torch.float32
        assert (action.abs() <= 1.0).all()
    else:
        assert action.shape == shape
        assert action.dtype == torch.int64
        assert ((action >= 0) & (action < 25)).all()


@every_agent
def test_each_robot_is_decided_for_alone(name):
    agent, given = build(name), make_inputs(4, 3, generator=seeded(1))
    with torch.no_grad():
        together = agent.act(given)
        for e in range(4):
            for r in range(3):
                alone = agent.act(each_entry(given, lambda each, e=e, r=r: each[e, r][None]))
                torch.testing.assert_close(together[e, r], alone[0])
    assert not torch.equal(together, together[:1, :1].expand_as(together))


@every_agent
def test_only_agents_that_say_so_use_risk(name):
    agent, given = build(name), make_inputs(200, generator=seeded())
    with torch.no_grad():
        cautious = agent.act(given, torch.full((200,), 0.02))
    assert torch.equal(cautious, agent.act(given)) != agent.supports_risk


@every_agent
@pytest.mark.parametrize("method", ["exploration_noise", "loss_noise"])
def test_noise_comes_from_its_generator_alone(name, method):
    agent = build(name)
    state = torch.get_rng_state()

    def drawn(seed):
        size = 8 if method == "loss_noise" else torch.Size((4, 2))
        leaves = tree_leaves(getattr(agent, method)(size, seeded(seed)))
        parts = [leaf.flatten() for leaf in leaves if isinstance(leaf, torch.Tensor)]
        return torch.cat(parts or [torch.ones(1)])

    first, same, other = drawn(3), drawn(3), drawn(4)
    assert torch.equal(first, same)
    assert first.numel() == 1 or not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


@every_agent
def test_losses_are_finite_scalars(name):
    agent = build(name)
    losses = agent.loss(make_batch(agent, 32, seeded()), agent.loss_noise(32, seeded()))
    assert minimised(losses)
    for key, value in scalars(losses).items():
        assert value.shape == (), key
        assert torch.isfinite(value), key
        assert value.requires_grad or not key.startswith("loss"), key
        assert describe_tag(f"losses/{key}"), key
    assert ("priority" in losses) == agent.uses_priorities
    if agent.uses_priorities:
        assert losses["priority"].shape == (32,)
        assert (losses["priority"] >= 0.0).all()
        assert not losses["priority"].requires_grad


@every_agent
def test_losses_depend_on_nothing_but_their_arguments(name):
    agent = build(name)
    batch, noise = make_batch(agent, 32, seeded()), agent.loss_noise(32, seeded())
    before = copy.deepcopy(agent.state_dict())
    with no_host_reads():
        first, second = agent.loss(batch, noise), agent.loss(batch, noise)
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert all(torch.equal(value, before[key]) for key, value in agent.state_dict().items())


@every_agent
def test_gradients_reach_every_learned_parameter_and_no_target(name):
    agent = build(name)
    batch, noise = make_batch(agent, 64, seeded()), agent.loss_noise(64, seeded())
    total = torch.stack(list(minimised(agent.loss(batch, noise)).values())).sum()
    total.backward()
    for key, parameter in agent.networks.named_parameters():
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key
        assert parameter.grad.any(), key
    assert all(parameter.grad is None for parameter in agent.targets.parameters())


def gradient_sizes(losses, parameters):
    """Largest absolute entry of the gradient of each parameter; 0 where none arrives."""
    gradients = torch.autograd.grad(losses, parameters, retain_graph=True, allow_unused=True)
    return [0.0 if each is None else float(each.abs().max()) for each in gradients]


@every_agent
def test_each_loss_trains_its_own_networks(name):
    """Actor losses send nothing into critics, critic losses nothing into the actor.

    On-policy agents share one network between them.
    """
    agent = build(name)
    batch, noise = make_batch(agent, 64, seeded()), agent.loss_noise(64, seeded())
    losses = minimised(agent.loss(batch, noise))
    trained = {}
    for key, loss in losses.items():
        for part, network in agent.networks.items():
            if max(gradient_sizes(loss, list(network.parameters()))) > 0.0:
                trained.setdefault(part, []).append(key)
    assert set(trained) == set(agent.networks)
    if agent.algorithm == "on-policy":
        assert {key for keys in trained.values() for key in keys} == set(losses)
        return
    assert all(len(keys) == 1 for keys in trained.values()), trained
    for part, (key,) in trained.items():
        role = part.split("_")[0]
        assert len(losses) == 1 or key == f"loss_{role}"


@off_policy_agents
def test_terminal_transitions_do_not_bootstrap(name):
    """With discount 0 the next observation is of no consequence, with 0.9 it is."""
    agent = build(name)
    batch, noise = make_batch(agent, 32, seeded()), agent.loss_noise(32, seeded())
    other = make_inputs(32, generator=seeded(9))

    def losses(discount, following, bonus=0.0):
        changed = batch._replace(
            discount=torch.full((32,), discount), next_observation=following, reward=batch.reward + bonus
        )
        return torch.stack(list(minimised(agent.loss(changed, noise)).values()))

    ended = losses(0.0, batch.next_observation)
    torch.testing.assert_close(losses(0.0, other), ended)
    assert (losses(0.0, other, bonus=0.5) - ended).abs().max() > 1e-3
    assert (losses(0.9, batch.next_observation) - losses(0.9, other)).abs().max() > 1e-3


@off_policy_agents
def test_importance_weights_are_used_by_agents_that_prioritise(name):
    agent = build(name)
    batch, noise = make_batch(agent, 32, seeded()), agent.loss_noise(32, seeded())
    first = torch.arange(32) < 16
    plain = agent.loss(batch, noise)
    weighted = agent.loss(batch._replace(weights=2.0 * first), noise)
    if not agent.uses_priorities:
        assert all(torch.equal(plain[key], weighted[key]) for key in plain)
        return
    torch.testing.assert_close(weighted["loss"], plain["priority"][first].mean())
    assert torch.equal(weighted["priority"], plain["priority"])


@every_agent
@pytest.mark.slow
def test_compiled_losses_equal_eager_ones(name):
    agent = build(name)
    batch, noise = make_batch(agent, 32, seeded()), agent.loss_noise(32, seeded())
    torch.compiler.reset()
    flat, factor = FlatWeights(agent.networks), torch.tensor(2.0)
    plain = make_gradient_function(agent, agent.loss, flat)
    fast = make_compiled_gradient_function(agent, agent.loss, flat, torch.device("cpu"))
    (gradient, losses), (expected, eager) = (function(batch, noise, factor) for function in (fast, plain))
    torch.testing.assert_close(losses, eager, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-5)


# Settings ----------------------------------------------------------------------------------------

NAN = float("nan")
IMPOSSIBLE = {
    "DQN": [("critics", 0), ("critics", 11), ("self_width", 0), ("object_width", -1), ("hidden_sizes", (8, 0)),
            ("hidden_sizes", ()), ("scan_width", 5000), ("excluded", ("self_state",)), ("entry_encoders", ("scan",))],
    "AC-IQN": [("quantiles", 0), ("quantiles", NAN), ("critics", 0), ("critics", 11), ("target_noise", -0.1),
               ("target_noise", 1.1), ("actor_share", 0), ("kappa", 0.0), ("dropped", 99)],
    "SAC": [("dropped", -1), ("dropped", 25)],
    "PPO": [("clip", 0.0), ("clip", 1.5), ("target_kl", -1.0)],
    "A2C": [("log_std", 3.0), ("log_std", -11.0),
            ("value_coef", -1.0), ("entropy", -0.1), ("entropy_final", -0.1), ("entropy", NAN)],
}  # fmt: skip


@pytest.mark.parametrize(("name", "key", "value"), [(name, *each) for name in IMPOSSIBLE for each in IMPOSSIBLE[name]])
def test_impossible_settings_are_refused(name, key, value):
    with pytest.raises(ConfigError, match=rf"agent\.{key}"):
        config = EVERY[name].config_type(**{key: value})
        EVERY[name](config)  # what depends on the actions is refused with them
