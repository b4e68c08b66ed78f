"""Checks of an exported file, or of another program's outputs, against the examples in its ``contract.json``."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from marinenav_env.support.files import open_regular
from marinenav_env.support.validation import ConfigError, require
from train_RL_agents.exporting.export import ACTION_OUTPUT, CONTRACT_FILE, CONTRACT_VERSION
from train_RL_agents.exporting.loading import LOADERS, NetworkFunction
from train_RL_agents.exporting.sandbox import SandboxedNetwork
from train_RL_agents.utils.arrays import MAX_FILE_SIZE
from train_RL_agents.utils.errors import first_line
from train_RL_agents.utils.files import read_json

_MAX_EXAMPLES = 100
"""Largest number of examples in a ``contract.json``."""
_MAX_TOLERANCE = 0.01
"""Largest tolerance that a ``contract.json`` may state, as a share of 1 + |output|."""


def check_file(path: Path) -> tuple[int, float]:
    """Compare the outputs of a file with the examples in the ``contract.json`` of the same folder.

    Args:
        path: exported file, on which the examples are tried one by one; or ``.json`` with the outputs of another
            program, ``{"outputs": {name: [...]}, "action": [...]}``, of which ``action`` is optional.

    Returns:
        The number of examples, and the largest difference as a share of 1 + |output|.

    Raises:
        ConfigError: when the folder has no contract, when the file cannot be used or differs from the exported one, or
            when an output differs by more than the contract allows.
    """
    examples = _find_examples(path)
    outputs = (
        _read_outputs(path, examples)
        if path.suffix == ".json"
        else _compute_outputs(path, _load_in_sandbox(path, examples), examples)
    )
    return len(examples.outputs[ACTION_OUTPUT]), _compare_outputs(path, outputs, examples)


def _find_examples(path: Path) -> _Examples:
    """Return the examples of the ``contract.json`` in the folder of a file.

    Raises:
        ConfigError: when the file or the contract is missing, or the contract is damaged or of another version.
    """
    open_regular(path, "an exported file", math.inf).close()
    contract = path.parent / CONTRACT_FILE
    require(contract.exists(), "FILE", str(path), f"beside the {CONTRACT_FILE} that was exported with it")
    return _read_examples(contract)


def load_checked(path: Path) -> NetworkFunction:
    """Return the network in an exported file after checking that it reproduces the examples of ``contract.json``.

    Raises:
        ConfigError: when there is no contract, or the file cannot be used or differs from the contract; see check_file.
    """
    examples = _find_examples(path)
    call = _load_in_sandbox(path, examples)
    _compare_outputs(path, _compute_outputs(path, call, examples), examples)
    return call


def _compare_outputs(path: Path, outputs: dict[str, Tensor], examples: _Examples) -> float:
    """Return the largest difference between outputs and the examples' outputs, as a share of 1 + |output|.

    Args:
        path: file that the outputs come from, for messages.
        outputs: outputs [B, ...] by name.
        examples: B examples with the expected outputs and the tolerance.

    Raises:
        ConfigError: when the difference exceeds the tolerance of the contract, or an output has another shape.
    """
    difference = 0.0
    for name, output in outputs.items():
        expected = examples.outputs[name]
        if output.shape != expected.shape:
            raise ConfigError(
                f"{path}: {name} has the shape {list(output.shape)} for all examples, not {list(expected.shape)}"
            )
        share = float(((output - expected).abs() / (1.0 + expected.abs())).max())
        if not share <= examples.tolerance:
            raise ConfigError(
                f"{path}: {name} differs from the outputs in {CONTRACT_FILE} by {share:.1e} "
                f"(1 + |output|), more than {examples.tolerance:.0e}"
            )
        difference = max(difference, share)
    return difference


class _Examples(NamedTuple):
    """B examples in ``contract.json``: inputs with the outputs that are expected for them."""

    inputs: dict[str, Tensor]
    """Inputs [B, ...] by name: entries of the observation first, then further ones such as ``taus``."""
    outputs: dict[str, Tensor]
    """Outputs [B, ...] by name, and the action as the last one."""
    num_entries: int
    """Number of inputs that are entries of the observation."""
    tolerance: float
    """Largest allowed difference of an output, as a share of 1 + |output|."""
    hashes: dict[str, Any]
    """SHA-256 of exported files by name of the file, in hexadecimal digits."""


def _to_float64(numbers: Any) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def _read_examples(path: Path) -> _Examples:
    """Return the examples in a ``contract.json``.

    Raises:
        ConfigError: when the contract is missing, of another version or damaged.
    """
    contract = read_json(path)
    if contract.get("version") != CONTRACT_VERSION or "examples" not in contract:
        raise ConfigError(f"{path}: holds no examples, as it was written by another version; export again")
    try:
        examples = contract["examples"]
        inputs, outputs = (
            {name: _to_float64(rows) for name, rows in examples[part].items()} for part in ("inputs", "outputs")
        )
        outputs[ACTION_OUTPUT] = _to_float64(examples["action"])
        counts = {len(tensor) for tensor in (*inputs.values(), *outputs.values())}
        tolerance = examples["tolerance"]
        if len(counts) != 1 or not 0 < counts.pop() <= _MAX_EXAMPLES:
            raise ValueError(f"not 1 to {_MAX_EXAMPLES} examples of everything")
        if not 0.0 < float(tolerance) <= _MAX_TOLERANCE:
            raise ValueError(f"a tolerance of {tolerance}, more than {_MAX_TOLERANCE}")
        entries = sum("usual" not in description for description in contract["inputs"])
        hashes = {file["file"]: file["sha256"] for file in contract["files"].values()}
        return _Examples(inputs, outputs, entries, float(tolerance), hashes)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ConfigError(f"{path}: damaged, or not a contract ({first_line(error)})") from error


def _check_hash(path: Path, expected: Any) -> None:
    """Compare a file with an expected SHA-256, unless it is None; damaged files may crash the programs that load them.

    Raises:
        ConfigError: when the file is missing, or differs from the exported file.
    """
    if expected is not None:
        with open_regular(path, "an exported policy", MAX_FILE_SIZE) as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        if digest != expected:
            raise ConfigError(f"{path}: damaged, or not the file that {CONTRACT_FILE} describes")


def _read_outputs(path: Path, examples: _Examples) -> dict[str, Tensor]:
    """Return the outputs [B, ...] by name in a JSON file that another program wrote; see check_file for its keys.

    Raises:
        ConfigError: when an output is missing or not numeric.
    """
    content, names = read_json(path), [name for name in examples.outputs if name != ACTION_OUTPUT]
    try:
        outputs = {name: content["outputs"][name] for name in names}
        if "action" in content:
            outputs[ACTION_OUTPUT] = content["action"]
        return {name: _to_float64(rows) for name, rows in outputs.items()}
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise ConfigError(
            f"{path}: needs outputs, with numbers for each of {', '.join(names)} ({first_line(error)})"
        ) from error


def _load_in_sandbox(path: Path, examples: _Examples) -> NetworkFunction:
    """Return the network in an exported file, in a separate process.

    Raises:
        ConfigError: when the file is not the one that was exported, or cannot be loaded.
    """
    if path.suffix not in LOADERS:
        raise ConfigError(f"{path}: must end in {', '.join(LOADERS)} or .json")
    _check_hash(path, examples.hashes.get(path.name))
    return SandboxedNetwork(path, examples.num_entries)


def _compute_outputs(path: Path, call: NetworkFunction, examples: _Examples) -> dict[str, Tensor]:
    """Return the outputs [B, ...] by name that a network computes for the B examples, one at a time.

    Args:
        path: file of the network, for messages.
        call: network, a function from the inputs [1, ...] of one example, in their order, to its outputs.
        examples: examples with the inputs, and with the names of the outputs in order.

    Raises:
        ConfigError: when they cannot be computed, or some are missing.
    """
    rows = zip(*(tensor.split(1) for tensor in examples.inputs.values()), strict=True)
    columns = list(zip(*(call(*row) for row in rows), strict=True))
    missing = list(examples.outputs)[len(columns) :]
    if missing and missing != [ACTION_OUTPUT]:
        raise ConfigError(f"{path}: has {len(columns)} outputs, without {missing[0]}")
    named = zip(examples.outputs, columns, strict=False)
    return {name: torch.cat(column).double() for name, column in named}
