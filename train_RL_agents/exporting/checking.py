"""Check a file, or the answers of any other program, against the examples of a contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from marinenav_env.validation import ConfigError
from train_RL_agents.config.reading import read_json
from train_RL_agents.exporting.export import CONTRACT, FORMATS, SELECTED, VERSION
from train_RL_agents.exporting.torchscript import Answers
from train_RL_agents.utils.errors import first_line

_FORMATS = {Path(kind.name("x")).suffix: kind for kind in FORMATS.values()}


def check_file(path: Path) -> tuple[int, float]:
    """Compare answers with those of the contract in the same folder.

    Args:
        path: an exported file, in which the examples are tried one by one; or ``.json`` with the
            answers of another program, ``{"outputs": {name: [...]}, "action": [...]}`` of which
            ``action`` may be left out.

    Returns:
        The number of examples, and the largest difference as a share of 1 + |answer|.

    Raises:
        ConfigError: when there is no such contract, when the file cannot be used, or when an
            answer differs by more than the contract allows.
    """
    contract = _contract(path.with_name(CONTRACT))
    examples = contract["examples"]
    wanted = {**examples["outputs"], SELECTED: examples["action"]}
    got = _given(path, contract) if path.suffix == ".json" else _computed(path, contract)
    difference = 0.0
    for name, answer in got.items():
        expected = torch.tensor(wanted[name], dtype=torch.float64)
        if answer.shape != expected.shape:
            raise ConfigError(
                f"{path}: {name} has the shape {list(answer.shape)} for all examples, not "
                f"{list(expected.shape)}"
            )
        share = float(((answer - expected).abs() / (1.0 + expected.abs())).max())
        if not share <= examples["tolerance"]:
            raise ConfigError(
                f"{path}: {name} differs from the answers in {CONTRACT} by {share:.1e} "
                f"(1 + |answer|), more than {examples['tolerance']:.0e}"
            )
        difference = max(difference, share)
    return len(examples["action"]), difference


def _contract(path: Path) -> dict[str, Any]:
    """A contract with examples.

    Raises:
        ConfigError: when it is not there, or older.
    """
    contract = read_json(path)
    if contract.get("version") != VERSION or "examples" not in contract:
        raise ConfigError(
            f"{path}: holds no examples, as it was written by another version; export again"
        )
    return contract


def _given(path: Path, contract: dict[str, Any]) -> dict[str, Tensor]:
    """Answers that another program wrote.

    Raises:
        ConfigError: when one is missing or not numbers.
    """
    answers = read_json(path)
    try:
        found = {name: answers["outputs"][name] for name in contract["examples"]["outputs"]}
        if "action" in answers:
            found[SELECTED] = answers["action"]
        return {name: torch.tensor(each, dtype=torch.float64) for name, each in found.items()}
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{path}: needs outputs, with numbers for each of "
            f"{', '.join(contract['examples']['outputs'])} ({first_line(error)})"
        ) from error


def _computed(path: Path, contract: dict[str, Any]) -> dict[str, Tensor]:
    """Answers of an exported file.

    Raises:
        ConfigError: when it cannot be loaded or run.
    """
    if path.suffix not in _FORMATS:
        raise ConfigError(f"{path}: must end in {', '.join(_FORMATS)} or .json")
    inputs = [torch.tensor(each, dtype=torch.float64)
              for each in contract["examples"]["inputs"].values()]  # fmt: skip
    entries = sum("usual" not in each for each in contract["inputs"])
    try:
        call = _FORMATS[path.suffix].load(path, entries)
        single: list[Answers] = [call(*row) for row in zip(*(each.split(1) for each in inputs),
                                                          strict=True)]  # fmt: skip
    except ConfigError:
        raise
    except Exception as error:  # whatever the runtime raises
        raise ConfigError(f"{path}: cannot be run ({first_line(error)})") from error
    names = [*contract["examples"]["outputs"], SELECTED]
    columns = zip(names, zip(*single, strict=True), strict=False)
    return {name: torch.cat(column).double() for name, column in columns}
