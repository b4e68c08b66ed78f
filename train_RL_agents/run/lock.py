"""One writer of a run at a time."""

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


def take(path: Path) -> TextIO:
    """Take a lock, which ends with this process or when the file is closed.

    The system holds it, also on network file systems with locks: that of a process that was killed
    is free. Where there are no locks, the file says who writes.

    Args:
        path: the lock's file; made if it is not there, and left there.

    Raises:
        ConfigError: when another process has it.
    """
    file = os.fdopen(open_without_links(path, os.O_RDWR), "r+", encoding="utf-8", errors="replace")
    held, certain = _held(file)
    if held:
        pid, _, host = file.read(200).strip().partition(" ")
        file.close()
        by = f"process {pid} on {host}" if host else "another process"
        hint = "" if certain else f", or delete {path} if it has"
        raise ConfigError(f"{path.parent}: {by} is training this run; wait until it ends{hint}")
    try:
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()} {socket.gethostname()}\n")
        file.flush()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror})") from error
    return file


def release(file: TextIO) -> None:
    """Give a lock back."""
    file.seek(0)
    file.truncate()  # where there are no locks, an empty file says that no process writes
    file.close()


def _held(file: TextIO) -> tuple[bool, bool]:
    """Whether another process has the lock, and whether that is certain; takes it if not."""
    try:
        # Not flock: its locks pass to forked children, which may outlive this process.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False, True
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return True, True
    except AttributeError:
        pass
    pid, _, host = file.read(200).strip().partition(" ")
    file.seek(0)
    here = host == socket.gethostname()
    alive = pid.isdigit() and int(pid) != os.getpid() and psutil.pid_exists(int(pid))
    return alive if here else bool(host), False
