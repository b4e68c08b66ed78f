"""Lock of a run folder, which has one writer at a time."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import TextIO

import psutil

from marinenav_env.support.validation import ConfigError
from train_RL_agents.utils.files import open_without_links

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]


def acquire_lock(path: Path) -> TextIO:
    """Acquire a lock file, and return it open; the lock ends with this process or when the file is closed.

    The operating system keeps the lock, also on network file systems that support locks, and releases it when the
    process is killed. On file systems without locks, the file contains the id and host of the writing process.

    Args:
        path: file of the lock; created if it is missing, and never deleted.

    Raises:
        ConfigError: if another process holds the lock.
    """
    file = os.fdopen(open_without_links(path, os.O_RDWR), "r+", encoding="utf-8", errors="replace")
    is_held, is_certain = _try_lock(file)
    if is_held:
        pid, _, host = file.read(200).strip().partition(" ")
        file.close()
        owner = f"process {pid} on {host}" if host else "another process"
        hint = "" if is_certain else f", or delete {path} if it has"
        raise ConfigError(f"{path.parent}: {owner} is training this run; wait until it ends{hint}")
    try:
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()} {socket.gethostname()}\n")
        file.flush()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror})") from error
    return file


def release_lock(file: TextIO) -> None:
    """Release a lock by emptying and closing the file that ``acquire_lock`` returned."""
    file.seek(0)
    file.truncate()  # without locks of the system, an empty file means that no process writes
    file.close()


def _try_lock(file: TextIO) -> tuple[bool, bool]:
    """Try to acquire the lock; return whether another process holds it, and whether this is certain."""
    try:
        # lockf is used, because locks of flock pass to forked children, which may outlive this process.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False, True
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return True, True
    except AttributeError:
        pass
    pid, _, host = file.read(200).strip().partition(" ")
    file.seek(0)
    is_local = host == socket.gethostname()
    is_alive = pid.isdigit() and int(pid) != os.getpid() and psutil.pid_exists(int(pid))
    return is_alive if is_local else bool(host), False
