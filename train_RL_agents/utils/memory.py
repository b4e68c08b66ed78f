"""Free memory of the host, and checks of what fits."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

from marinenav_env.support.validation import ConfigError

USABLE = 0.9
"""Share of the free memory that plans may use; the rest is a reserve."""
_CGROUP = Path("/sys/fs/cgroup")
_LIMITS = (
    ("", "memory.max", "memory.current", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Files with the memory limits and usage of a container, for versions 2 and 1 of control groups."""


def host_free(cgroup: Path = _CGROUP) -> int:
    """Return the number of free bytes of the host, or of this process's container if that is less."""
    free = int(psutil.virtual_memory().available)  # host: a number of the system
    for folder, limit, used, cache in _LIMITS:
        with suppress(OSError, ValueError):  # no container, or one without a limit
            free = min(free, _container_free(cgroup / folder, limit, used, cache))
    return free


def _container_free(cgroup: Path, limit: str, used: str, cache: str) -> int:
    """Return the number of bytes that a container may still use; cached file pages count as free."""
    numbers = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
    held = int((cgroup / used).read_text()) - int(numbers.get(cache, 0))  # host: numbers of the system
    return int((cgroup / limit).read_text()) - held  # host: a number of the system


def gigabytes(size: int) -> str:
    """Return a size (bytes) as text in GB (1e9 bytes), or in MB below 0.1 GB."""
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"


def require_room(what: str, needed: int) -> None:
    """Check that an amount of memory is at most the usable share of the host's free memory.

    Args:
        what: name of the content, for messages.
        needed: required memory (bytes).

    Raises:
        ConfigError: when the memory does not suffice.
    """
    free = host_free()
    if needed > USABLE * free:
        raise ConfigError(
            f"{what} would take about {gigabytes(needed)} of memory, and {gigabytes(free)} are "
            f"free, of which {USABLE:.0%} are planned with"
        )
