"""Monitor of the machine's utilisation during training, which never synchronises with a GPU: it asks the driver."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import psutil
import torch

from marinenav_env.support.extras import import_optional

Probe = Callable[[], float]
MIN_SAMPLE_INTERVAL = 2.0
"""Shortest time between samples (s), however frequent log entries are."""


def host_probes() -> dict[str, Probe]:
    """Return functions that measure the CPU use of all programs (%) and the memory of this process (GB), by tag."""
    process = psutil.Process()
    psutil.cpu_percent()  # the next call returns the mean since this one
    return {"system/cpu_percent": psutil.cpu_percent, "system/memory_gb": lambda: process.memory_info().rss / 1e9}


def gpu_probes(device: torch.device) -> dict[str, Probe]:
    """Return functions that measure utilisation (%), temperature (deg C) and power (W) of a GPU, by tag."""
    if device.type != "cuda":
        return {}
    try:
        import_optional("pynvml", "gpu")
    except ValueError as error:
        message = "no utilisation, temperature and power of the GPU in the log: %s"
        logging.getLogger(__name__).warning(message, error)
        return {}
    return {
        "gpu/utilization": lambda: float(torch.cuda.utilization(device)),
        "gpu/temperature_c": lambda: float(torch.cuda.temperature(device)),
        "gpu/power_w": lambda: torch.cuda.power_draw(device) / 1e3,
    }


class Monitor:
    """Sampler of scalars, by their tags, that leaves a shortest time (s) between samples and drops probes that fail."""

    def __init__(self, probes: dict[str, Probe], interval: float = MIN_SAMPLE_INTERVAL) -> None:
        self._probes, self._interval = dict(probes), interval
        self._sampled = time.monotonic()

    @classmethod
    def for_device(cls, device: torch.device) -> Monitor:
        """Return a monitor of the host's CPU use and this process's memory, and of the device if it is a GPU."""
        return cls(host_probes() | gpu_probes(device))

    def read(self) -> dict[str, float]:
        """Return the current values of the probes by tag; empty if the last sample is more recent than the interval."""
        now = time.monotonic()
        if now - self._sampled < self._interval:
            return {}
        self._sampled, values = now, {}
        for tag, probe in list(self._probes.items()):
            try:
                values[tag] = probe()
            except Exception:  # drivers may raise anything; training continues
                del self._probes[tag]
        return values
