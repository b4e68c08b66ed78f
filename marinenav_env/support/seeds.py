"""Conversion of seeds to int, and random seeds where none is given."""

import contextlib
import operator
import secrets
from typing import Any

import numpy as np

from marinenav_env.support.validation import require


def as_seed(seed: Any, key: str = "seed") -> int:
    """Convert a seed, a whole number from 0 to 2^64 - 1 of Python, NumPy or torch, to an int; ``key`` is for messages.

    None draws one from the operating system, so that no generator is advanced.
    """
    if seed is None:
        return secrets.randbits(63)
    number = -1
    if not isinstance(seed, bool):
        with contextlib.suppress(TypeError):
            number = operator.index(seed)
    require(0 <= number < 2**64, key, seed, "a whole number from 0 to 2^64 - 1")
    return number


def joint_seed(seeds: Any, count: int) -> int:
    """Return one seed, as ``as_seed`` does, or one derived by numpy.random.SeedSequence from a list of ``count``."""
    if not isinstance(seeds, list | tuple | np.ndarray) or getattr(seeds, "ndim", 1) == 0:
        return as_seed(seeds)
    require(len(seeds) == count, "seed", seeds, f"one, or a list of {count}")
    missing = [number for number, seed in enumerate(seeds) if seed is None]
    require(not missing, "seed", seeds, "given for all worlds or for none")
    entropy = [as_seed(seed, f"seed[{number}]") for number, seed in enumerate(seeds)]
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0])
