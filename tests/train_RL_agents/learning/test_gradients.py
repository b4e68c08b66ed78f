"""Losses and their gradients as one function."""

import pytest
import torch
from torch._dynamo.utils import counters

from marinenav_env.runtime.kept_code import keep_code_in
from tests.train_RL_agents.helpers import CPU, agent_of, make_batch, seeded
from tests.train_RL_agents.learning.helpers import assert_close_gradients
from train_RL_agents.agents import AGENTS
from train_RL_agents.agents.a2c import A2C
from train_RL_agents.learning.flat import FlatWeights
from train_RL_agents.learning.gradients import (
    in_half_precision,
    make_compiled_gradient_function,
    make_gradient_function,
)

ONE = torch.tensor(1.0)


@pytest.mark.parametrize("name", AGENTS)
def test_gradients_are_those_of_the_sum_of_what_is_minimised(name):
    agent = agent_of(name)
    batch, noise = make_batch(agent, 16, seeded()), agent.loss_noise(16, seeded(1))
    flat = FlatWeights(agent.networks)
    gradient, losses = make_gradient_function(agent, agent.loss, flat)(batch, noise, torch.tensor(3.0))
    found = agent.loss(batch, noise)
    sum(value for key, value in found.items() if key.startswith("loss")).backward()
    for each, actual in zip(agent.networks.parameters(), flat.parameter_views(gradient), strict=True):
        torch.testing.assert_close(actual, 3.0 * each.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(losses, found)
    assert not any(value.requires_grad for value in losses.values())


@pytest.mark.parametrize("name", ["AC-IQN", "Rainbow", "PPO"])
def test_bfloat16_is_close_and_reduces_in_float32(name):
    """Losses to 0.5%; gradients to 10%, as factors have 8 bits and errors are random."""
    agent = agent_of(name)
    batch, noise = make_batch(agent, 256, seeded()), agent.loss_noise(256, seeded(1))
    flat = FlatWeights(agent.networks)
    gradients, exact = make_gradient_function(agent, agent.loss, flat)(batch, noise, ONE)
    losses = in_half_precision(agent.loss, CPU, torch.bfloat16)
    actual, rounded = make_gradient_function(agent, losses, flat)(batch, noise, ONE)
    assert any(not torch.equal(rounded[key], value) for key, value in exact.items())
    for key, value in exact.items():
        assert rounded[key].dtype == torch.float32, key
        torch.testing.assert_close(rounded[key], value, rtol=5e-3, atol=5e-3, msg=key)
    assert_close_gradients(actual, gradients, 0.1)
    assert all(weight.dtype == torch.float32 for weight in agent.parameters())


@pytest.mark.slow
def test_each_learner_has_code_of_its_own():
    """Modules and settings are not checked when compiled gradients are called."""
    torch.compiler.reset()
    found = []
    for kappa in (0.1, 10.0):
        agent = agent_of("IQN", kappa=kappa)
        batch, noise = make_batch(agent, 8, seeded()), agent.loss_noise(8, seeded(1))
        flat = FlatWeights(agent.networks)
        plain = make_gradient_function(agent, agent.loss, flat)(batch, noise, ONE)
        fast = make_compiled_gradient_function(agent, agent.loss, flat, CPU)
        for _ in range(2):
            found.append(fast(batch, noise, ONE))
            torch.testing.assert_close(found[-1], plain, rtol=1e-3, atol=1e-5)
    assert (found[0][0] - found[-1][0]).norm() > 0.1 * found[0][0].norm()
    torch.compiler.reset()


class Inherited(A2C):
    """A user's agent, which may override something tomorrow."""


@pytest.mark.slow
@pytest.mark.skipif(torch.__version__ < "2.15", reason="torch keeps no whole functions")
def test_code_is_kept_of_our_agents_and_their_own_losses_alone(tmp_path):
    agent = agent_of("A2C")
    inherited = Inherited(agent.config, agent.num_actions, agent.spec)
    inherited.load_state_dict(agent.state_dict())
    batch, noise = make_batch(agent, 8, seeded()), agent.loss_noise(8, seeded(1))

    def doubled(*given):
        return {name: 2.0 * value for name, value in agent.loss(*given).items()}

    cases = [(agent, agent.loss), (agent, agent.loss), (inherited, inherited.loss), (agent, doubled)]
    traced, found = [], []
    for each, losses in cases:
        torch.compiler.reset()
        counters.clear()
        with keep_code_in(tmp_path, "marinenav_env", "train_RL_agents"):
            fast = make_compiled_gradient_function(each, losses, FlatWeights(each.networks), CPU)
            found.append(fast(batch, noise, ONE)[0])
        traced.append(counters["stats"]["unique_graphs"] > 0)
    assert traced == [True, False, True, True]
    assert len([file for file in tmp_path.iterdir() if file.suffix != ".mark"]) == 1
    torch.testing.assert_close(found, [found[0], found[0], found[0], 2.0 * found[0]])
    torch.compiler.reset()
