"""Use of the machine while a run trains.

Nothing here asks the device to finish anything: what is said about a GPU comes from its driver.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import psutil
import torch

from marinenav_env.support.extras import need

Probe = Callable[[], float]
"""Gives one number, now."""
INTERVAL = 2.0
"""Seconds between samples at least, however often there is a log entry."""
NOTICE = "no utilisation, temperature and power of the GPU in the log: %s"


def host_probes() -> dict[str, Probe]:
    """Use of the processors by all programs (%), and memory of this one (GB)."""
    process = psutil.Process()
    psutil.cpu_percent()  # the first answer is about the time since this call
    return {
        "system/cpu_percent": psutil.cpu_percent,
        "system/memory_gb": lambda: process.memory_info().rss / 1e9,
    }


def gpu_probes(device: torch.device) -> dict[str, Probe]:
    """Utilisation (%), temperature (deg C) and power (W) of a GPU, as far as its driver tells.

    The package that asks the driver is optional: without it, a notice says what is left out.
    """
    if device.type != "cuda":
        return {}
    try:
        need("pynvml", "gpu")
    except ValueError as error:
        logging.getLogger(__name__).warning(NOTICE, error)
        return {}
    return {
        "gpu/utilization": lambda: float(torch.cuda.utilization(device)),
        "gpu/temperature_c": lambda: float(torch.cuda.temperature(device)),
        "gpu/power_w": lambda: torch.cuda.power_draw(device) / 1e3,
    }


class Monitor:
    """Samples probes for log entries.

    Args:
        probes: by the tag that they are logged under. One that fails is left out from then on.
        interval: seconds between samples at least.
    """

    def __init__(self, probes: dict[str, Probe], interval: float = INTERVAL) -> None:
        self._probes, self._interval = dict(probes), interval
        self._sampled = time.monotonic()

    @classmethod
    def of(cls, device: torch.device) -> Monitor:
        """A monitor of the host and, if that is one, the GPU."""
        return cls(host_probes() | gpu_probes(device))

    def read(self) -> dict[str, float]:
        """Sample the probes; nothing if the last sample is too recent."""
        now = time.monotonic()
        if now - self._sampled < self._interval:
            return {}
        self._sampled, found = now, {}
        for tag, probe in list(self._probes.items()):
            try:
                found[tag] = probe()
            except Exception:  # drivers may raise anything; training continues
                del self._probes[tag]
        return found
