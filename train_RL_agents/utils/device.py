"""Selection of devices and precision."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import warnings
from collections.abc import Iterator

import torch

from marinenav_env.support.validation import require


def available_devices() -> list[str]:
    """Return the names of the devices of this machine, the CPU first."""
    cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return ["cpu", *(f"cuda:{index}" for index in range(cuda))]


@contextlib.contextmanager
def preserve_num_threads() -> Iterator[None]:
    """Restore the number of CPU threads of this process at the end of the context.

    TorchRL lowers the number when it starts processes, and raises it when it closes environments, even in this process.
    """
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def random_stream(seed: int, number: int, device: torch.device) -> torch.Generator:
    """Return a random generator whose stream is independent of others of the same seed and of neighbouring seeds."""
    return torch.Generator(device).manual_seed(1_000_003 * seed + number)


def release_memory() -> None:
    """Free objects in reference cycles, such as an unused trainer, and memory that PyTorch caches on CUDA devices."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def keep_freed_memory() -> None:
    """Make glibc keep the memory of freed tensors for later ones.

    By default, glibc returns large blocks to the system at once. Allocating them again, page by page, costs a third of
    an evaluation, which is not compiled on a CPU, and more than half of a compiled step of many environments. Up to 1
    GiB at the end of the heap is never returned.
    """
    trim_threshold, mmap_threshold, most = -1, -3, 1 << 30  # malloc.h
    # Other systems have no mallopt, and Windows has no library of the process itself.
    with contextlib.suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)
        for threshold in (trim_threshold, mmap_threshold):
            library.mallopt(threshold, most)


def set_up_process(device: torch.device, precision: str, tf32: bool) -> None:
    """Set memory allocation and precision of this process; TF32 applies to the whole process."""
    keep_freed_memory()
    if device.type != "cuda":
        return
    is_supported = precision != "bf16" or _supports_bfloat16(device)
    require(is_supported, "trainer.precision", precision, f"auto, fp32 or fp16 on {device}")
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    # Inductor advises to use TF32 wherever it is off, although a setting turns it off here.
    warnings.filterwarnings("ignore", "TensorFloat32 tensor cores", UserWarning)


def resolve_precision(device: torch.device, precision: str) -> str:
    """Return fp32, bf16 or fp16 for a setting that may be auto: fp32 on a CPU, and bf16 or else fp16 on a GPU."""
    if precision != "auto":
        return precision
    if device.type != "cuda":
        return "fp32"
    return "bf16" if _supports_bfloat16(device) else "fp16"


def _supports_bfloat16(device: torch.device) -> bool:
    """Return whether a CUDA device computes in bfloat16 without emulation."""
    with torch.cuda.device(device):
        return torch.cuda.is_bf16_supported(including_emulation=False)


def resolve_device(name: str, key: str = "device") -> torch.device:
    """Return the device named auto (the first CUDA device if there is one, else the CPU), cpu, cuda or cuda:N.

    Others, such as mps, are not supported, as scenarios are drawn in float64; the error names the option ``key``.
    """
    devices = available_devices()
    if name == "auto":
        name = "cuda" if "cuda:0" in devices else "cpu"
    resolved = "cuda:0" if name == "cuda" else name
    require(resolved in devices, key, name, f"auto or one of those here: {', '.join(devices)}")
    return torch.device(resolved)
