"""The published networks as ours: settings that give the same layers, and weights put into them.

Lin, Szenher, Huang and Englot (RA-L 2025, arXiv 2412.09466) publish, for most of their agents, the
weights of the network that acts. Under the settings below ours has the same layers with the same
names, and takes the same raw observations. docs/agents.md says what the settings mean.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

from marinenav_env.support.files import open_regular
from marinenav_env.support.validation import ConfigError, require
from train_RL_agents.agents import Agent
from train_RL_agents.config.building import make_agent
from train_RL_agents.config.reading import from_dict
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.utils.arrays import calls_builtins, is_whole, read_arrays, require_archive
from train_RL_agents.utils.closest import did_you_mean

NOTE = "acting network only; all others are untrained"
LARGEST = 32 * 2**20
"""Bytes that a file of weights may have, also unpacked."""
_WHAT = "a file of weights"
_REAL = (np.float16, np.float32, np.float64, np.int32, np.int64)

_RAW = {"features": "raw", "layer_norm": False}
_SCALAR = {"critic": "scalar", "dropped": 0, "action_input": "published"}
NETWORKS: dict[str, dict[str, Any]] = {
    "AC-IQN": {
        **_RAW,
        "critics": 1,
        "dropped": 0,
        "embedding": "published",
        "quantiles": 8,
        "target_noise": 0.0,
        "saturation_penalty": 0.0,
        "actor_noise": 0.0,
        "kappa": 1.0,
        "risk": "neutral",
        "refine": False,
        "actor_share": 1.0,
    },
    "IQN": {
        **_RAW,
        "critics": 1,
        "embedding": "published",
        "quantiles": 8,
        "acting_quantiles": 32,
        "random_fractions": True,
        "double": False,
        "dueling": False,
        "risk": "neutral",
        "kappa": 1.0,
    },
    "DDPG": {**_RAW, **_SCALAR, "critics": 1, "target_noise": 0.0, "saturation_penalty": 0.0},
    "DQN": {**_RAW, "critics": 1, "double": False, "dueling": False},
    "SAC": {**_RAW, **_SCALAR, "critics": 2, "temperature": 0.078, "learn_temperature": False},
}
"""Settings of each agent under which its networks are those of the publication."""


def published_config(agent_type: str) -> TrainConfig[Any]:
    """The defaults for an agent, but with its published networks.

    Raises:
        ConfigError: when the agent's published network is not one of ours.
    """
    allowed = f"one of {', '.join(NETWORKS)}{did_you_mean(agent_type, NETWORKS)}"
    require(agent_type in NETWORKS, "agent", agent_type, allowed)
    return from_dict({"agent_type": agent_type, "agent": NETWORKS[agent_type]})


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read weights by layer name.

    Args:
        path: arrays in a .npz file, or in a .pt or .pth file a PyTorch state dict or a TorchScript
            program, whose code is not run.

    Raises:
        ConfigError: when it cannot be read, or holds something else.
    """
    suffixes = (".npz", ".pt", ".pth")
    require(path.suffix in suffixes, "weights", str(path), f"a file in {', '.join(suffixes)}")
    found: dict[str, Any]
    if path.suffix == ".npz":
        arrays = read_arrays(path, _WHAT, LARGEST)
        real = {name: array.dtype in _REAL for name, array in arrays.items()}
        found = {name: torch.from_numpy(array) if real[name] else array for name, array in arrays.items()}
    else:
        found = _read_torch(path)
    for name, value in found.items():
        fine = is_whole(value) and value.is_floating_point()
        require(fine, f"{path}: {name}", type(value).__name__, "an array of real numbers")
        require(bool(value.isfinite().all()), f"{path}: {name}", "nan or inf", "finite")
    return found


def _read_torch(path: Path) -> dict[str, Any]:
    """What a file of torch holds, by name; of a program, its weights."""
    with open_regular(path, _WHAT, LARGEST) as file:
        content = file.read()
    try:
        if zipfile.is_zipfile(path):
            require_archive(path, _WHAT, LARGEST)
        program = is_program(path)
        content = _without_code(path) if program else content
        if calls_builtins(content):
            raise ValueError
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tensors that are refused afterwards
            if program:
                return _read_program(io.BytesIO(content))
            return dict(torch.load(io.BytesIO(content), map_location="cpu", weights_only=True))
    except ConfigError:
        raise
    except Exception as error:  # damaged bytes can lead anywhere
        raise ConfigError(f"{path}: damaged, or not {_WHAT}") from error


class _Module:
    """A module of a program, as far as a file tells: its weights and modules are attributes."""


def is_program(path: Path) -> bool:
    """Whether a file is a TorchScript program; a damaged file is not."""
    try:
        with open_regular(path, _WHAT, LARGEST) as file, zipfile.ZipFile(file) as archive:
            return any(name.endswith("/constants.pkl") for name in archive.namelist())
    except Exception:  # damaged bytes can lead anywhere
        return False


def _without_code(path: Path) -> bytes:
    """A TorchScript program as a checkpoint of its modules: nothing is left that could run."""
    copy = io.BytesIO()
    with zipfile.ZipFile(path) as given, zipfile.ZipFile(copy, "w") as taken:
        for entry in given.infolist():
            name = entry.filename.partition("/")[2]
            if re.fullmatch(r"data\.pkl|data/\w+|byteorder|version", name):
                taken.writestr(f"archive/{name}", given.read(entry))
    return copy.getvalue()


def _read_program(checkpoint: io.BytesIO) -> dict[str, Any]:
    """The weights in a program without code, by layer name.

    torch reads them as any checkpoint's: without other classes than those of tensors, but for those
    that the code defined, which become ``_Module``.
    """
    defined = [name for name in get_unsafe_globals_in_checkpoint(checkpoint) if name.startswith("__torch__.")]
    checkpoint.seek(0)
    with safe_globals([(_Module, name) for name in defined]):
        root = torch.load(checkpoint, map_location="cpu", weights_only=True)
    tensors = dict(_tensors(root, "", set()))
    # Buffers, as numbers that a network computes with, are not learned.
    learned = {name: each for name, each in tensors.items() if each.requires_grad}
    return {name: each.detach() for name, each in (learned or tensors).items()}


def _tensors(module: Any, prefix: str, seen: set[int]) -> Iterator[tuple[str, Tensor]]:
    """Tensors of a module and of those inside it, each module once."""
    seen.add(id(module))
    for name, value in vars(module).items():
        if isinstance(value, Tensor):
            yield f"{prefix}{name}", value
        elif isinstance(value, _Module) and id(value) not in seen:
            yield from _tensors(value, f"{prefix}{name}.", seen)


def import_policy(path: Path, agent_type: str = "") -> tuple[Agent[Any], TrainConfig[Any], str]:
    """Make a policy of a file of published weights.

    Args:
        path: see read_weights.
        agent_type: whose weights they are; empty: as layers, and names in or of the file, tell.

    Returns:
        The agent on the CPU, its settings, and a note that says what it was made of.

    Raises:
        ConfigError: when the file cannot be read, or does not hold such a network.
    """
    weights = read_weights(path)
    agent_type = agent_type or _recognised(path, weights)
    agent = import_agent(agent_type, weights, path)
    return agent, published_config(agent_type), f"imported from {path.name}: {NOTE}"


def _recognised(path: Path, weights: dict[str, Tensor]) -> str:
    """The agent whose acting network has such layers.

    Raises:
        ConfigError: when there is none, or there are several and no name tells which.
    """

    def plain(text: str) -> str:
        return re.sub(r"[-_]", "", text).lower()

    fits, names = _fitting(weights), [path.name]
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names += archive.namelist()  # of a program also those of its modules
    if len(fits) > 1:
        fits = [name for name in fits if plain(name) in plain(" ".join(names))] or fits
    if not fits:
        raise ConfigError(
            f"{path}: holds no published network ({', '.join(NETWORKS)}); a policy that was "
            "exported is used beside its contract.json"
        )
    if len(fits) > 1:
        raise ConfigError(
            f"{path}: may be of {' or '.join(fits)}; say which: marinenav import FILE --agent NAME --out POLICY"
        )
    return fits[0]


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
        others = _fitting(weights)
        hint = f"; they fit {' and '.join(others)}" if others else ""
        more = f" and {len(misfits) - 3} more" if len(misfits) > 3 else ""
        raise ConfigError(
            f"{source}: not the weights of a published {agent_type} network ({', '.join(misfits[:3])}{more}){hint}"
        )
    named = {f"{agent.output_networks()[0]}.{name}": value for name, value in weights.items()}
    agent.networks.load_state_dict(agent.networks.state_dict() | named)
    for name, target in agent.targets.items():
        target.load_state_dict(agent.networks[name].state_dict())
    return agent.eval()


def _fitting(weights: dict[str, Tensor]) -> list[str]:
    """The agents whose published acting network has such layers."""
    return [name for name in NETWORKS if not _misfits(_untrained(name), weights)]


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
        *(
            f"{name} is {shape}, must be {wanted[name]}"
            for name, shape in given.items()
            if wanted.get(name, shape) != shape
        ),
    ]
