"""Safe reading and writing: files that may block or fill memory, and inputs, are refused."""

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
"""Device and inode number of the files that were read; None outside of kept_inputs."""
LARGEST_TEXT = 48 * 2**20
"""Most bytes of a text file; parsed, it takes up to 30 times as many."""


@contextmanager
def kept_inputs() -> Iterator[None]:
    """Let require_output refuse files that were read within this context, also by another name."""
    global _inputs
    _inputs = set()
    try:
        yield
    finally:
        _inputs = None


def keep(status: os.stat_result) -> None:
    """Register a file as read, see kept_inputs."""
    if _inputs is not None:
        _inputs.add((status.st_dev, status.st_ino))


def require_output(path: Path) -> None:
    """Refuse to overwrite a file that was read within kept_inputs, or that is not a regular file.

    Raises:
        ConfigError: when this is such a file.
    """
    try:
        status = path.stat()
    except (OSError, ValueError):  # writing will raise the error
        return
    require(stat.S_ISREG(status.st_mode), "output", str(path), "a new or a regular file")
    read = (status.st_dev, status.st_ino) in (_inputs or ())
    require(not read, "output", str(path), "another file than those that are read")


def check_outputs(*paths: Path) -> None:
    """Refuse output files that cannot be written, before their content is computed.

    Raises:
        ConfigError: when one cannot be written, or is named twice; see also require_output.
    """
    for number, path in enumerate(paths):
        require(path.name != "", "output", str(path), "the name of a file")
        require_output(path)
        twice = path.resolve() in (other.resolve() for other in paths[:number])
        require(not twice, "output", str(path), "given for one file only")
        _try_writing(path.parent, f"{path}: cannot be written")


def check_folder(path: Path) -> None:
    """Refuse a folder that cannot be written to and cannot be made.

    Raises:
        ConfigError: when it is such a folder.
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
        what: kind of file for messages, as in "a scenario file".
        largest: most bytes that it may have.

    Raises:
        ConfigError: when there is none, it is not a regular file, or it is too large.
    """

    def refusal(reason: object) -> ConfigError:
        return ConfigError(f"{path}: cannot be read as {what} ({reason})")

    try:
        # Opened without waiting: a pipe may have no writer.
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
    """Read a text file of at most LARGEST_TEXT bytes; see open_regular.

    Raises:
        ConfigError: when it cannot be read, or is not UTF-8.
    """
    with open_regular(path, what, LARGEST_TEXT) as file:
        try:
            return file.read(LARGEST_TEXT).decode()
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path}: cannot be read as {what} ({error})") from error


def read_json(path: str | Path, what: str) -> Any:
    """Read a JSON file; see read_text.

    Raises:
        ConfigError: when it cannot be read, or is not JSON.
    """
    return parse_json(read_text(path, what), str(path), what)


def parse_json(text: Any, name: str, what: str) -> Any:
    """Parse JSON.

    Args:
        text: the JSON.
        name: source of the text, for messages.
        what: kind of file, for messages.

    Raises:
        ConfigError: when it is no text, or no JSON, or an object has a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_object)
    except (TypeError, ValueError, RecursionError) as error:
        reason = "it is empty" if isinstance(text, str) and not text.strip() else error
        raise ConfigError(f"{name}: cannot be read as {what} ({reason})") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, without repeated keys: Python would take the last of several values.

    Raises:
        ValueError: when a key is there twice.
    """
    members = dict(pairs)
    if len(members) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"{brief(counts.most_common(1)[0][0])} is there twice")
    return members
