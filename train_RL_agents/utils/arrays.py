"""Files of arrays that others may have made: read without pickle, and within limits."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from marinenav_env.support.files import open_regular
from marinenav_env.support.validation import ConfigError, require

_ARRAY = ".npy"
"""The end of an array's name in a file."""
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
LARGEST = 1536 * 2**20
"""Bytes that a file may have, also unpacked, if not said otherwise."""


def is_whole(value: object) -> bool:
    """Return whether this is a tensor with a number in memory for each of its elements.

    A file of a few bytes may hold a tensor of any size, all of whose elements are one number.
    """
    return (
        isinstance(value, torch.Tensor)
        and value.layout == torch.strided
        and not (value.is_meta or value.is_quantized)
        and value.numel() * value.element_size() <= value.untyped_storage().nbytes()
    )


def calls_builtins(content: bytes) -> bool:
    """Return whether a file for ``torch.load`` calls for a built-in type, or may, as it is compressed.

    torch makes a bytearray of any size for such a call; files of weights have none.
    """
    if zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                return True
    return b"c__builtin__\n" in content or b"cbuiltins\n" in content


def require_archive(path: Path, what: str, largest: float = LARGEST, names: Collection[str] | None = None) -> None:
    """Refuse a zip file that should not be unpacked.

    Args:
        path: the file.
        what: it should be, for messages, as in "a recording".
        largest: bytes that it may have, also unpacked.
        names: arrays that are unpacked, and so count; by default all that it holds.

    Raises:
        ConfigError: when it cannot be read, or is too large.
    """
    with open_regular(path, what, largest if names is None else math.inf) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
        except Exception as error:  # damaged bytes can lead anywhere
            raise ConfigError(f"{path}: damaged, or not {what}") from error
    counted = [each.file_size for each in entries if names is None or each.filename.removesuffix(_ARRAY) in names]
    size = sum(counted)
    require(size <= largest, f"{path}: bytes", size, f"at most {largest:,}, also unpacked")


def read_arrays(
    path: Path, what: str, largest: float = LARGEST, names: Collection[str] | None = None
) -> dict[str, NDArray[Any]]:
    """Read the arrays of an ``.npz`` file by name.

    Args:
        path: the file.
        what: it should be, for messages, as in "a recording".
        largest: bytes that it may have, also unpacked.
        names: which of its arrays to read; by default all.

    Raises:
        ConfigError: when it cannot be read, or is too large.
    """
    require_archive(path, what, largest, names)
    try:
        # Opened here: np.load leaves a file that it cannot read open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            found = {name: archive[name] for name in archive.files if names is None or name in names}
        if not all(isinstance(array, np.ndarray) for array in found.values()):
            raise ValueError  # entries that are no arrays are bytes
    except Exception as error:  # damaged bytes can lead anywhere
        raise ConfigError(f"{path}: damaged, or not {what}") from error
    return found


def arrays_of_objects(path: Path, what: str) -> tuple[list[str], list[str]]:
    """Look which arrays of an ``.npz`` file are pickles of Python objects, and so cannot be read.

    Args:
        path: the file.
        what: it should be, for messages, as in "a recording".

    Returns:
        The names of those that are, and of those that are not.

    Raises:
        ConfigError: when it cannot be read.
    """
    names: tuple[list[str], list[str]] = ([], [])
    with open_regular(path, what, math.inf) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                for name in archive.namelist():
                    with archive.open(name) as entry:
                        *_, kind = _HEADERS[np.lib.format.read_magic(entry)](entry)
                    names[not kind.hasobject].append(name.removesuffix(_ARRAY))
        except Exception as error:  # damaged bytes can lead anywhere
            raise ConfigError(f"{path}: damaged, or not {what}") from error
    return names
