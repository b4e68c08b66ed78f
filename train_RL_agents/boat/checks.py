"""Checks of settings and inputs of the runtime on board, and of contracts: the JSON files exported with policies."""

import math
from numbers import Real
from typing import Any

import numpy as np


class BoatError(ValueError):
    """Error of a policy, setting or input that cannot be used; its message is one sentence."""


def require(condition: bool, sentence: str) -> None:
    """Raise a BoatError with a sentence if a condition does not hold."""
    if not condition:
        raise BoatError(sentence)


def is_finite_number(value: Any) -> bool:
    """Return whether a value is one finite number."""
    value = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    return isinstance(value, Real) and math.isfinite(value)


def common_number(value: Any, name: str) -> float:
    """Return a finite number that a contract states once, or once for each robot; robots must not differ in it."""
    values = np.unique(np.asarray(value, float))
    require(len(values) == 1, f"the contract has a {name} of its own for every robot")
    require(bool(np.isfinite(values).all()), f"the contract's {name} is not finite")
    return float(values[0])


def checked_setting(name: str, value: float | None, default: float, low: float, high: float) -> float:
    """Return a setting, or its default if it is None; raise a BoatError if it is not from ``low`` to ``high``."""
    if value is None:
        return default
    is_valid = is_finite_number(value) and low <= value <= high
    require(is_valid, f"{name}: must be from {low:g} to {high:g}, not {value}")
    return float(value)
