"""Descriptions of the machine, the software and the training that a benchmark measures."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from train_RL_agents.config.levels import SIZE_FIELDS
from train_RL_agents.config.overrides import flatten
from train_RL_agents.config.reading import to_dict
from train_RL_agents.speed.options import BenchmarkOptions
from train_RL_agents.utils.device import num_cpu_cores
from train_RL_agents.utils.provenance import git_revision, software_versions

CPU_INFO = Path("/proc/cpuinfo")
"""File in which Linux describes the processor."""
_INSTRUCTION_FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8")
"""Names of the vector and matrix instructions that torch's CPU kernels use."""
_RUN_SETTINGS = {
    "agent": "agent_type",
    "updates in": "trainer.precision",
    "robots": "num_robots",
    "vortex cores": "num_cores",
    "obstacles": "num_obstacles",
}
"""Names in the description of a training, and the settings of the training and of its levels that they show."""
_LOOP_SETTINGS = ("num_envs", "batch_size", "train_freq", "buffer_size", "n_steps", "rollout_steps", "epochs")
"""Settings of the trainers of all algorithms that affect the speed of the loop most."""


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Return facts about the processor by name, and about the GPU if it is used."""
    model, flags = _processor()
    facts = {
        "processor": model,
        "instructions": f"{', '.join(flags)} (torch: {torch.backends.cpu.get_cpu_capability()})",
        "cores": num_cpu_cores(),
        "threads": torch.get_num_threads(),
        "load before": round(os.getloadavg()[0], 2),
        "device": str(device),
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        facts["gpu"] = f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB"
        facts |= {"gpu driver": _gpu_driver_version(), "cuda": torch.version.cuda}
    return facts


def _processor() -> tuple[str, list[str]]:
    """Return the name of the processor, and the names of its vector and matrix instructions in _INSTRUCTION_FLAGS."""
    lines = CPU_INFO.read_text(encoding="utf-8").splitlines() if CPU_INFO.is_file() else []
    pairs = [line.partition(":") for line in lines]
    facts = {key.strip(): value.strip() for key, _, value in reversed(pairs)}
    flags = facts.get("flags", "").split()
    return facts.get("model name", platform.machine()), [name for name in _INSTRUCTION_FLAGS if name in flags]


def _gpu_driver_version() -> str:
    """Return the version of the GPU's driver, or ``unknown``."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return answer.stdout.partition("\n")[0].strip()


def describe_software() -> dict[str, Any]:
    """Return versions of packages, the program's commit and the precision of matrix products, by name."""
    commit, patch = git_revision()
    names = ("python", "torch", "torchrl", "tensordict", "platform")
    all_versions = software_versions()
    return {name: all_versions[name] for name in names} | {
        "commit": f"{commit}, with changes" if patch else commit,
        "dtype": "float32",
        "matmul precision": torch.get_float32_matmul_precision(),
    }


def describe_run(options: BenchmarkOptions, modes: list[str]) -> dict[str, Any]:
    """Return settings of the training and of the benchmark that affect the measurement, by name."""
    settings = flatten(to_dict(options.config))
    levels = options.config.training_schedule.levels
    settings |= {name: [getattr(level, name) for level in levels] for name in SIZE_FIELDS}
    loop = {name: settings.get(f"trainer.{name}") for name in _LOOP_SETTINGS}
    return {name: _format_value(settings[key]) for name, key in _RUN_SETTINGS.items()} | {
        "loop": ", ".join(f"{name}={value}" for name, value in loop.items() if value is not None),
        "parts": ", ".join(options.parts),
        "modes": ", ".join(modes),
        "runs": f"{options.repeats} of {options.seconds:g} s each, modes in turn",
    }


def _format_value(value: Any) -> str:
    """Return a value as text; the elements of a list, one for each level, are separated by commas."""
    several = isinstance(value, list) and len(value) > 1
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{text} (levels mixed)" if several else text
