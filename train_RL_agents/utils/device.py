"""From a device's name in the configuration to a device that is there."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os

import psutil
import torch

from marinenav_env.support.validation import require

THREADS_VARIABLE = "OMP_NUM_THREADS"
"""Environment variable of the number of threads, which child processes inherit."""
_MEASURED = 0.2
"""Seconds over which the load of the cores is measured."""


def available_devices() -> list[str]:
    """Return the names of the devices of this machine, the CPU first."""
    cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return ["cpu", *(f"cuda:{index}" for index in range(cuda))]


def cpu_cores() -> int:
    """Return the cores that this process may use, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS and Windows tell no more


def idle_cores() -> int:
    """Measure for a fifth of a second on how many of its cores a process would be alone.

    Returns:
        At least 1; all cores where the system does not tell.
    """
    try:
        # Not cpu_times_percent, whose shares are wrong for less than a second.
        busy = psutil.cpu_percent(interval=_MEASURED, percpu=True)
        own = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(busy))
        idle = sum(100.0 - busy[core] for core in own)
    except (OSError, RuntimeError, NotImplementedError, IndexError):
        return cpu_cores()
    return max(1, round(idle / 100.0))


def cpu_threads(wanted: int = 0) -> int:
    """Choose the number of CPU threads of a process.

    Threads wait for one another by spinning: with another program on one of two cores, two threads
    are four to five times slower than one.

    Args:
        wanted: so many, but at most one per core; 0: what OMP_NUM_THREADS says, else one for each
            core that no other program uses at the moment.
    """
    if wanted:
        return min(wanted, cpu_cores())
    variable = os.environ.get(THREADS_VARIABLE, "")
    return int(variable) if variable.isdecimal() and int(variable) > 0 else idle_cores()


def random_stream(seed: int, number: int, device: torch.device) -> torch.Generator:
    """Return a generator on a device; streams of one seed, and of neighbouring seeds, are independent.

    Args:
        seed: of the run or of a worker.
        number: of the stream, from 1.
        device: of the generator.
    """
    return torch.Generator(device).manual_seed(1_000_003 * seed + number)


def release_memory() -> None:
    """Free the memory of a trainer that is not used any more: it has reference cycles."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def keep_freed_memory() -> None:
    """Let the C library keep the memory of freed tensors for the next ones, where it is glibc.

    By default it gives large blocks back at once; taking them again, page by page, costs a third of
    an evaluation, which is not compiled on a CPU, and more than half of a compiled step of many
    environments. Up to 1 GiB at the end of the heap is never given back.
    """
    trim_threshold, mmap_threshold, most = -1, -3, 1 << 30  # malloc.h
    # Other systems have no such function; Windows has no library of the process, either.
    with contextlib.suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)
        for threshold in (trim_threshold, mmap_threshold):
            library.mallopt(threshold, most)


def set_up_process(device: torch.device, threads: int, precision: str, tf32: bool) -> None:
    """Set what holds for the whole process: threads, memory and precision.

    Args:
        device: that is computed on.
        threads: of the CPU.
        precision: see Execution.
        tf32: see Execution.

    Raises:
        ConfigError: when the device does not support the precision.
    """
    torch.set_num_threads(threads)
    keep_freed_memory()
    set_precision(device, precision, tf32)


def set_precision(device: torch.device, precision: str, tf32: bool) -> None:
    """Make a device compute as configured; TF32 is a setting of the whole process.

    Raises:
        ConfigError: when the device does not support bfloat16.
    """
    if device.type != "cuda":
        return
    fine = precision != "bf16" or _knows_bfloat16(device)
    require(fine, "execution.precision", precision, f"auto, fp32 or fp16 on {device}")
    torch.set_float32_matmul_precision("high" if tf32 else "highest")


def resolve_precision(device: torch.device, precision: str) -> str:
    """What ``auto`` is: fp32 on a CPU; on a GPU bf16 or, where that is lacking, fp16."""
    if precision != "auto":
        return precision
    if device.type != "cuda":
        return "fp32"
    return "bf16" if _knows_bfloat16(device) else "fp16"


def _knows_bfloat16(device: torch.device) -> bool:
    with torch.cuda.device(device):
        return torch.cuda.is_bf16_supported(including_emulation=False)


def resolve_device(name: str, key: str = "device") -> torch.device:
    """Find a device by name.

    Args:
        name: auto, cpu, cuda or cuda:N. ``auto`` is the first CUDA device if there is one, else
            the CPU. Others, such as mps, lack the float64 that scenarios are drawn in.
        key: what is named in the error, an option or a setting.

    Returns:
        The device, with its index (but for the CPU), as tensors on it report it.

    Raises:
        ConfigError: when there is no such device here.
    """
    here = available_devices()
    if name == "auto":
        name = "cuda" if "cuda:0" in here else "cpu"
    found = "cuda:0" if name == "cuda" else name
    require(found in here, key, name, f"auto or one of those here: {', '.join(here)}")
    return torch.device(found)
