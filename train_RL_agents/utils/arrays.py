"""Files of arrays, read without pickle."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from marinenav_env.support.files import open_regular
from marinenav_env.support.validation import ConfigError


def stores_all_elements(value: object) -> bool:
    """Return whether a value is a dense tensor whose elements do not share one stored number."""
    return (
        isinstance(value, torch.Tensor)
        and value.layout == torch.strided
        and not (value.is_meta or value.is_quantized)
        and value.numel() * value.element_size() <= value.untyped_storage().nbytes()
    )


def read_arrays(path: Path, what: str, skips_objects: bool = False) -> dict[str, NDArray[Any]]:
    """Return the arrays of an ``.npz`` file by name; those of Python objects are refused, or left out."""
    arrays: dict[str, NDArray[Any]] = {}
    with open_regular(path, what, math.inf) as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                for name in archive.files:
                    try:
                        arrays[name] = archive[name]
                    except ValueError as error:
                        if not skips_objects or "allow_pickle" not in str(error):
                            raise
            if not all(isinstance(array, np.ndarray) for array in arrays.values()):
                raise ValueError  # entries that are not arrays are read as bytes
        except Exception as error:  # damaged bytes can raise any exception
            raise ConfigError(f"{path}: damaged, or not {what}") from error
    return arrays
