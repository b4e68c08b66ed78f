"""Choice of what makes the world's steps on a GPU: the faster one, measured once for each world."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from marinenav_env.files import read_json
from marinenav_env.validation import ConfigError
from marinenav_env.world import knows_kernel
from train_RL_agents.config.reading import to_dict
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.run.jobs import command_line
from train_RL_agents.utils.files import make_folder, write_atomically
from train_RL_agents.utils.provenance import versions
from train_RL_agents.utils.toolchain import cache_folder

KERNELS = ("compiled", "triton")
_LONGEST = 300.0
"""Seconds that a measurement may take, with compilation."""


def choose_kernel(
    config: TrainConfig[Any], device: torch.device, say: Callable[[str], None]
) -> tuple[TrainConfig[Any], str]:
    """Replace ``world.kernel=auto`` by the faster kernel, if there is a choice.

    Each is measured in a process of its own, so that one that fails harms nothing. The results are
    kept beside generated code, for later runs of the same world on such a GPU.

    Args:
        config: of a new run.
        device: of the run.
        say: prints a line before a measurement.

    Returns:
        The configuration, and how it was chosen in one line; empty if there was no choice.
    """
    if not _has_choice(config, device):
        return config, ""
    file = cache_folder() / "marinenav" / f"kernel_{_key(config, device)}.json"
    rates = _kept(file)
    if not rates:
        say("measuring whether world.kernel=compiled or triton is faster here; once for this world")
        rates = _measured(config, device)
        if all(isinstance(rate, float) for rate in rates.values()):
            with suppress(ConfigError):  # without the file they are measured again
                make_folder(file.parent)
                write_atomically(file, json.dumps(rates), own=True)
    fastest = max(KERNELS, key=lambda kernel: _number(rates[kernel]))
    reasons = ", ".join(f"{kernel} {_described(rates[kernel])}" for kernel in KERNELS)
    world: Any = replace(config.world, kernel=fastest)  # type: ignore[arg-type]
    return replace(config, world=world), f"world.kernel={fastest}: {reasons} (world alone)"


def _has_choice(config: TrainConfig[Any], device: torch.device) -> bool:
    """Whether both kernels can make the steps that are captured."""
    captured = device.type == "cuda" and config.compile and config.capture
    return (
        captured
        and config.world.kernel == "auto"
        and config.trainer.collector == "local"
        and knows_kernel(config.world)
        and importlib.util.find_spec("triton") is not None
    )


def _key(config: TrainConfig[Any], device: torch.device) -> str:
    """Hash of all that the rates depend on."""
    given = to_dict(config)
    parts = [given["world"], given["training_schedule"], given["agent_type"],
             config.trainer.num_envs, torch.cuda.get_device_name(device), versions()]  # fmt: skip
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _kept(file: Path) -> dict[str, float | str]:
    """Rates of before, or nothing."""
    if not file.exists():
        return {}
    try:
        rates = read_json(file, "rates of kernels")
    except ConfigError:
        return {}
    fine = isinstance(rates, dict) and rates.keys() == set(KERNELS)
    return rates if fine and all(isinstance(each, float) for each in rates.values()) else {}


def _measured(config: TrainConfig[Any], device: torch.device) -> dict[str, float | str]:
    """Env-steps per second with each kernel, or why there are none."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.json").write_text(json.dumps(to_dict(config)), encoding="utf-8")
        return {kernel: _rate(kernel, config, device, folder) for kernel in KERNELS}


def _rate(kernel: str, config: TrainConfig[Any], device: torch.device, folder: Path) -> float | str:
    """Env-steps per second of the world alone with one kernel, or why there are none.

    Args:
        kernel: one of KERNELS.
        config: of the run; its file is in the folder.
        device: of the run.
        folder: for files.
    """
    out, mode = folder / f"{kernel}.json", "captured" if device.type == "cuda" else "eager"
    command = command_line(
        "bench", "--parts", "world", "--modes", mode, "--envs", str(config.trainer.num_envs),
        "--schedule", "--seconds", "0.5", "--config", str(folder / "config.json"), "--json",
        str(out), f"world.kernel={kernel}", f"device={device}",
    )  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                              timeout=_LONGEST)  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return f"failed ({type(error).__name__})"
    if done.returncode:
        said = [*done.stdout.splitlines(), *done.stderr.splitlines()]
        return f"failed ({said[-1] if said else f'status {done.returncode}'})"
    row = read_json(out, "rates")["rows"][0]
    return float(row["median"])


def _number(rate: float | str) -> float:
    """A rate to compare: 0 where a measurement failed."""
    return rate if isinstance(rate, float) else 0.0


def _described(rate: float | str) -> str:
    return f"{rate / 1e6:.3g} M env-steps/s" if isinstance(rate, float) else rate
