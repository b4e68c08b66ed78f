"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from marinenav_env.validation import ConfigError
from train_RL_agents.utils.errors import first_line


def make_folder(path: Path) -> None:
    """Make a folder, and those that it is in, where they are not there.

    Raises:
        ConfigError: when it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path}: the folder cannot be made ({error.strerror})") from error


def keep_inputs(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Refuse to write over what is read, also by another name of the same file.

    Raises:
        ConfigError: when an output is an input.
    """
    read = [path for path in inputs if path is not None and path.exists()]
    for output in outputs:
        if output is not None and output.exists() and any(map(output.samefile, read)):
            raise ConfigError(f"{output}: is read by this command, and not written over")


def write_atomically(path: Path, content: dict[str, Any] | str | bytes) -> None:
    """Write a file so that at any moment either the old or the new one is there, complete.

    Args:
        path: the file.
        content: text, bytes, or a dictionary for torch.save.

    Raises:
        ConfigError: when it cannot be written, as on a full disk; the old file is kept.
    """
    # Always the same name: what a killed process left behind is written over by the next one.
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as stream:
            if isinstance(content, dict):
                torch.save(content, stream)
            else:
                stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except (OSError, RuntimeError) as error:
        # torch.save hides the system's error behind one of its own.
        hidden = error.__context__
        reason = first_line(hidden if isinstance(hidden, OSError) else error)
        raise ConfigError(
            f"{path}: cannot be written ({reason}); what was there is kept"
        ) from error
    finally:
        # There is one only after an error, which includes a second Ctrl-C.
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
