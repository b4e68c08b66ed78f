"""The published networks as ours: settings that give the same layers, and weights put into them.

Lin, Szenher, Huang and Englot (RA-L 2025, arXiv 2412.09466) publish, for most of their agents, the
weights of the network that acts. Under the settings below ours has the same layers with the same
names, and takes the same raw observations. docs/agents.md says what the settings mean.
"""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marinenav_env.files import open_regular
from marinenav_env.validation import ConfigError, require
from train_RL_agents.agents import Agent
from train_RL_agents.config.building import make_agent
from train_RL_agents.config.reading import from_dict
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.run.checkpoint import load_weights
from train_RL_agents.utils.arrays import calls_builtins, is_whole, read_arrays, require_archive

NOTE = "acting network only; all others are untrained"
LARGEST = 32 * 2**20
"""Bytes that a file of weights may have, also unpacked."""
_WHAT = "a file of weights"
_REAL = (np.float16, np.float32, np.float64, np.int32, np.int64)

_RAW = {"features": "raw", "layer_norm": False}
_SCALAR = {"critic": "scalar", "dropped": 0, "action_input": "published"}
NETWORKS: dict[str, dict[str, Any]] = {
    "AC-IQN": {**_RAW, "critics": 1, "dropped": 0, "embedding": "published", "quantiles": 8,
               "target_noise": 0.0, "saturation_penalty": 0.0, "actor_noise": 0.0, "kappa": 1.0,
               "risk": "neutral", "refine": False, "actor_share": 1.0},
    "IQN": {**_RAW, "critics": 1, "embedding": "published", "quantiles": 8, "acting_quantiles": 32,
            "random_fractions": True, "double": False, "dueling": False, "risk": "neutral",
            "kappa": 1.0},
    "DDPG": {**_RAW, **_SCALAR, "critics": 1, "target_noise": 0.0,
             "saturation_penalty": 0.0},
    "DQN": {**_RAW, "critics": 1, "double": False, "dueling": False},
    "SAC": {**_RAW, **_SCALAR, "critics": 2, "temperature": 0.078, "learn_temperature": False},
}  # fmt: skip
"""Settings of each agent under which its networks are those of the publication."""


def published_config(agent_type: str) -> TrainConfig[Any]:
    """The defaults for an agent, but with its published networks.

    Raises:
        ConfigError: when the agent's published network is not one of ours.
    """
    require(agent_type in NETWORKS, "agent", agent_type, f"one of {', '.join(NETWORKS)}")
    return from_dict({"agent_type": agent_type, "agent": NETWORKS[agent_type]})


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read weights by layer name.

    Args:
        path: arrays in a .npz file, or a PyTorch state dict in a .pt or .pth file.

    Raises:
        ConfigError: when it cannot be read, or holds something else.
    """
    suffixes = (".npz", ".pt", ".pth")
    require(path.suffix in suffixes, "weights", str(path), f"a file in {', '.join(suffixes)}")
    found: dict[str, Any]
    if path.suffix == ".npz":
        arrays = read_arrays(path, _WHAT, LARGEST)
        real = {name: array.dtype in _REAL for name, array in arrays.items()}
        found = {name: torch.from_numpy(array) if real[name] else array
                 for name, array in arrays.items()}  # fmt: skip
    else:
        found = _read_state_dict(path)
    for name, value in found.items():
        fine = is_whole(value) and value.is_floating_point()
        require(fine, f"{path}: {name}", type(value).__name__, "an array of real numbers")
        require(bool(value.isfinite().all()), f"{path}: {name}", "nan or inf", "finite")
    return found


def _read_state_dict(path: Path) -> dict[str, Any]:
    with open_regular(path, _WHAT, LARGEST) as file:
        content = file.read()
    try:
        if zipfile.is_zipfile(path):
            require_archive(path, _WHAT, LARGEST)
        if calls_builtins(content):
            raise ValueError
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tensors that are refused afterwards
            return dict(torch.load(path, map_location="cpu", weights_only=True))
    except ConfigError:
        raise
    except Exception as error:  # damaged bytes can lead anywhere
        raise ConfigError(f"{path}: damaged, or not {_WHAT}") from error


def import_agent(agent_type: str, weights: dict[str, Tensor], source: Path) -> Agent[Any]:
    """An agent that acts by published weights; its other networks are untrained.

    Args:
        agent_type: whose weights they are.
        weights: of the acting network, by layer name; computed with in float32.
        source: where they are from, for messages.

    Returns:
        The agent of ``published_config``, the same one each time, on the CPU.

    Raises:
        ConfigError: when they are not the weights of such a network.
    """
    agent = _untrained(agent_type)
    misfits = _misfits(agent, weights)
    if misfits:
        others = [name for name in NETWORKS if not _misfits(_untrained(name), weights)]
        hint = f"; they fit {' and '.join(others)}" if others else ""
        more = f" and {len(misfits) - 3} more" if len(misfits) > 3 else ""
        raise ConfigError(
            f"{source}: not the weights of a published {agent_type} network "
            f"({', '.join(misfits[:3])}{more}){hint}"
        )
    named = {f"{agent.output_networks()[0]}.{name}": value for name, value in weights.items()}
    load_weights(agent, agent.networks.state_dict() | named, source)
    return agent.eval()


def _untrained(agent_type: str) -> Agent[Any]:
    config = published_config(agent_type)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make_agent(config, config.world.vessel.num_actions, torch.device("cpu"))


def _misfits(agent: Agent[Any], weights: dict[str, Tensor]) -> list[str]:
    """Differences between weights and the layout of an agent's acting network."""
    network = agent.networks[agent.output_networks()[0]]
    wanted = {name: tuple(value.shape) for name, value in network.named_parameters()}
    given = {name: tuple(value.shape) for name, value in weights.items()}
    return [
        *(f"{name} is missing" for name in wanted if name not in given),
        *(f"{name} is unknown" for name in given if name not in wanted),
        *(f"{name} is {shape}, must be {wanted[name]}" for name, shape in given.items()
          if wanted.get(name, shape) != shape),
    ]  # fmt: skip
