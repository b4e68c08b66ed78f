"""Small learners, and what their tests compare."""

import os
from unittest.mock import patch

import torch

from marinenav_env.runtime.execution import Execution
from marinenav_env.support import plugins
from train_RL_agents import learning
from train_RL_agents.agents import AGENTS, agent_class
from train_RL_agents.agents.trainer_configs import TRAINER_CONFIGS
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.learning.learner import Learner

CPU = torch.device("cpu")
_NAMED = os.environ.get("MARINENAV_AGENTS", "").split()
plugins.allow(*_NAMED)
KNOWN = {**AGENTS, **{name: agent_class(name) for name in _NAMED}}
"""The agents that the tests of the contract run for: the registry's, and a user's own."""


def agent_of(name, seed=0, num_actions=25, **settings):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return KNOWN[name](KNOWN[name].config_type(**settings), num_actions)


def learner_of(name="DQN", seed=0, num_actions=25, device=CPU, acting=None, agent=None, **settings):
    """A learner; ``acting`` says how it computes, ``settings`` what, ``agent`` of which agent."""
    agent = agent_of(name, seed, num_actions, **(agent or {})).to(device)
    generator = torch.Generator(device).manual_seed(seed)
    acting = dict(acting or {})
    settings |= {name: acting.pop(name) for name in ("precision", "tf32", "fused_optimizer") if name in acting}
    trainer = TRAINER_CONFIGS[agent.algorithm](**settings)
    own = {name: acting.pop(name) for name in ("log", "ranks", "tau") if name in acting}
    if agent.algorithm == "off-policy" and trainer.target_update_interval == 0:
        own.setdefault("tau", trainer.tau)
    execution = Execution(**{"compile": False} | acting)
    config = TrainConfig(agent=agent.config, agent_type=name, trainer=trainer, execution=execution)
    return Learner(agent, config, generator, **own)


def values_of(module):
    return [parameter.detach().clone() for parameter in module.parameters()]


def update_with_gradient(learner, batch):
    """The results of an update and the clipped gradient [N] that it applies."""
    with patch.object(learning.learner, "step_optimizer", wraps=learning.learner.step_optimizer) as step:
        results = learner.update(batch)
    return results, step.call_args.args[2]


def all_equal(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def assert_close_gradients(actual, expected, share):
    """Gradients differ by at most a share of their length."""
    assert (actual - expected).norm() < share * expected.norm()
