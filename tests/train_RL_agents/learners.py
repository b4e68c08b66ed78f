"""Small learners, and what their tests compare."""

import torch

from train_RL_agents.agents import AGENTS
from train_RL_agents.config.schema import TRAINER_CONFIGS
from train_RL_agents.learning.learner import Learner

CPU = torch.device("cpu")


def agent_of(name, seed=0, num_actions=25, **settings):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AGENTS[name](AGENTS[name].config_type(**settings), num_actions)


def learner_of(name="DQN", seed=0, num_actions=25, device=CPU, acting=None, agent=None, **settings):
    """A learner; ``acting`` says how it computes, ``settings`` what, ``agent`` of which agent."""
    agent = agent_of(name, seed, num_actions, **(agent or {})).to(device)
    generator = torch.Generator(device).manual_seed(seed)
    config = TRAINER_CONFIGS[agent.algorithm](**settings)
    options = {"compile": False}
    if agent.algorithm == "off-policy":
        options["tau"] = config.tau if config.target_update_interval == 0 else 0.0
    else:
        options["optimizer"] = config.optimizer
    options |= acting or {}
    return Learner(agent, config, config.batch_size, generator, **options)


def values_of(module):
    return [parameter.detach().clone() for parameter in module.parameters()]


def all_equal(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def assert_close_gradients(ours, theirs, share):
    """Gradients differ by at most a share of their length."""
    assert (ours - theirs).norm() < share * theirs.norm()
