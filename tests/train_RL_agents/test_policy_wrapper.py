"""The policy that drives the world: exploration, neutral actions, modes, one pass per call."""

import pytest
import torch
from tensordict import TensorDict
from torch import nn

from marinenav_env import GROUP
from tests.host_reads import no_host_reads
from tests.train_RL_agents.helpers import make_inputs, seeded
from train_RL_agents.agents import AGENTS, Agent, AgentConfig
from train_RL_agents.networks.encoders import ObservationNetwork
from train_RL_agents.policy_wrapper import RISK_KEY, PolicyWrapper

ACTIONS = 25


class Scripted(Agent):
    """Always acts alike; counts how often it is asked, and with what."""

    config_type = AgentConfig

    def __init__(self, action):
        super().__init__(AgentConfig(), ACTIONS)
        self.given = nn.Parameter(torch.as_tensor(action), requires_grad=False)
        self.calls, self.shapes, self.risks = 0, [], []

    def outputs(self, observation, risk=None):
        self.calls += 1
        self.shapes.append({name: tuple(each.shape) for name, each in observation.items()})
        self.risks.append(risk)
        lead = observation["self_state"].shape[:-1]
        return {"action": self.given.expand(*lead, *self.given.shape).clone()}

    def select(self, outputs):
        return outputs["action"]

    def loss(self, batch, noise):
        raise NotImplementedError


class Discrete(Scripted):
    continuous = False


class Continuous(Scripted):
    continuous = True


def world_like(envs, robots, active=None, seed=0):
    """What the environment hands a policy."""
    given = make_inputs(envs, robots, generator=seeded(seed))
    mask = torch.ones(envs, robots, dtype=torch.bool) if active is None else active
    observation = TensorDict(given, (envs, robots))
    group = TensorDict({"observation": observation, "mask": mask}, (envs, robots))
    return TensorDict({GROUP: group}, (envs,))


def actions(wrapper, step):
    return wrapper(step.clone())[GROUP, "action"]


def exploring(agent, strengths, seed=0, **bounds):
    """A wrapper in training mode with a given strength in each environment."""
    wrapper = PolicyWrapper(agent, len(strengths), seeded(seed), **bounds)
    wrapper.exploration.copy_(torch.tensor(strengths)[:, None])
    return wrapper


def within(count, total, share, deviations=4.5):
    """Whether a count is what a binomial variable of that share comes to."""
    return abs(count - total * share) <= deviations * (total * share * (1 - share)) ** 0.5


def test_epsilon_is_the_right_rate_in_each_environment():
    epsilons, robots = [0.0, 0.05, 0.3, 1.0], 20_000
    wrapper = exploring(Discrete(7), epsilons)
    taken = actions(wrapper, world_like(len(epsilons), robots))
    assert taken.dtype == torch.int64
    for row, epsilon in zip(taken, epsilons, strict=True):
        other = int((row != 7).sum())
        assert within(other, robots, epsilon * (ACTIONS - 1) / ACTIONS), epsilon
    counts = torch.bincount(taken[3], minlength=ACTIONS)
    assert counts.shape == (ACTIONS,)  # nothing outside the range
    mean = robots / ACTIONS
    assert float(((counts - mean) ** 2 / mean).sum()) < 24 + 4 * 48**0.5


def test_noise_has_the_right_spread_in_each_environment():
    strengths, robots = [0.0, 0.05, 0.1], 20_000
    wrapper = exploring(Continuous([0.25, -0.5]), strengths)
    noise = actions(wrapper, world_like(3, robots)) - torch.tensor([0.25, -0.5])
    for row, strength in zip(noise, strengths, strict=True):
        # No bound is within 5 standard deviations here.
        assert float(row.std()) == pytest.approx(strength, rel=0.02, abs=1e-7)
        assert float(row.mean()) == pytest.approx(0.0, abs=5 * strength / 200 + 1e-7)
    # Independent between robots, components and calls.
    left, right = noise[2].unbind(-1)
    again = actions(wrapper, world_like(3, robots))[2] - torch.tensor([0.25, -0.5])
    for one, other in ((left, right), (left[:-1], left[1:]), (left, again[:, 0])):
        correlation = torch.corrcoef(torch.stack((one, other)))[0, 1]
        assert abs(float(correlation)) < 0.035


def test_uniform_exploration_replaces_the_right_share_of_continuous_actions():
    epsilons, robots = [0.0, 0.05, 0.3, 1.0], 20_000
    wrapper = exploring(Continuous([0.25, -0.5]), epsilons, uniform=True)
    taken = actions(wrapper, world_like(len(epsilons), robots))
    replaced = taken != torch.tensor([0.25, -0.5])
    assert torch.equal(replaced[..., 0], replaced[..., 1])  # the whole action
    for row, epsilon in zip(replaced[..., 0], epsilons, strict=True):
        assert within(int(row.sum()), robots, epsilon), epsilon
    for component in taken[3].unbind(-1):
        assert ((component >= -1.0) & (component <= 1.0)).all()
        assert float(component.mean()) == pytest.approx(0.0, abs=0.02)
        assert float(component.std()) == pytest.approx(2.0 / 12**0.5, rel=0.02)
    assert abs(float(torch.corrcoef(taken[3].T)[0, 1])) < 0.035


@pytest.mark.parametrize("explores", [False, True])
@pytest.mark.parametrize("agent", [Discrete(7), Continuous([0.5, -0.5])])
def test_inactive_robots_get_the_neutral_action(agent, explores):
    active = torch.tensor([[True, False, True], [False, False, True]])
    wrapper = exploring(agent, [1.0, 1.0]).train(explores)
    taken = [actions(wrapper, world_like(2, 3, active)) for _ in range(20)]
    inactive = torch.stack(taken)[:, ~active]
    assert not inactive.any()
    assert inactive.dtype == agent.given.dtype
    assert torch.stack(taken)[:, active].any()


@pytest.mark.parametrize("explores", [False, True])
@pytest.mark.parametrize("name", ["AC-IQN", "IQN", "PPO"])
def test_one_forward_pass_of_every_network(name, explores):
    agent = AGENTS[name](AGENTS[name].config_type())
    passes = {}
    for key, network in agent.networks.items():
        if isinstance(network, ObservationNetwork):
            passes[key] = 0

            def count(*_, key=key):
                passes[key] += 1

            network.self_encoder.register_forward_hook(count)
    wrapper, step = exploring(agent, [0.1] * 4).train(explores), world_like(4, 3)
    with no_host_reads():
        taken = wrapper(step)[GROUP, "action"]
    assert taken.shape == ((4, 3, 2) if agent.continuous else (4, 3))
    assert not taken.requires_grad
    assert sum(passes.values()) >= 1
    assert set(passes.values()) <= {0, 1}
    if not explores:
        assert all(passes[name] == 1 for name in agent.output_networks() if name in passes)


@pytest.mark.slow
@pytest.mark.parametrize("name", AGENTS)
def test_a_compiled_forward_pass_gives_the_same_actions(name):
    agent = AGENTS[name](AGENTS[name].config_type())
    torch.compiler.reset()
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    plain, fast = (PolicyWrapper(agent, 64, seeded(), compile=flag) for flag in (False, True))
    for seed in range(3):
        for each in (plain, fast):
            each.set_exploration(0.1 * seed, 0.5)
        with torch.no_grad():  # weights may change under generated code
            next(agent.parameters()).mul_(1.01)
        expected, taken = (actions(each, world_like(64, 3, seed=seed)) for each in (plain, fast))
        if agent.continuous:
            torch.testing.assert_close(taken, expected, rtol=1e-4, atol=1e-5)
        else:  # of nearly equal ones rounding may choose another
            assert (taken == expected).float().mean() > 0.99
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before + 1
    torch.compiler.reset()


def test_risk_reaches_the_agent_as_it_is_but_for_training():
    agent, step = Discrete(7), world_like(2, 2)
    wrapper = PolicyWrapper(agent)
    wrapper(step.clone())
    step.set(RISK_KEY, torch.tensor([[0.1, 0.2], [0.3, 0.4]]))
    wrapper(step)
    assert agent.risks[0] is None
    assert torch.equal(agent.risks[1], step[RISK_KEY])
    exploring(agent, [0.0] * 2)(step)
    assert agent.risks[2] is None  # training does not take risk into account
