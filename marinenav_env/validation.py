"""One way to refuse a bad value: name the key, show the value, say what is allowed."""

from __future__ import annotations

import math
import re
from numbers import Integral, Real
from typing import Any

_LONGEST_VALUE, _LONGEST_MESSAGE = 120, 399
"""In characters."""


class ConfigError(ValueError):
    """A setting, file or argument that cannot be used; its text is one sentence for the user.

    Args:
        message: the sentence; put on one line, and cut in the middle where it is too long.
    """

    def __init__(self, message: str) -> None:
        line = re.sub(r"[\x00-\x1f\x7f\x85\u2028\u2029]+", " ", _cut(message, _LONGEST_MESSAGE))
        super().__init__(line)


def _cut(text: str, longest: int) -> str:
    """A text without its middle, if it is too long."""
    half = (longest - 3) // 2
    return text if len(text) <= longest else f"{text[:half]}...{text[-half:]}"


def brief(value: object) -> str:
    """A value as messages show it: as Python writes it, cut in the middle where that is long."""
    try:
        return _cut(repr(value), _LONGEST_VALUE)
    except (ValueError, RecursionError):  # thousands of digits, or of lists inside one another
        return f"a {type(value).__name__}"


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
        raise ConfigError(f"{key}={brief(value)}: must be {allowed}")


def is_number(value: object) -> bool:
    """Whether a value is a finite number (a truth value is not)."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def require_numbers(
    config: Any,
    section: str,
    names: tuple[str, ...],
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    at_most: float = math.inf,
    whole: bool = False,
    single: bool = False,
) -> None:
    """Check that fields are finite numbers in range.

    Args:
        config: the dataclass that holds the fields.
        section: dotted name of that dataclass, for the message.
        names: the fields to check.
        above: exclusive lower bound.
        at_least: inclusive lower bound.
        at_most: inclusive upper bound.
        whole: whether only whole numbers are allowed.
        single: whether a tuple of numbers, one for each robot, say, is refused.

    Raises:
        ConfigError: for the first field out of range.
    """
    bounds = [f"above {above:g}"] if above > -math.inf else []
    bounds += [f"at least {at_least:g}"] if at_least > -math.inf else []
    bounds += [f"at most {at_most:g}"] if at_most < math.inf else []
    allowed = " and ".join(bounds) or "finite"
    if whole:
        allowed = f"a whole number, {allowed}"
    for name in names:
        value = getattr(config, name)
        numbers = value if isinstance(value, tuple) and not single else (value,)
        fine = all(
            is_number(number)
            and (isinstance(number, Integral) or not whole)
            and number > above
            and at_least <= number <= at_most
            for number in numbers
        )
        require(fine and len(numbers) > 0, f"{section}.{name}", value, allowed)


def require_ranges(
    config: Any, section: str, names: tuple[str, ...], *, at_least: float = -math.inf
) -> None:
    """Check that fields are (low, high) with finite low <= high.

    Args:
        config: the dataclass that holds the fields.
        section: dotted name of that dataclass, for the message.
        names: the fields to check.
        at_least: inclusive lower bound.

    Raises:
        ConfigError: for the first field that is none.
    """
    bound = f"{at_least:g} <= " if at_least > -math.inf else ""
    for name in names:
        value = getattr(config, name)
        fine = isinstance(value, tuple | list) and len(value) == 2 and all(map(is_number, value))
        fine = fine and at_least <= value[0] <= value[1]
        require(fine, f"{section}.{name}", value, f"a range, {bound}low <= high")
