"""Checks of settings and inputs of the runtime on board, and of contracts: the JSON files exported with policies."""

import json
import math
from numbers import Real
from pathlib import Path
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


def checked_name(file: Path, vessel: dict[str, Any]) -> str:
    """Return the name of the boat in a vessel file (JSON), whose stated numbers must be those of the policy's boat."""
    try:
        content = json.loads(file.read_text(encoding="utf-8-sig"))
        stated = content["vessel"]
        own = vessel | vessel.get("actuators", {})
        for key, given in (stated | stated.get("actuators", {})).items():
            value = given["value"] if isinstance(given, dict) and "value" in given else given
            same = key == "actuators" or own.get(key) == value
            require(same, f"the policy is for a boat with {key}={own.get(key)}, not {value} as in {file}")
        return str(content["name"])
    except BoatError:
        raise
    except Exception as error:  # damaged text may raise any error
        raise BoatError(f"{file}: no vessel file ({error!r})") from error


def check_limits(name: str, groups: list[Any], limits: list[float]) -> None:
    """Raise a BoatError if a number in a group is not finite, or its absolute value exceeds the limit of the group."""
    for values, limit in zip(groups, limits, strict=True):
        values = np.abs(np.asarray(values, float))
        require(bool(np.isfinite(values).all()), f"{name}: a value is not finite")
        largest = float(values.max(initial=0.0))
        require(largest <= limit, f"{name}: {largest:g} is not plausible, the limit is {limit:g}")
