"""One way to refuse a bad value: name the key, show the value, say what is allowed."""

from __future__ import annotations

import math
from typing import Any


class ConfigError(ValueError):
    """A setting, file or argument that cannot be used; its text is one sentence for the user."""


def require(condition: bool, key: str, value: object, allowed: str) -> None:
    """Refuse a value.

    Args:
        condition: whether the value is fine.
        key: dotted name of the setting.
        value: what was given.
        allowed: what would have been accepted, completing "must be ...".

    Raises:
        ConfigError: when the condition is false.
    """
    if not condition:
        raise ConfigError(f"{key}={value!r}: must be {allowed}")


def require_numbers(
    config: Any,
    section: str,
    names: tuple[str, ...],
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    at_most: float = math.inf,
) -> None:
    """Check that fields (a number, or a tuple with one number per robot) are finite and in range.

    Args:
        config: the dataclass that holds the fields.
        section: dotted name of that dataclass, for the message.
        names: the fields to check.
        above: exclusive lower bound.
        at_least: inclusive lower bound.
        at_most: inclusive upper bound.

    Raises:
        ConfigError: for the first field out of range.
    """
    bounds = [f"above {above:g}"] if above > -math.inf else []
    bounds += [f"at least {at_least:g}"] if at_least > -math.inf else []
    bounds += [f"at most {at_most:g}"] if at_most < math.inf else []
    allowed = " and ".join(bounds) or "finite"
    for name in names:
        value = getattr(config, name)
        numbers = value if isinstance(value, tuple) else (value,)
        fine = all(
            math.isfinite(number) and number > above and at_least <= number <= at_most
            for number in numbers
        )
        require(fine and len(numbers) > 0, f"{section}.{name}", value, allowed)
