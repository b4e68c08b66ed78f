"""Files of arrays from untrusted sources, read without pickle and with size limits."""

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

_NPY_SUFFIX = ".npy"
"""Suffix of the entry of an array in an ``.npz`` file."""
_HEADER_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""NumPy's function that reads the header of an ``.npy`` file, by version of the format."""
MAX_FILE_SIZE = 1536 * 2**20
"""Default limit on the size of a file with arrays or weights, both packed and unpacked (bytes)."""


def stores_all_elements(value: object) -> bool:
    """Return whether a value is a tensor that stores all of its elements.

    A small file may contain a tensor of any size whose elements share one stored number.
    """
    return (
        isinstance(value, torch.Tensor)
        and value.layout == torch.strided
        and not (value.is_meta or value.is_quantized)
        and value.numel() * value.element_size() <= value.untyped_storage().nbytes()
    )


def may_call_builtins(content: bytes) -> bool:
    """Return whether a file for ``torch.load`` calls a built-in type, or is compressed and may do so.

    torch creates a bytearray of any size for such a call; files of weights contain no such call.
    """
    if zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                return True
    return b"c__builtin__\n" in content or b"cbuiltins\n" in content


def require_archive(
    path: Path, what: str, max_size: float = MAX_FILE_SIZE, names: Collection[str] | None = None
) -> None:
    """Raise an error if a zip file is damaged, or larger than a limit when unpacked.

    Args:
        path: file to check.
        what: expected content for messages, such as "a recording".
        max_size: limit on the size, both packed and unpacked (bytes).
        names: names of the arrays that will be unpacked, and so count towards the limit; by default all.

    Raises:
        ConfigError: when the file cannot be read, or is too large.
    """
    with open_regular(path, what, max_size if names is None else math.inf) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
        except Exception as error:  # damaged bytes can raise any exception
            raise ConfigError(f"{path}: damaged, or not {what}") from error
    sizes = [entry.file_size for entry in entries if names is None or entry.filename.removesuffix(_NPY_SUFFIX) in names]
    size = sum(sizes)
    require(size <= max_size, f"{path}: bytes", size, f"at most {max_size:,}, also unpacked")


def read_arrays(
    path: Path, what: str, max_size: float = MAX_FILE_SIZE, names: Collection[str] | None = None
) -> dict[str, NDArray[Any]]:
    """Return the arrays of an ``.npz`` file by name.

    Raises:
        ConfigError: when the file cannot be read, contains anything but plain arrays, or is too large.
    """
    require_archive(path, what, max_size, names)
    try:
        # Opened here, because np.load does not close a file that it cannot read.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files if names is None or name in names}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError  # entries that are not arrays are read as bytes
    except Exception as error:  # damaged bytes can raise any exception
        raise ConfigError(f"{path}: damaged, or not {what}") from error
    return arrays


def pickled_and_plain_names(path: Path, what: str) -> tuple[list[str], list[str]]:
    """Return the names of the arrays of an ``.npz`` file that are pickles of Python objects, and of the others.

    Returns:
        Names of arrays that cannot be read because they are pickles, and of those that can.

    Raises:
        ConfigError: when the file cannot be read.
    """
    names: tuple[list[str], list[str]] = ([], [])
    with open_regular(path, what, math.inf) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                for name in archive.namelist():
                    with archive.open(name) as entry:
                        *_, kind = _HEADER_READERS[np.lib.format.read_magic(entry)](entry)
                    names[not kind.hasobject].append(name.removesuffix(_NPY_SUFFIX))
        except Exception as error:  # damaged bytes can raise any exception
            raise ConfigError(f"{path}: damaged, or not {what}") from error
    return names
