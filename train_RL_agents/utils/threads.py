"""Number of CPU threads of this process, which follows what other programs leave of the cores.

Threads wait for one another by spinning. Where another program has one of two cores, two threads are therefore several
times slower than one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import psutil
import torch

THREADS_VARIABLE = "OMP_NUM_THREADS"
_START_INTERVAL = 0.2
"""Time over which the load of the cores is measured at the start (s)."""
_INTERVAL = 5.0
"""Least time between two measurements of the load later (s)."""
_PATIENCE = 10.0
"""Time that measurements in a row, or a long one, must cover before they change the number of threads (s)."""
_SPARE = 0.4
"""Share of a core that other programs may use without costing a thread."""


def cpu_cores() -> list[int]:
    """Return the CPU cores that this process may use, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))  # macOS and Windows provide no more information


def processor_times() -> tuple[float, float]:
    """Return the processor time (s) so far of all programs on the cores of this process, and of its own processes."""
    cores = {*cpu_cores()}
    times = [each for core, each in enumerate(psutil.cpu_times(percpu=True)) if core in cores]
    total = sum(sum(each) - each.idle - getattr(each, "iowait", 0.0) for each in times)
    this, own = psutil.Process(), 0.0
    for process in (this, *this.children(recursive=True)):
        try:
            used = process.cpu_times()
        except psutil.Error:  # it has ended
            continue
        own += used.user + used.system
    return total, own


class ThreadFollower:
    """Number of threads that fits what other programs leave of the cores, measured again and again.

    ``now`` is a monotonic time (s), and ``read_load`` returns what ``processor_times`` does.
    """

    def __init__(self, threads: int, cores: int, now: float, read_load: Callable[[], tuple[float, float]]) -> None:
        self.threads, self._cores, self._read_load = threads, cores, read_load
        self._wrong, self._time, self._load = 0.0, now, read_load()

    def update(self, now: float) -> bool:
        """Measure if it is time to, and return whether ``threads`` has changed; ``now`` is a monotonic time (s)."""
        if now - self._time < _INTERVAL:
            return False
        load, seconds = self._read_load(), now - self._time
        total, own = ((new - old) / seconds for new, old in zip(load, self._load, strict=True))
        self._time, self._load = now, load
        fitting = max(1, int(self._cores - max(0.0, total - own) + _SPARE))
        # A few of many cores more are not worth a change.
        is_right = 0.8 * fitting <= self.threads <= fitting
        self._wrong = 0.0 if is_right else self._wrong + seconds
        if self._wrong < _PATIENCE:
            return False
        self.threads, self._wrong = fitting, 0.0
        return True


_follower: ThreadFollower | None = None
"""Follower of this process, as torch has one number of threads for all of it; None: the number stays."""


def print_line(line: str) -> None:
    """Print a line to standard error."""
    print(f"marinenav: {line}", file=sys.stderr)


def set_threads(wanted: int = 0, start: int = 0) -> None:
    """Set the number of CPU threads of torch in this process.

    Args:
        wanted: number of threads; 0: OMP_NUM_THREADS if that is set, else the number follows the load of the cores.
        start: number to start with if ``wanted`` is 0, such as that of a resumed run; 0: one for each idle core.
    """
    global _follower
    variable, cores = os.environ.get(THREADS_VARIABLE, ""), len(cpu_cores())
    threads = min(wanted, cores) or (int(variable) if variable.isdecimal() else 0)
    threads = start if threads and start and not wanted else threads
    _follower = None
    if not threads and cores > 1:
        _follower = ThreadFollower(min(start, cores) or num_idle_cores(), cores, time.monotonic(), processor_times)
    # Generated code then takes the number of threads of each call; by default, that of the first one is part of it.
    os.environ["TORCHINDUCTOR_CPP_DYNAMIC_THREADS"] = str(int(_follower is not None))
    torch.set_num_threads(_follower.threads if _follower else threads or 1)


def follow_load(log: Callable[[str], None] = print_line) -> None:
    """Adapt the number of threads to the load of the cores, and log a change; to be called again and again."""
    if _follower is None or not _follower.update(time.monotonic()):
        return
    before, now = torch.get_num_threads(), _follower.threads
    torch.set_num_threads(now)
    why = "other programs use cores" if now < before else "cores are free again"
    log(f"{now} thread{'s' if now > 1 else ''} instead of {before}, as {why}")


def num_idle_cores() -> int:
    """Return the number of idle CPU cores among those of this process, measured for a fifth of a second."""
    try:
        # Not cpu_times_percent, whose shares are wrong for less than a second.
        busy = psutil.cpu_percent(interval=_START_INTERVAL, percpu=True)
        idle = sum(100.0 - busy[core] for core in cpu_cores())
    except (OSError, RuntimeError, NotImplementedError, IndexError):
        return len(cpu_cores())
    return max(1, round(idle / 100.0))
