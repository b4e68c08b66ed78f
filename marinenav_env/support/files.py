"""Safe access to files: refuse to read what may block or fill memory, and to overwrite inputs."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from marinenav_env.support.validation import ConfigError, brief, require

_inputs: set[tuple[int, int]] | None = None
"""Device and inode numbers of the files that were read; None outside of kept_inputs."""
LARGEST_TEXT = 48 * 2**20
"""Largest size of a text file (bytes); its parsed content takes up to 30 times as much memory."""


@contextmanager
def kept_inputs() -> Iterator[None]:
    """Protect files that are read in this context from being overwritten, even through links; see require_output."""
    global _inputs
    _inputs = set()
    try:
        yield
    finally:
        _inputs = None


def keep(status: os.stat_result) -> None:
    """Register a file as read, so that it is protected in the context of kept_inputs."""
    if _inputs is not None:
        _inputs.add((status.st_dev, status.st_ino))


def require_output(path: Path) -> None:
    """Refuse to overwrite a file that was read in the context of kept_inputs, or that is not a regular file.

    Raises:
        ConfigError: when the path is that of such a file.
    """
    try:
        status = path.stat()
    except (OSError, ValueError):  # writing will raise an error
        return
    require(stat.S_ISREG(status.st_mode), "output", str(path), "a new or a regular file")
    read = (status.st_dev, status.st_ino) in (_inputs or ())
    require(not read, "output", str(path), "another file than those that are read")


def check_outputs(*paths: Path) -> None:
    """Refuse output files that cannot be written, before their content is computed.

    Raises:
        ConfigError: when a file cannot be written, or is named twice; see also require_output.
    """
    for number, path in enumerate(paths):
        require(path.name != "", "output", str(path), "the name of a file")
        require_output(path)
        twice = path.resolve() in (other.resolve() for other in paths[:number])
        require(not twice, "output", str(path), "given for one file only")
        _try_writing(path.parent, f"{path}: cannot be written")


def check_folder(path: Path) -> None:
    """Refuse a folder that cannot be written to or created.

    Raises:
        ConfigError: when the path is that of such a folder.
    """
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    _try_writing(existing, f"{path}: the folder cannot be made, or not written to")


def _try_writing(folder: Path, refusal: str) -> None:
    """Refuse a folder that cannot be written to; ``refusal`` is the start of the message."""
    if not folder.exists():
        reason = f"there is no folder {folder}"
    else:
        reason = "" if folder.is_dir() else f"{folder} is not a folder"
    try:
        if not reason:
            tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        reason = f"no file can be made in {folder}: {error.strerror}"
    if reason:
        raise ConfigError(f"{refusal} ({reason})")


def open_regular(path: str | Path, what: str, largest: float) -> BinaryIO:
    """Open a regular file for reading.

    Args:
        path: path of the file.
        what: description of the file for messages, such as "a scenario file".
        largest: largest size that the file may have (bytes).

    Raises:
        ConfigError: when there is no such file, it is not a regular file, or it is too large.
    """

    def refusal(reason: object) -> ConfigError:
        return ConfigError(f"{path}: cannot be read as {what} ({reason})")

    try:
        # Opened without blocking, since a pipe may have no writer.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise refusal(error.strerror) from error
    except ValueError as error:  # a null character
        raise refusal(error) from error
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_size <= largest:
        keep(status)
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    regular = stat.S_ISREG(status.st_mode)
    raise refusal(f"it has more than {largest:,} bytes" if regular else "not a regular file")


def read_text(path: str | Path, what: str) -> str:
    """Return the content of a text file of at most LARGEST_TEXT bytes; see open_regular.

    Raises:
        ConfigError: when it cannot be read, or is not UTF-8.
    """
    with open_regular(path, what, LARGEST_TEXT) as file:
        try:
            return file.read(LARGEST_TEXT).decode()
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path}: cannot be read as {what} ({error})") from error


def read_json(path: str | Path, what: str) -> Any:
    """Return the parsed content of a JSON file; see read_text.

    Raises:
        ConfigError: when it cannot be read, or is not JSON.
    """
    return parse_json(read_text(path, what), str(path), what)


def parse_json(text: Any, name: str, what: str) -> Any:
    """Parse JSON and return its content; repeated keys of an object are refused.

    Args:
        text: JSON text.
        name: source of the text, for messages.
        what: description of the file for messages, such as "a scenario file".

    Raises:
        ConfigError: when it is not text or not JSON, or an object has a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_object)
    except (TypeError, ValueError, RecursionError) as error:
        reason = "it is empty" if isinstance(text, str) and not text.strip() else error
        raise ConfigError(f"{name}: cannot be read as {what} ({reason})") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object; refuse repeated keys, of which Python would take the last value.

    Raises:
        ValueError: when the object has a key twice.
    """
    members = dict(pairs)
    if len(members) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"{brief(counts.most_common(1)[0][0])} is there twice")
    return members
