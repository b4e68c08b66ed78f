"""Sizes of tensors, and free memory of the host."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

USABLE_SHARE = 0.9
"""Share of the free memory that plans may use; the rest is a reserve."""
_CGROUP = Path("/sys/fs/cgroup")
_CGROUP_FILES = (
    ("", "memory.max", "memory.current", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Subfolder, names of the files with limit and usage of memory (bytes), and key of the cached file pages in
``memory.stat``, for versions 2 and 1 of control groups."""


def free_host_memory(cgroup: Path = _CGROUP) -> int:
    """Return the number of free bytes of the host, or of this process's container if that is less."""
    free = int(psutil.virtual_memory().available)  # host: a number of the system
    for folder, limit, used, cache in _CGROUP_FILES:
        with suppress(OSError, ValueError):  # no container, or one without a limit
            free = min(free, _free_container_memory(cgroup / folder, limit, used, cache))
    return free


def _free_container_memory(cgroup: Path, limit: str, used: str, cache: str) -> int:
    """Return the bytes that a container may still use; cached file pages count as free."""
    numbers = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
    held = int((cgroup / used).read_text()) - int(numbers.get(cache, 0))  # host: numbers of the system
    return int((cgroup / limit).read_text()) - held  # host: a number of the system


def tree_bytes(tree: Any) -> int:
    """Return the number of bytes of the tensors in a tensordict or tensorclass."""
    return sum(int(leaf.nbytes) for leaf in tree.values(True, True))


def size_text(size: int) -> str:
    """Return a size (bytes) as text in GB (1e9 bytes), or in MB below 0.1 GB."""
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"
