"""Policies for tests of export and of the runtime on board."""

from pathlib import Path

import pytest
import torch

from train_RL_agents.config.building import make_agent
from train_RL_agents.config.reading import from_dict
from train_RL_agents.run.checkpoint import LoadedPolicy, save_policy


def make_policy(name, **settings):
    """An untrained policy of an agent."""
    config = from_dict(settings | {"agent_type": name})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        agent = make_agent(config, 25, torch.device("cpu")).eval()
    return LoadedPolicy(agent, config, Path("policy.pt"), 7, {})


def write_policy(path, name, env_steps=12_345, metrics=None, **settings):
    """Write the file of an untrained policy."""
    policy = make_policy(name, **settings)
    save_policy(path, policy.agent, policy.config, env_steps, metrics or {})
    return path


def require_onnx():
    """Skip a test where the packages of the extra are missing."""
    for package in ("onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason="needs the extra export")
