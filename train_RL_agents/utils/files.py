"""Reading of JSON files, and atomic writing of files."""

import contextlib
import hashlib
import os
import secrets
from pathlib import Path
from typing import Any

from marinenav_env.support import files
from marinenav_env.support.files import require_overwritable
from marinenav_env.support.validation import ConfigError, require
from train_RL_agents.utils.errors import first_line

TEMPORARY_SUFFIX = ".tmp"
"""Suffix of the names of incomplete files, which begin with a dot."""
_JSON_SETTINGS = "JSON settings"


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file whose top level is an object."""
    return parse_json(files.read_text(path, _JSON_SETTINGS), str(path))


def parse_json(text: Any, name: str) -> dict[str, Any]:
    """Return the object that a JSON text describes."""
    content = files.parse_json(text, name, _JSON_SETTINGS)
    require(isinstance(content, dict), name, content, "a JSON object with settings")
    return dict(content)


def sqlite_url(path: Path) -> str:
    """Return the URL of an SQLite database for SQLAlchemy, which the extras install."""
    from sqlalchemy.engine import URL

    # A URI of SQLite in a URL of SQLAlchemy, because SQLAlchemy escapes paths only from version 2.1 on.
    url = URL.create("sqlite", database=path.resolve().as_uri(), query={"uri": "true"})
    return url.render_as_string()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make_folder(path: Path) -> None:
    """Create a folder with its parents, if missing."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path}: the folder cannot be made ({error.strerror})") from error


def write_atomically(path: Path, content: dict[str, Any] | str | bytes, *, replace_input: bool = False) -> None:
    """Write text, bytes or a dictionary (by torch.save) so that the old or the new file always exists, complete.

    ``replace_input`` allows to replace a file that this command has read, such as a run's own files.
    """
    require(path.name != "", "output", str(path), "the name of a file")
    if not replace_input:
        require_overwritable(path)
    if isinstance(content, str):
        # File names in the text need not be valid Unicode.
        content = content.encode(errors="backslashreplace")
    # A unique name, created exclusively, so that it is neither used by another process nor a link.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY_SUFFIX}")
    try:
        with temporary.open("xb") as stream:
            if isinstance(content, dict):
                import torch

                torch.save(content, stream)
            else:
                stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except (OSError, RuntimeError) as error:
        # torch.save replaces the system's error by another one.
        hidden = error.__context__
        reason = first_line(hidden if isinstance(hidden, OSError) else error)
        raise ConfigError(f"{path}: cannot be written ({reason}); what was there is kept") from error
    finally:
        # The temporary file exists only after an error, including a second Ctrl-C.
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
