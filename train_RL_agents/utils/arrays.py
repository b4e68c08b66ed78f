"""Files of arrays that others may have made: read without pickle, and within limits."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from marinenav_env.validation import ConfigError, require

LARGEST = 1536 * 2**20
"""Bytes that a file may have, also unpacked."""


def is_whole(value: object) -> bool:
    """Whether this is a tensor with a number in memory for each of its elements.

    A file of a few bytes may hold a tensor of any size, all of whose elements are one number.
    """
    return (
        isinstance(value, torch.Tensor)
        and value.layout == torch.strided
        and value.numel() * value.element_size() <= value.untyped_storage().nbytes()
    )


def require_file(path: Path, what: str) -> None:
    """Refuse what should not be opened.

    Args:
        path: the file.
        what: it should be, for messages.

    Raises:
        ConfigError: when there is none, it is not a regular file, or it is too large.
    """
    try:
        require(path.exists(), what, str(path), "a file that is there")
        require(path.is_file(), what, str(path), "a regular file")
        size = path.stat().st_size
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                size = max(size, sum(entry.file_size for entry in archive.infolist()))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path}: damaged, or not a {what}") from error
    require(size <= LARGEST, f"{path}: bytes", size, f"at most {LARGEST:,}, also unpacked")


def read_arrays(path: Path, what: str) -> dict[str, NDArray[Any]]:
    """Read the arrays of an ``.npz`` file by name.

    Args:
        path: the file.
        what: it should be, for messages.

    Raises:
        ConfigError: when it cannot be read.
    """
    require_file(path, what)
    try:
        # Opened here: np.load leaves a file that it cannot read open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception as error:  # damaged bytes can lead anywhere
        raise ConfigError(f"{path}: damaged, or not a {what}") from error
