"""Safe access to files: reading refuses pipes, devices and huge files, and writing refuses to overwrite inputs."""

import json
import os
import secrets
import stat
import tempfile
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from marinenav_env.support.validation import ConfigError, brief, require

_protected_files: set[tuple[int, int]] | None = None
"""(device, inode) of each file that must not be overwritten because it was read; None outside protected_inputs."""
TEMPORARY_SUFFIX = ".tmp"
"""Suffix of the names of incomplete files, which begin with a dot."""
_FILE_SUFFIXES = (".png", ".pdf", ".svg", ".csv", ".html", ".json", ".mp4", ".gif", ".onnx", ".pt", ".zip")
"""Suffixes of files that users have in mind, by which a new folder is not named."""
MAX_TEXT_BYTES = 48 * 2**20
"""Largest size of a text file that is read (bytes); its parsed content takes up to 30 times as much memory."""


@contextmanager
def protected_inputs() -> Iterator[None]:
    """Return a context in which ``require_overwritable`` refuses every file that was read in it, even through links."""
    global _protected_files
    _protected_files = set()
    try:
        yield
    finally:
        _protected_files = None


def protect_input(status: os.stat_result) -> None:
    """Register a file, given its stat result, as one that protected_inputs protects, if that context is active."""
    if _protected_files is not None:
        _protected_files.add((status.st_dev, status.st_ino))


def require_overwritable(path: Path) -> None:
    """Raise an error if a path is that of a file that protected_inputs protects, or of a directory, pipe or device."""
    try:
        status = path.stat()
    except (OSError, ValueError):  # writing will raise an error
        return
    require(stat.S_ISREG(status.st_mode), "output", str(path), "a new or a regular file")
    read = (status.st_dev, status.st_ino) in (_protected_files or ())
    require(not read, "output", str(path), "another file than those that are read")


def require_writable_outputs(*paths: Path) -> None:
    """Raise an error if an output file could not be written, so that no time is spent on its content."""
    for number, path in enumerate(paths):
        require(path.name != "", "output", str(path), "the name of a file")
        require_overwritable(path)
        twice = path.resolve() in (other.resolve() for other in paths[:number])
        require(not twice, "output", str(path), "given for one file only")
        _require_writable(path.parent, f"{path}: cannot be written")


def require_writable_folder(path: Path) -> None:
    """Raise an error if files cannot be created in a folder, or it cannot be created or has the name of a file."""
    is_folder = path.is_dir() or path.suffix.lower() not in _FILE_SUFFIXES
    require(is_folder, "output", str(path), "a folder, as several files are written")
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    _require_writable(existing, f"{path}: the folder cannot be made, or not written to")


def _require_writable(folder: Path, message_start: str) -> None:
    """Raise ConfigError, with a message that begins with ``message_start``, if files cannot be created in a folder."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ConfigError(f"{message_start} (no file can be made in {folder}: {error.strerror})") from error


@contextmanager
def replacing(path: Path, *, replace_input: bool = False) -> Iterator[BinaryIO]:
    """Return a context with a stream whose content becomes the file at its end, so that a complete file always exists.

    ``replace_input`` allows to replace a file that this command has read, such as a run's own files.
    """
    require(path.name != "", "output", str(path), "the name of a file")
    if not replace_input:
        require_overwritable(path)
    # A unique name, created exclusively, so that it is neither used by another process nor a link.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY_SUFFIX}")
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except (OSError, RuntimeError) as error:
        # torch.save replaces the system's error by another one, and appends traces.
        hidden = error.__context__
        reason = (
            str(hidden if isinstance(hidden, OSError) else error).strip().partition("\n")[0] or type(error).__name__
        )
        raise ConfigError(f"{path}: cannot be written ({reason}); what was there is kept") from error
    finally:
        # The temporary file exists only after an error, including a second Ctrl-C.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def open_regular(path: str | Path, description: str, max_bytes: float) -> BinaryIO:
    """Open a regular file of at most ``max_bytes`` for reading; ``description`` is for messages: "a scenario file"."""

    def make_error(reason: object) -> ConfigError:
        return ConfigError(f"{path}: cannot be read as {description} ({reason})")

    try:
        # Opened without blocking, since a pipe may have no writer.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise make_error(error.strerror) from error
    except ValueError as error:  # a null character
        raise make_error(error) from error
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_size <= max_bytes:
        protect_input(status)
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    regular = stat.S_ISREG(status.st_mode)
    raise make_error(f"it has more than {max_bytes:,} bytes" if regular else "not a regular file")


def read_text(path: str | Path, description: str) -> str:
    """Return the content of a text file of at most MAX_TEXT_BYTES bytes: UTF-8, or UTF-16 with its byte-order mark."""
    with open_regular(path, description, MAX_TEXT_BYTES) as file:
        try:
            content = file.read(MAX_TEXT_BYTES)
            return content.decode("utf-16" if content[:2] in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8-sig")
        except (OSError, ValueError) as error:
            reason = "it is no text in UTF-8" if isinstance(error, UnicodeError) else error
            raise ConfigError(f"{path}: cannot be read as {description} ({reason})") from error


def read_json(path: str | Path, description: str) -> Any:
    """Return the parsed content of a JSON file; the arguments are those of ``open_regular``."""
    return parse_json(read_text(path, description), str(path), description)


def parse_json(text: Any, name: str, description: str) -> Any:
    """Return the content of JSON text from the source ``name``; repeated keys of an object are refused."""
    try:
        return json.loads(text, object_pairs_hook=_make_json_object)
    except (TypeError, ValueError, RecursionError) as error:
        reason = "it is empty" if isinstance(text, str) and not text.strip() else str(error)
        reason += "; a comma too many, or a key without double quotes?" if "property name" in reason else ""
        raise ConfigError(f"{name}: cannot be read as {description} ({reason})") from error


def _make_json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a dict of the (key, value) pairs of a JSON object; raise an error for repeated keys."""
    members = dict(pairs)
    if len(members) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"{brief(counts.most_common(1)[0][0])} is there twice")
    return members
