"""Validation of values: an error names the key, the value, and what is allowed.

The fields of a configuration declare types and bounds in their annotations, as in
``Annotated[float, above(0.0)]``; ``check_fields`` enforces both.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from numbers import Real
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeGuard,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

_LONGEST_VALUE, _LONGEST_MESSAGE = 120, 380
"""Largest number of characters of a value in a message, and of a whole message."""
LARGEST_NUMBER, LARGEST_WHOLE = 1e30, 2**53
"""Largest magnitude of numbers, within single precision, and of whole numbers, exact in double precision."""
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class ConfigError(ValueError):
    """Error raised for a setting, file or argument that cannot be used; its text is one sentence for the user.

    Args:
        message: text of the error; it is put on one line, and shortened in the middle if it is too long.
    """

    def __init__(self, message: str) -> None:
        line = re.sub(r"[\x00-\x1f\x7f\x85\u2028\u2029]+", " ", _cut(message, _LONGEST_MESSAGE))
        super().__init__(line)


def _cut(text: str, longest: int) -> str:
    """Return a text, without its middle if it is too long."""
    half = (longest - 3) // 2
    return text if len(text) <= longest else f"{text[:half]}...{text[-half:]}"


def brief(value: object) -> str:
    """Return the ``repr`` of a value for messages, shortened in the middle if it is long."""
    try:
        return _cut(repr(value), _LONGEST_VALUE)
    except (ValueError, RecursionError):  # thousands of digits, or of lists inside one another
        return f"a {type(value).__name__}"


def require(condition: bool, key: str, value: object, allowed: str) -> None:
    """Raise an error that names a setting, its value and what is allowed, unless a condition holds.

    Args:
        condition: whether the value is valid.
        key: dotted name of the setting.
        value: value of the setting, for the message.
        allowed: description of valid values that completes "must be ...".

    Raises:
        ConfigError: when the condition is false.
    """
    if not condition:
        raise ConfigError(f"{key}={brief(value)}: must be {allowed}")


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number (a bool is not)."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def is_count(value: object) -> TypeGuard[int]:
    """Return whether a value is a whole number from 0 to 2^63 - 1 (a bool is not)."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def is_text(value: object) -> TypeGuard[str]:
    """Return whether a value is text that can be shown and stored: no control characters or surrogates."""
    return isinstance(value, str) and not _UNPRINTABLE.search(value)


# Rules ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """Condition on a value in addition to its type; part of the ``Annotated`` type of a field."""

    words: str
    """Text that completes an error message "must be ..."."""
    holds: Callable[[Any], bool]
    """Function that returns whether a value of the declared type fulfils the rule."""


def _numbers_rule(words: str, holds: Callable[[float], bool]) -> Rule:
    """Return a rule that holds for a number, or for all numbers of a tuple."""

    def all_hold(value: Any) -> bool:
        return all(map(holds, value)) if isinstance(value, tuple) else holds(value)

    return Rule(words, all_hold)


def above(bound: float) -> Rule:
    """Return the rule that a number, or all numbers of a tuple, are greater than a bound."""
    return _numbers_rule(f"above {bound:.10g}", lambda number: number > bound)


def at_least(bound: float) -> Rule:
    """Return the rule that a number, or all numbers of a tuple, are at least a bound."""
    return _numbers_rule(f"at least {bound:.10g}", lambda number: number >= bound)


def at_most(bound: float) -> Rule:
    """Return the rule that a number, or all numbers of a tuple, are at most a bound."""
    return _numbers_rule(f"at most {bound:.10g}", lambda number: number <= bound)


NOT_EMPTY = Rule("one or more numbers", bool)
"""Rule that a tuple is not empty."""
ORDERED = Rule("a range, low <= high", lambda pair: bool(pair[0] <= pair[1]))
"""Rule that a tuple (low, high) is in order."""

Count = Annotated[int, at_least(1)]
Whole = Annotated[int, at_least(0)]
Positive = Annotated[float, above(0.0)]
NonNegative = Annotated[float, at_least(0.0)]
Fraction = Annotated[float, at_least(0.0), at_most(1.0)]
Share = Annotated[float, above(0.0), at_most(1.0)]
"""Number above 0 and at most 1."""
Range = Annotated[tuple[float, float], ORDERED]
"""Pair of numbers (low, high) with low at most high."""


# Fields -----------------------------------------------------------------------------------------


def check_fields(config: Any, section: str = "") -> None:
    """Convert every field of a dataclass to its declared type, and check its rules.

    It is meant to be called in ``__post_init__``. Lists become tuples; where the type requires it, a
    float without a fraction, such as 1e6, becomes an int, and a single value becomes a tuple of one.
    Numbers must be finite.

    Args:
        config: instance of a dataclass, which may be frozen; its fields are replaced.
        section: dotted name of the instance, for messages.

    Raises:
        ConfigError: for the first field whose value does not fit.
    """
    config_type: Any = type(config)
    for name, annotation in field_types(config_type).items():
        value, allowed = getattr(config, name), ""
        try:
            object.__setattr__(config, name, _convert(annotation, value))
        except TypeError:
            allowed = describe(annotation)
        except ValueError as error:
            allowed = str(error)
        require(not allowed, f"{section}.{name}".lstrip("."), value, allowed)


@cache
def field_types(config_type: Any) -> dict[str, Any]:
    """Return the declared type of each field of a dataclass, with its rules."""
    hints = get_type_hints(config_type, include_extras=True)
    return {item.name: hints[item.name] for item in fields(config_type)}


def _convert(annotation: Any, value: Any) -> Any:
    """Convert a value to a declared type.

    Raises:
        TypeError: when the value is of another type.
        ValueError: when the value is not finite or breaks a rule; the text completes "must be ...".
    """
    if get_origin(annotation) is Annotated:
        converted = _convert(annotation.__origin__, value)
        if not all(rule.holds(converted) for rule in annotation.__metadata__):
            raise ValueError(words_of(annotation))
        return converted
    members = members_of(annotation)
    if not isinstance(value, list | tuple) and all(get_origin(member) is tuple for member in members):
        value = [value]
    if len(members) == 1:
        return _convert_one(annotation, value)
    for member in members:
        with contextlib.suppress(TypeError):
            return _convert(member, value)
    raise TypeError(value)


def _convert_one(kind: Any, value: Any) -> Any:
    """Convert a value to a type that is not a union and has no rules; see ``_convert``."""
    if isinstance(kind, TypeVar):
        kind = kind.__bound__
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin in (int, float):
        return _convert_number(origin, value)
    if origin is tuple and isinstance(value, list | tuple):
        kinds = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        if len(kinds) == len(value):
            return tuple(map(_convert, kinds, value))
    elif origin is Literal:
        if isinstance(value, str) and value in arguments:
            return value
    elif origin is str and isinstance(value, str) and not is_text(value):
        raise ValueError("text without control characters")
    elif origin is not tuple and _is_instance(value, origin):
        return value
    raise TypeError(value)


def _is_instance(value: Any, kind: Any) -> bool:
    """Return whether a value is of a class; true also if Python cannot check this, as for some protocols."""
    try:
        return isinstance(value, kind)
    except TypeError:
        return True


def _convert_number(kind: type[int | float], value: Any) -> int | float:
    """Convert a value to a number and refuse a bool; see ``_convert``."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(value)
    if not is_number(value):
        raise ValueError("finite")
    if kind is int and value % 1:
        raise TypeError(value)
    largest = LARGEST_WHOLE if kind is int else LARGEST_NUMBER
    if abs(value) > largest:
        raise ValueError(f"from {-largest:g} to {largest:g}")
    return kind(value)


# Types in words ---------------------------------------------------------------------------------

_NOUNS: dict[Any, tuple[str, str]] = {
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "true or false"),
    str: ("text", "texts"),
    NoneType: ("null", "null"),
}


def strip_annotated(annotation: Any) -> Any:
    """Return the type inside an ``Annotated`` annotation, without its validation rules."""
    return annotation.__origin__ if get_origin(annotation) is Annotated else annotation


def words_of(annotation: Any) -> str:
    """Return the rules of a type in words, such as ``above 0 and at most 1``."""
    words = [rule.words for rule in getattr(annotation, "__metadata__", ())]
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def members_of(annotation: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the type itself."""
    union = get_origin(annotation) in (Union, UnionType)
    return get_args(annotation) if union else (annotation,)


def describe(annotation: Any) -> str:
    """Return a type in words, such as ``a whole number or a list of whole numbers``."""
    return " or ".join(_describe_one(strip_annotated(member)) for member in members_of(strip_annotated(annotation)))


def _describe_one(annotation: Any) -> str:
    arguments = get_args(annotation)
    if get_origin(annotation) is Literal:
        return f"one of {', '.join(map(str, arguments))}"
    if get_origin(annotation) is tuple:
        count = "" if arguments[-1] is Ellipsis else f"{len(arguments)} "
        return f"a list of {count}{_NOUNS.get(strip_annotated(arguments[0]), ('', 'values'))[1]}"
    name = f"a {annotation.__name__}" if isinstance(annotation, type) else str(annotation)
    return _NOUNS.get(annotation, (name, ""))[0]
