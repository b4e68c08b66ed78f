"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from pathlib import Path
from typing import Any

import torch

from marinenav_env.support.files import require_output
from marinenav_env.support.validation import ConfigError, require
from train_RL_agents.utils.errors import first_line

TEMPORARY = ".tmp"
"""The end of the names of files that are not complete yet; they begin with a dot."""


def inside(folder: Path, name: str) -> Path:
    """Return a file of a folder that may have come from elsewhere.

    Args:
        folder: a run folder, for example; it may be reached through a link itself.
        name: of the file, relative to the folder.

    Raises:
        ConfigError: when a link, or the name, leads out of the folder.
    """
    path = folder / name
    try:
        found = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
    except ValueError:  # a null character
        found = False
    if not found:
        raise ConfigError(f"{path}: leads out of {folder}, so it is neither read nor written")
    return path


def open_own(path: Path, flags: int) -> int:
    """Open a file to write, make it if needed, and never follow a link; a file descriptor.

    Raises:
        ConfigError: when it cannot be opened, or is known by another name, too.
    """
    try:
        descriptor = os.open(path, flags | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror})") from error
    try:
        _require_one_name(path, os.fstat(descriptor))
    except ConfigError:
        os.close(descriptor)
        raise
    return descriptor


def changed_in_place(folder: Path, name: str) -> Path:
    """Return a file of a folder (see inside) that is changed and not replaced, such as a database.

    Raises:
        ConfigError: see inside, and when the file is known by another name, too.
    """
    path = inside(folder, name)
    if path.is_file():
        _require_one_name(path, path.stat())
    return path


def sqlite_url(path: Path) -> str:
    """Return the address of an SQLite database for SQLAlchemy; the extras bring it.

    Args:
        path: of the database; any of its characters may have a meaning in addresses.
    """
    from sqlalchemy.engine import URL

    # As an address of SQLite's own in one of SQLAlchemy's, which escapes paths from 2.1 on only.
    url = URL.create("sqlite", database=path.resolve().as_uri(), query={"uri": "true"})
    return url.render_as_string()


def _require_one_name(path: Path, found: os.stat_result) -> None:
    """Refuse a hard link: what is written to it would be in a file elsewhere, too."""
    if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
        raise ConfigError(
            f"{path}: is a hard link, and writing to it would change another file; copy the folder, or delete this file"
        )


def sha256_of(path: Path) -> str:
    """Hash of what a file holds, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make_folder(path: Path) -> None:
    """Make a folder, and those that it is in, where they are not there.

    Raises:
        ConfigError: when it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path}: the folder cannot be made ({error.strerror})") from error


def write_atomically(path: Path, content: dict[str, Any] | str | bytes, *, own: bool = False) -> None:
    """Write a file so that at any moment either the old or the new one is there, complete.

    Args:
        path: the file.
        content: text, bytes, or a dictionary for torch.save.
        own: whether it may be one that was read, as a run's own files are.

    Raises:
        ConfigError: when it cannot be written, as on a full disk, or not written over; the old
            file is kept.
    """
    require(path.name != "", "output", str(path), "the name of a file")
    if not own:
        require_output(path)
    if isinstance(content, str):
        # Names of files, as in the record of a command, need not be text.
        content = content.encode(errors="backslashreplace")
    # A name of its own, made exclusively: not shared with another process, and no link.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
    try:
        with temporary.open("xb") as stream:
            if isinstance(content, dict):
                torch.save(content, stream)
            else:
                stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except (OSError, RuntimeError) as error:
        # torch.save hides the system's error behind one of its own.
        hidden = error.__context__
        reason = first_line(hidden if isinstance(hidden, OSError) else error)
        raise ConfigError(f"{path}: cannot be written ({reason}); what was there is kept") from error
    finally:
        # There is one only after an error, which includes a second Ctrl-C.
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
