"""Reading of JSON files, and atomic writing of files."""

import hashlib
from pathlib import Path
from typing import Any

from marinenav_env.support import files
from marinenav_env.support.validation import ConfigError, require

_SETTINGS = "settings"


def read_json(path: Path, kind: str = _SETTINGS) -> dict[str, Any]:
    """Return the content of a JSON file whose top level is an object; ``kind`` says with what, for messages."""
    return parse_json(files.read_text(path, f"JSON {kind}"), str(path), kind)


def parse_json(text: Any, name: str, kind: str = _SETTINGS) -> dict[str, Any]:
    """Return the object that a JSON text describes."""
    content = files.parse_json(text, name, f"JSON {kind}")
    require(isinstance(content, dict), name, content, f"a JSON object with {kind}")
    return dict(content)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make_folder(path: Path) -> None:
    """Create a folder with its parents, if missing."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path}: the folder cannot be made ({error.strerror}); choose another place") from error


def write_atomically(path: Path, content: dict[str, Any] | str | bytes, *, replace_input: bool = False) -> None:
    """Write text, bytes or a dictionary (by torch.save) so that the old or the new file always exists, complete.

    ``replace_input`` allows to replace a file that this command has read, such as a run's own files.
    """
    if isinstance(content, str):
        # File names in the text need not be valid Unicode.
        content = content.encode(errors="backslashreplace")
    with files.replacing(path, replace_input=replace_input) as stream:
        if isinstance(content, dict):
            import torch

            torch.save(content, stream)
        else:
            stream.write(content)
