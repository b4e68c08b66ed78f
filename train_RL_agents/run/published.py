"""Import of published networks: the agents that have the same layers, and loading of the weights.

Lin, Szenher, Huang and Englot (RA-L 2025, arXiv 2412.09466) publish the weights of the acting network of most of their
agents. With the settings of ``configs/faithful``, the networks of this package have the same layers with the same
names, and take the same raw observations.
"""

from __future__ import annotations

import io
import math
import re
import warnings
import zipfile
from collections.abc import Iterator
from functools import cache
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
from train_RL_agents.config.reading import load_config
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.utils.arrays import read_arrays, stores_all_elements
from train_RL_agents.utils.closest import did_you_mean, normalized_name
from train_RL_agents.utils.shipped import shipped_paths

IMPORT_NOTE = "acting network only; all others are untrained"
_FILE_DESCRIPTION = "a file of weights"
_NUM_ACTIONS = 25
"""Number of discrete actions of the published networks: five thrust rates for each of two sides."""
_REAL_DTYPES = (np.float16, np.float32, np.float64, np.int32, np.int64)
"""Types of NumPy that are converted to tensors."""

PUBLISHED_AGENTS = ("AC-IQN", "IQN", "DDPG", "DQN", "SAC")


@cache
def published_config(agent_type: str) -> TrainConfig[Any]:
    """Return the default configuration of an agent with its published networks."""
    allowed = f"one of {', '.join(PUBLISHED_AGENTS)}{did_you_mean(agent_type, PUBLISHED_AGENTS)}"
    require(agent_type in PUBLISHED_AGENTS, "agent", agent_type, allowed)
    faithful = load_config(shipped_paths("configs")[f"faithful/{agent_type.lower().replace('-', '_')}"])
    return TrainConfig(agent_type=agent_type, agent=faithful.agent)


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the weights in a file (.npz, state dict or TorchScript, whose code is not run) by layer name."""
    suffixes = (".npz", ".pt", ".pth")
    require(path.suffix in suffixes, "weights", str(path), f"a file in {', '.join(suffixes)}")
    weights: dict[str, Any]
    if path.suffix == ".npz":
        arrays = read_arrays(path, _FILE_DESCRIPTION)
        is_real = {name: array.dtype in _REAL_DTYPES for name, array in arrays.items()}
        weights = {name: torch.from_numpy(array) if is_real[name] else array for name, array in arrays.items()}
    else:
        weights = _read_torch(path)
    allowed = "weights by layer name; what this program has written needs no import"
    require("format" not in weights, str(path), weights.get("format"), allowed)
    for name, value in weights.items():
        is_float = stores_all_elements(value) and value.is_floating_point()
        require(is_float, f"{path}: {name}", type(value).__name__, "an array of real numbers")
        require(bool(value.isfinite().all()), f"{path}: {name}", "nan or inf", "finite")
    return weights


def _read_torch(path: Path) -> dict[str, Any]:
    """Return the content of a PyTorch file by name, or the weights if the file is a TorchScript program."""
    with open_regular(path, _FILE_DESCRIPTION, math.inf) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about tensors that are rejected afterwards
        try:
            if is_torchscript(path):
                return _read_program(_strip_code(path))
            return dict(torch.load(file, map_location="cpu", weights_only=True))
        except Exception as error:  # damaged bytes may raise any error
            raise ConfigError(f"{path}: damaged, or not {_FILE_DESCRIPTION}") from error


class _ScriptedModule:
    """Module of a TorchScript file, with its weights and submodules as attributes."""


def is_torchscript(path: Path) -> bool:
    """Return whether a file is a TorchScript program; false for a damaged file."""
    try:
        with open_regular(path, _FILE_DESCRIPTION, math.inf) as file, zipfile.ZipFile(file) as archive:
            return any(name.endswith("/constants.pkl") for name in archive.namelist())
    except Exception:  # damaged bytes may raise any error
        return False


def _strip_code(path: Path) -> io.BytesIO:
    """Return a TorchScript program as a checkpoint of its modules, without executable code."""
    copy = io.BytesIO()
    with zipfile.ZipFile(path) as program, zipfile.ZipFile(copy, "w") as stripped:
        for entry in program.infolist():
            name = entry.filename.partition("/")[2]
            if re.fullmatch(r"data\.pkl|data/\w+|byteorder|version", name):
                stripped.writestr(f"archive/{name}", program.read(entry))
    copy.seek(0)
    return copy


def _read_program(checkpoint: io.BytesIO) -> dict[str, Any]:
    """Return the weights of a TorchScript program whose code was stripped, by layer name.

    torch reads the program like a checkpoint, and allows only tensor classes and the classes that the program defines,
    which become ``_ScriptedModule``.
    """
    defined = [name for name in get_unsafe_globals_in_checkpoint(checkpoint) if name.startswith("__torch__.")]
    checkpoint.seek(0)
    with safe_globals([(_ScriptedModule, name) for name in defined]):
        root = torch.load(checkpoint, map_location="cpu", weights_only=True)
    tensors = dict(_tensors(root, ""))
    # Buffers are not learned.
    learned = {name: tensor for name, tensor in tensors.items() if tensor.requires_grad}
    return {name: tensor.detach() for name, tensor in (learned or tensors).items()}


def _tensors(module: Any, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the named tensors of a module and its submodules."""
    for name, value in vars(module).items():
        if isinstance(value, Tensor):
            yield f"{prefix}{name}", value
        elif isinstance(value, _ScriptedModule):
            yield from _tensors(value, f"{prefix}{name}.")


def import_policy(path: Path, agent_type: str = "") -> tuple[Agent[Any], TrainConfig[Any], str]:
    """Return the policy of a file of published weights, its configuration, and a note on its origin.

    Without ``agent_type``, the layers, the file name and the names in the file tell the agent.
    """
    weights = read_weights(path)
    agent_type = agent_type or _detect_agent(path, weights)
    agent = import_agent(agent_type, weights, path)
    return agent, published_config(agent_type), f"imported from {path.name}: {IMPORT_NOTE}"


def _detect_agent(path: Path, weights: dict[str, Tensor]) -> str:
    """Return the agent whose acting network has the layers of the weights."""
    candidates = [name for name in PUBLISHED_AGENTS if not _mismatches(_make_untrained(name), weights)]
    names = [path.name]
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names += archive.namelist()  # includes the names of a program's modules
    if len(candidates) > 1:
        candidates = [
            name for name in candidates if normalized_name(name) in normalized_name(" ".join(names))
        ] or candidates
    if not candidates:
        raise ConfigError(
            f"{path}: holds no published network ({', '.join(PUBLISHED_AGENTS)}); of an exported policy, "
            "only the ONNX file can be evaluated"
        )
    if len(candidates) > 1:
        raise ConfigError(
            f"{path}: may be of {' or '.join(candidates)}; say which: marinenav import FILE --agent NAME --out POLICY"
        )
    return candidates[0]


def import_agent(agent_type: str, weights: dict[str, Tensor], source: Path) -> Agent[Any]:
    """Return an agent that acts with published weights, in float32 on the CPU; its other networks are untrained."""
    agent = _make_untrained(agent_type)
    mismatches = _mismatches(agent, weights)
    if mismatches:
        more = f" and {len(mismatches) - 3} more" if len(mismatches) > 3 else ""
        raise ConfigError(
            f"{source}: not the weights of a published {agent_type} network ({', '.join(mismatches[:3])}{more})"
        )
    named = {f"{agent.output_networks()[0]}.{name}": value for name, value in weights.items()}
    agent.networks.load_state_dict(agent.networks.state_dict() | named)
    for name, target in agent.targets.items():
        target.load_state_dict(agent.networks[name].state_dict())
    return agent.eval()


def _make_untrained(agent_type: str) -> Agent[Any]:
    """Return an agent with the published layers and initial weights that are equal in every call."""
    config = published_config(agent_type)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make_agent(config, _NUM_ACTIONS, torch.device("cpu"))


def _mismatches(agent: Agent[Any], weights: dict[str, Tensor]) -> list[str]:
    """Return the differences between weights and the layers of an agent's acting network, as a list of texts."""
    network = agent.networks[agent.output_networks()[0]]
    wanted = {name: tuple(value.shape) for name, value in network.named_parameters()}
    shapes = {name: tuple(value.shape) for name, value in weights.items()}
    return [
        *(f"{name} is missing" for name in wanted if name not in shapes),
        *(f"{name} is unknown" for name in shapes if name not in wanted),
        *(
            f"{name} is {shape}, must be {wanted[name]}"
            for name, shape in shapes.items()
            if wanted.get(name, shape) != shape
        ),
    ]
