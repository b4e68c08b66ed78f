"""Utilisation of the machine during training; it never synchronises with a GPU, but asks the driver."""

from __future__ import annotations

from contextlib import suppress

import psutil
import torch


def read_utilisation(device: torch.device) -> dict[str, float]:
    """Return the CPU use of all programs since the last call (%) and the memory of this process (GB), by tag.

    Of a GPU there are utilisation (%), temperature (deg C) and power (W), too, with the extra ``gpu``.
    """
    memory = psutil.Process().memory_info().rss / 1e9
    values = {"system/cpu_percent": psutil.cpu_percent(), "system/memory_gb": memory}
    if device.type == "cuda":
        with suppress(Exception):  # drivers may raise anything; training continues
            values |= {
                "gpu/utilization": float(torch.cuda.utilization(device)),
                "gpu/temperature_c": float(torch.cuda.temperature(device)),
                "gpu/power_w": torch.cuda.power_draw(device) / 1e3,
            }
    return values
