"""Everything that figures depend on: machine, versions, commit and sizes."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from train_RL_agents.benchmark.options import Options
from train_RL_agents.config.schema import OffPolicyConfig, OnPolicyConfig, TrainerConfig
from train_RL_agents.utils.device import cpu_cores
from train_RL_agents.utils.provenance import revision, versions

_FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8")
"""Vector and matrix instructions that torch's CPU kernels can use."""


def setting(options: Options, modes: list[str]) -> dict[str, Any]:
    """The whole setting of a benchmark.

    Args:
        options: of it.
        modes: those that are measured.
    """
    return machine(options.device) | software() | job(options, modes)


def machine(device: torch.device) -> dict[str, Any]:
    """Processor, and the GPU if it is used."""
    model, flags = _processor()
    facts = {
        "processor": model,
        "instructions": f"{', '.join(flags)} (torch: {torch.backends.cpu.get_cpu_capability()})",
        "cores": cpu_cores(),
        "threads": torch.get_num_threads(),
        "load before": round(os.getloadavg()[0], 2),
        "device": str(device),
    }
    return facts | (_gpu(device) if device.type == "cuda" else {})


def _processor(path: Path = Path("/proc/cpuinfo")) -> tuple[str, list[str]]:
    """Its name, and those of _FLAGS that it has."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    pairs = [line.partition(":") for line in lines]
    facts = {key.strip(): value.strip() for key, _, value in reversed(pairs)}
    flags = facts.get("flags", "").split()
    return facts.get("model name", platform.machine()), [name for name in _FLAGS if name in flags]


def _gpu(device: torch.device) -> dict[str, Any]:
    """Its name, memory and driver."""
    found = torch.cuda.get_device_properties(device)
    return {
        "gpu": f"{found.name}, {found.total_memory / 2**30:.0f} GiB",
        "gpu driver": _driver(),
        "cuda": torch.version.cuda,
    }


def _driver() -> str:
    """The driver's version, if it can be asked."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return answer.stdout.partition("\n")[0].strip()


def software() -> dict[str, Any]:
    """Versions and the program's commit."""
    commit, patch = revision()
    names = ("python", "torch", "torchrl", "tensordict", "platform")
    found = versions()
    return {name: found[name] for name in names} | {
        "commit": f"{commit}, with changes" if patch else commit,
        "dtype": "float32",
        "matmul precision": torch.get_float32_matmul_precision(),
    }


def job(options: Options, modes: list[str]) -> dict[str, Any]:
    """What is measured and how."""
    config, schedule = options.config, options.config.training_schedule
    settings = config.trainer
    return {
        "agent": config.agent_type,
        "updates in": config.precision,
        "robots": _shown(schedule.num_robots),
        "vortex cores": _shown(schedule.num_cores),
        "obstacles": _shown(schedule.num_obstacles),
        "loop": f"{settings.num_envs} environments, {_learning(settings)}",
        "parts": ", ".join(options.parts),
        "modes": ", ".join(modes),
        "runs": f"{options.repeats} of {options.seconds:g} s each, modes in turn",
    }


def _learning(settings: TrainerConfig) -> str:
    """How the loop learns."""
    if isinstance(settings, OffPolicyConfig):
        return (
            f"batch {settings.batch_size}, an update every {settings.train_freq} env-steps, "
            f"replay of {settings.buffer_size:,}, {settings.n_steps}-step returns"
        )
    assert isinstance(settings, OnPolicyConfig)
    return (
        f"batch {settings.batch_size}, rollouts of {settings.rollout_steps} vector steps, "
        f"{settings.epochs} epochs"
    )


def _shown(numbers: tuple[int, ...]) -> str:
    """One number, or those of all levels."""
    return ", ".join(map(str, numbers)) + (" (levels mixed)" if len(numbers) > 1 else "")
