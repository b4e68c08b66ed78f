"""Check a file, or the outputs of any other program, against the examples of a contract."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from marinenav_env.support.files import open_regular
from marinenav_env.support.validation import ConfigError, require
from train_RL_agents.config.reading import read_json
from train_RL_agents.exporting.export import CONTRACT, SELECTED, VERSION
from train_RL_agents.exporting.loading import LOADERS, Call
from train_RL_agents.exporting.sandbox import Sandbox
from train_RL_agents.utils.arrays import LARGEST
from train_RL_agents.utils.errors import first_line

_MOST_EXAMPLES, _MOST_TOLERANCE = 100, 0.01


def check_file(path: Path) -> tuple[int, float]:
    """Compare outputs with those of the contract in the same folder.

    Args:
        path: an exported file, in which the examples are tried one by one; or ``.json`` with the
            outputs of another program, ``{"outputs": {name: [...]}, "action": [...]}`` of which
            ``action`` may be left out.

    Returns:
        The number of examples, and the largest difference as a share of 1 + |output|.

    Raises:
        ConfigError: when there is no such contract, when the file cannot be used or is another
            than the one that was exported, or when an output differs by more than the contract
            allows.
    """
    _require_file(path)
    examples = _read_examples(path.parent / CONTRACT)
    got = _given(path, examples) if path.suffix == ".json" else _computed(path, _loaded(path, examples), examples)
    return len(examples.outputs[SELECTED]), _compare(path, got, examples)


def _require_file(path: Path) -> None:
    """Refuse a path that is no file, or has no contract beside it.

    Raises:
        ConfigError: when it is such a path.
    """
    open_regular(path, "an exported file", math.inf).close()
    fine = (path.parent / CONTRACT).exists()
    require(fine, "FILE", str(path), f"beside the {CONTRACT} that was exported with it")


def load_checked(path: Path) -> Call:
    """Return the network in an exported file, once it has reproduced the examples of its contract.

    Raises:
        ConfigError: see check_file.
    """
    _require_file(path)
    examples = _read_examples(path.parent / CONTRACT)
    call = _loaded(path, examples)
    _compare(path, _computed(path, call, examples), examples)
    return call


def _compare(path: Path, got: dict[str, Tensor], examples: _Examples) -> float:
    """Return the largest difference to the examples.

    Raises:
        ConfigError: when it is more than the contract allows.
    """
    difference = 0.0
    for name, output in got.items():
        expected = examples.outputs[name]
        if output.shape != expected.shape:
            raise ConfigError(
                f"{path}: {name} has the shape {list(output.shape)} for all examples, not {list(expected.shape)}"
            )
        share = float(((output - expected).abs() / (1.0 + expected.abs())).max())
        if not share <= examples.tolerance:
            raise ConfigError(
                f"{path}: {name} differs from the outputs in {CONTRACT} by {share:.1e} "
                f"(1 + |output|), more than {examples.tolerance:.0e}"
            )
        difference = max(difference, share)
    return difference


class _Examples(NamedTuple):
    """The examples of a contract."""

    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    """With the action."""
    entries: int
    """Inputs that are entries of the observation."""
    tolerance: float
    hashes: dict[str, Any]
    """SHA-256 of exported files by name; of files of earlier versions None."""


def _tensor(numbers: Any) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def _read_examples(path: Path) -> _Examples:
    """Return the examples of a contract.

    Raises:
        ConfigError: when it is not there, older or damaged.
    """
    contract = read_json(path)
    if contract.get("version") != VERSION or "examples" not in contract:
        raise ConfigError(f"{path}: holds no examples, as it was written by another version; export again")
    try:
        examples = contract["examples"]
        inputs, outputs = (
            {name: _tensor(each) for name, each in examples[part].items()} for part in ("inputs", "outputs")
        )
        outputs[SELECTED] = _tensor(examples["action"])
        counts = {len(each) for each in (*inputs.values(), *outputs.values())}
        tolerance = examples["tolerance"]
        if len(counts) != 1 or not 0 < counts.pop() <= _MOST_EXAMPLES:
            raise ValueError(f"not 1 to {_MOST_EXAMPLES} examples of everything")
        if not 0.0 < float(tolerance) <= _MOST_TOLERANCE:
            raise ValueError(f"a tolerance of {tolerance}, more than {_MOST_TOLERANCE}")
        entries = sum("usual" not in each for each in contract["inputs"])
        hashes = {each["file"]: each.get("sha256") for each in contract["files"].values()}
        return _Examples(inputs, outputs, entries, float(tolerance), hashes)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ConfigError(f"{path}: damaged, or not a contract ({first_line(error)})") from error


def _check_whole(path: Path, expected: Any) -> None:
    """Refuse a damaged file before it is read: the readers of some formats may crash at one.

    Raises:
        ConfigError: when it is not there, or not what was exported.
    """
    if expected is not None:
        with open_regular(path, "an exported policy", LARGEST) as file:
            found = hashlib.sha256(file.read()).hexdigest()
        if found != expected:
            raise ConfigError(f"{path}: damaged, or not the file that {CONTRACT} describes")


def _given(path: Path, examples: _Examples) -> dict[str, Tensor]:
    """Return the outputs that another program wrote.

    Raises:
        ConfigError: when one is missing or not numbers.
    """
    given, names = read_json(path), [name for name in examples.outputs if name != SELECTED]
    try:
        found = {name: given["outputs"][name] for name in names}
        if "action" in given:
            found[SELECTED] = given["action"]
        return {name: _tensor(each) for name, each in found.items()}
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise ConfigError(
            f"{path}: needs outputs, with numbers for each of {', '.join(names)} ({first_line(error)})"
        ) from error


def _loaded(path: Path, examples: _Examples) -> Call:
    """Return the network in an exported file, in a process of its own.

    Raises:
        ConfigError: when it is not the file that was exported, or cannot be loaded.
    """
    if path.suffix not in LOADERS:
        raise ConfigError(f"{path}: must end in {', '.join(LOADERS)} or .json")
    _check_whole(path, examples.hashes.get(path.name))
    return Sandbox(path, examples.entries)


def _computed(path: Path, call: Call, examples: _Examples) -> dict[str, Tensor]:
    """Return the outputs of an exported file.

    Raises:
        ConfigError: when they cannot be computed, or some are missing.
    """
    rows = zip(*(each.split(1) for each in examples.inputs.values()), strict=True)
    columns = list(zip(*(call(*row) for row in rows), strict=True))
    missing = list(examples.outputs)[len(columns) :]
    if missing and missing != [SELECTED]:
        raise ConfigError(f"{path}: has {len(columns)} outputs, without {missing[0]}")
    named = zip(examples.outputs, columns, strict=False)
    return {name: torch.cat(column).double() for name, column in named}
