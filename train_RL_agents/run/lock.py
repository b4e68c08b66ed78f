"""Lock of a run folder, which has one writer at a time."""

from __future__ import annotations

from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from marinenav_env.support.validation import ConfigError


def acquire_lock(folder: Path, name: str) -> BaseFileLock:
    """Acquire the lock of a folder; it ends with this process or when it is released."""
    path = folder / name
    # One lock for all objects of this process, so that a run can be opened again where it was not closed.
    lock = FileLock(path, timeout=0, is_singleton=True, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise ConfigError(f"{folder}: another process uses it; wait until it ends") from None
    except (OSError, NotImplementedError) as error:
        raise ConfigError(f"{path}: cannot be locked ({error})") from error
    return lock
