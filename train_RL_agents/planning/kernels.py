"""Choice of what makes the world's steps on a GPU: the faster one, measured once for each world."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from marinenav_env.files import read_json
from marinenav_env.validation import ConfigError
from marinenav_env.world import knows_kernel
from train_RL_agents.collecting.worlds import training_world
from train_RL_agents.config.reading import to_dict
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.run.jobs import command_line
from train_RL_agents.utils.errors import first_line
from train_RL_agents.utils.files import make_folder, sha256_of, write_atomically
from train_RL_agents.utils.provenance import revision, versions
from train_RL_agents.utils.toolchain import cache_folder

KERNELS = ("compiled", "triton")
MARGIN = 1.05
"""How many times faster Triton's kernel must be, so that noise does not decide."""
_LONGEST = 300.0
"""Seconds that a measurement may take, with compilation."""
_SHOWN = 200
"""Characters of a failed process's last line that are shown."""
Rates = dict[str, float | str]
"""Env-steps per second by kernel, or why there are none."""


def choose_kernel(
    config: TrainConfig[Any], device: torch.device, say: Callable[[str], None]
) -> tuple[str, str]:
    """Choose ``world.kernel`` where that is ``auto``: Triton's where it is the faster one.

    Each is measured in a process of its own, so that one that fails harms nothing. The results are
    kept beside generated code, for later runs of the same world on such a GPU.

    Args:
        config: of a new run, with this process's share of the environments.
        device: of the run.
        say: prints a line before a measurement.

    Returns:
        The setting, and how it was chosen in one line; empty if there was no choice.
    """
    if not _has_choice(config, device):
        return config.world.kernel, ""
    file = cache_folder() / "marinenav" / f"kernel_{_key(config, device)}.json"
    rates = _kept(file)
    if not rates:
        say("measuring whether world.kernel=compiled or triton is faster here; once for this world")
        rates = {kernel: _rate(kernel, config, device) for kernel in KERNELS}
        with suppress(ConfigError, OSError):  # without the file they are measured again
            make_folder(file.parent)
            write_atomically(file, json.dumps(rates), own=True)
    compiled, triton = rates.values()
    known = isinstance(compiled, float) and isinstance(triton, float)
    faster = known and triton > MARGIN * compiled  # type: ignore[operator]
    kernel = "triton" if faster else "compiled"
    reasons = ", ".join(f"{name} {_described(rate)}" for name, rate in rates.items())
    return kernel, f"world.kernel={kernel}: {reasons} (world alone; {file})"


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
    scenarios = config.training_schedule.scenarios
    parts = [
        asdict(training_world(config)), asdict(config.training_schedule),
        sha256_of(Path(scenarios)) if scenarios else "", config.agent_type,
        config.trainer.num_envs, torch.cuda.get_device_name(device), versions(), revision(),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _kept(file: Path) -> Rates:
    """Rates of before, or nothing."""
    try:
        rates = read_json(file, "rates of kernels")
    except (ConfigError, OSError):
        return {}
    fine = isinstance(rates, dict) and list(rates) == list(KERNELS)
    return rates if fine and all(isinstance(each, float | str) for each in rates.values()) else {}


def _rate(kernel: str, config: TrainConfig[Any], device: torch.device) -> float | str:
    """Env-steps per second of the world alone with one kernel, or why there are none."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _measured(kernel, config, device, Path(folder))
    except subprocess.TimeoutExpired:
        return f"took more than {_LONGEST:.0f} s"
    except (ConfigError, OSError, LookupError, TypeError, ValueError) as error:
        return f"failed ({first_line(error)[-_SHOWN:]})"


def _measured(kernel: str, config: TrainConfig[Any], device: torch.device, folder: Path) -> float:
    """Measure in another process.

    Args:
        kernel: one of KERNELS.
        config: of the run.
        device: likewise.
        folder: for files.

    Raises:
        Exception: of many types, when that process fails or gives no rate.
    """
    given, out = folder / "config.json", folder / "rates.json"
    given.write_text(json.dumps(to_dict(config)), encoding="utf-8")
    mode = "captured" if device.type == "cuda" else "eager"
    command = command_line(
        "bench", "--parts", "world", "--modes", mode, "--envs", str(config.trainer.num_envs),
        "--schedule", "--seconds", "0.5", "--config", str(given), "--json", str(out),
        f"world.kernel={kernel}", f"device={device}",
    )  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                          timeout=_LONGEST)  # fmt: skip
    if done.returncode:
        said = [*done.stdout.splitlines(), *done.stderr.splitlines()]
        raise ValueError(said[-1] if said else f"status {done.returncode}")
    rate = float(read_json(out, "rates")["rows"][0]["median"])
    if not 0.0 < rate < math.inf:
        raise ValueError(f"a rate of {rate}")
    return rate


def _described(rate: float | str) -> str:
    return f"{rate / 1e6:.3g} M env-steps/s" if isinstance(rate, float) else rate
