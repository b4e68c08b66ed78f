"""Use of the machine while a run trains, sampled in a thread.

A thread looks every few seconds; the loop only picks up the averages when it logs. Nothing here
asks the device to finish anything: what is said about a GPU comes from its driver.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import psutil
import torch

from train_RL_agents.utils.extras import need

Probe = Callable[[], float]
"""Gives one number, now."""
INTERVAL = 2.0
"""Seconds between samples."""
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
    """Samples probes in a thread of its own, from ``start`` to ``stop``.

    Args:
        probes: by the tag that they are logged under. One that fails is left out from then on.
        interval: seconds between samples.
    """

    def __init__(self, probes: dict[str, Probe], interval: float = INTERVAL) -> None:
        self._probes, self._interval = dict(probes), interval
        self._sums: dict[str, tuple[float, int]] = {}
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    @classmethod
    def of(cls, device: torch.device) -> Monitor:
        """A monitor of the host and, if that is one, the GPU."""
        return cls(host_probes() | gpu_probes(device))

    def start(self) -> None:
        """Begin to sample."""
        self._ended.clear()
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; nothing to do if there is none."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def read(self) -> dict[str, float]:
        """Averages since the last reading, of what has been sampled since."""
        with self._lock:
            sums, self._sums = self._sums, {}
        return {tag: total / count for tag, (total, count) in sums.items()}

    def _run(self) -> None:
        """Sample until told to stop."""
        while not self._ended.wait(self._interval):
            self._sample()

    def _sample(self) -> None:
        """Ask every probe once."""
        for tag, probe in list(self._probes.items()):
            try:
                value = probe()
            except Exception:  # drivers may raise anything; training continues
                del self._probes[tag]
                continue
            with self._lock:
                total, count = self._sums.get(tag, (0.0, 0))
                self._sums[tag] = total + value, count + 1
