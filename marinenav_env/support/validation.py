"""Validation of values: an error names the key, the value, and what is allowed.

The fields of a configuration declare types and bounds in their annotations, as in
``Annotated[float, above(0.0)]``; ``check_fields`` enforces both.
"""

import contextlib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from numbers import Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeGuard, TypeVar, Union, get_args, get_origin, get_type_hints

ConfigType = TypeVar("ConfigType")
_MAX_VALUE_LENGTH = 120
"""Largest number of characters of a value in an error message."""
_MAX_MESSAGE_LENGTH = 380
MAX_FLOAT = 1e30
"""Largest magnitude of a float in a configuration, within the range of float32."""
MAX_INT = 2**53
"""Largest magnitude of an int in a configuration, up to which float64 is exact."""
_UNPRINTABLE_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class ConfigError(ValueError):
    """Error raised for a setting, file or argument that cannot be used; its text is one sentence for the user."""

    def __init__(self, message: str) -> None:
        line = re.sub(r"[\x00-\x1f\x7f\x85\u2028\u2029]+", " ", _shorten(message, _MAX_MESSAGE_LENGTH))
        super().__init__(line)


def _shorten(text: str, max_length: int) -> str:
    """Return a text, with its middle replaced by three dots if it has more than ``max_length`` characters."""
    half = (max_length - 3) // 2
    return text if len(text) <= max_length else f"{text[:half]}...{text[-half:]}"


def brief(value: object) -> str:
    """Return the ``repr`` of a value, shortened in the middle to 120 characters, for error messages."""
    try:
        return _shorten(repr(value), _MAX_VALUE_LENGTH)
    except (ValueError, RecursionError):  # thousands of digits, or of lists inside one another
        return f"a {type(value).__name__}"


def require(condition: bool, key: str, value: object, allowed: str) -> None:
    """Raise ConfigError with the text "key=value: must be allowed" unless a condition is true."""
    if not condition:
        raise ConfigError(f"{key}={brief(value)}: must be {allowed}")


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number (a bool is not)."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def is_nonnegative_int(value: object) -> TypeGuard[int]:
    """Return whether a value is a whole number from 0 to 2^63 - 1 (a bool is not)."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def is_printable_text(value: object) -> TypeGuard[str]:
    """Return whether a value is text that can be shown and stored: no control characters or surrogates."""
    return isinstance(value, str) and not _UNPRINTABLE_CHARACTERS.search(value)


# Rules ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """Condition on a value in addition to its type; part of the ``Annotated`` type of a field."""

    requirement: str
    """Description of valid values that completes the error message "must be ...", such as "above 0"."""
    predicate: Callable[[Any], bool]
    """Function that returns whether a value, already converted to the declared type, is valid."""


def _make_number_rule(requirement: str, predicate: Callable[[float], bool]) -> Rule:
    """Return a Rule that applies a predicate to a number, or to every number of a tuple."""

    def all_satisfy(value: Any) -> bool:
        return all(map(predicate, value)) if isinstance(value, tuple) else predicate(value)

    return Rule(requirement, all_satisfy)


def above(bound: float) -> Rule:
    """Return the rule that a number, or all numbers of a tuple, are greater than a bound."""
    return _make_number_rule(f"above {bound:.10g}", lambda number: number > bound)


def at_least(bound: float) -> Rule:
    """Return the rule that a number, or all numbers of a tuple, are at least a bound."""
    return _make_number_rule(f"at least {bound:.10g}", lambda number: number >= bound)


def at_most(bound: float) -> Rule:
    """Return the rule that a number, or all numbers of a tuple, are at most a bound."""
    return _make_number_rule(f"at most {bound:.10g}", lambda number: number <= bound)


IS_NOT_EMPTY = Rule("one or more numbers", bool)
"""Rule for fields that are tuples, which must not be empty."""
IS_ORDERED = Rule("a range, low <= high", lambda pair: bool(pair[0] <= pair[1]))
"""Rule for fields that are pairs (low, high), with low at most high."""

PositiveInt = Annotated[int, at_least(1)]
"""Type of a dataclass field that check_fields converts to an int and requires to be at least 1."""
NonNegativeInt = Annotated[int, at_least(0)]
PositiveFloat = Annotated[float, above(0.0)]
NonNegativeFloat = Annotated[float, at_least(0.0)]
Fraction = Annotated[float, at_least(0.0), at_most(1.0)]
PositiveFraction = Annotated[float, above(0.0), at_most(1.0)]
"""Type of a dataclass field that is a number above 0 and at most 1."""
OrderedRange = Annotated[tuple[float, float], IS_ORDERED]
"""Type of a dataclass field that is a pair of numbers (low, high) with low at most high."""


# Fields -----------------------------------------------------------------------------------------


def check_fields(config: Any, section: str = "") -> None:
    """Convert every field of a dataclass to its declared type, in place, and check its rules, in ``__post_init__``.

    Lists become tuples; where the type requires it, a float without a fraction, such as 1e6, becomes an int, and a
    single value becomes a tuple of one. Numbers must be finite. ``section``, such as ``world.sensor``, is for messages.
    """
    config_type: Any = type(config)
    for name, annotation in field_types(config_type).items():
        value, allowed = getattr(config, name), ""
        try:
            object.__setattr__(config, name, _convert(annotation, value))
        except TypeError:
            allowed = describe_type(annotation)
        except ValueError as error:
            allowed = str(error)
        require(not allowed, f"{section}.{name}".lstrip("."), value, allowed)


@cache
def field_types(config_type: Any) -> dict[str, Any]:
    """Return the annotation of each field of a dataclass by field name, including ``Annotated`` with its rules."""
    hints = get_type_hints(config_type, include_extras=True)
    return {item.name: hints[item.name] for item in fields(config_type)}


def replace_settings(config: ConfigType, values: Mapping[str, Any], prefix: str = "") -> ConfigType:
    """Return a configuration with new values by dotted key; each section is checked with all of them at once."""
    changes: dict[str, Any] = {}
    for item in fields(config):  # type: ignore[arg-type]
        key, value = prefix + item.name, getattr(config, item.name)
        if is_dataclass(value):
            changes[item.name] = replace_settings(value, values, f"{key}.")
        elif key in values:
            changes[item.name] = values[key]
    return replace(config, **changes)  # type: ignore[type-var]


def _convert(annotation: Any, value: Any) -> Any:
    if get_origin(annotation) is Annotated:
        converted = _convert(annotation.__origin__, value)
        if not all(rule.predicate(converted) for rule in annotation.__metadata__):
            raise ValueError(describe_rules(annotation))
        return converted
    members = union_members(annotation)
    if not isinstance(value, list | tuple) and all(get_origin(member) is tuple for member in members):
        value = [value]
    if len(members) == 1:
        return _convert_to_single_type(annotation, value)
    for member in members:
        with contextlib.suppress(TypeError):
            return _convert(member, value)
    raise TypeError(value)


def _convert_to_single_type(kind: Any, value: Any) -> Any:
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
    elif origin is str and isinstance(value, str) and not is_printable_text(value):
        raise ValueError("text without control characters")
    elif origin is not tuple and _may_be_instance(value, origin):
        return value
    raise TypeError(value)


def _may_be_instance(value: Any, kind: Any) -> bool:
    """Return whether a value is of a class; true also if Python cannot check this, as for some protocols."""
    try:
        return isinstance(value, kind)
    except TypeError:
        return True


def _convert_number(kind: type[int | float], value: Any) -> int | float:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(value)
    if not is_number(value):
        raise ValueError("finite")
    if kind is int and value % 1:
        raise TypeError(value)
    largest = MAX_INT if kind is int else MAX_FLOAT
    if abs(value) > largest:
        raise ValueError(f"at most {largest:g}" if value > 0 else f"at least {-largest:g}")
    return kind(value)


# Types in words ---------------------------------------------------------------------------------

_TYPE_NAMES: dict[Any, tuple[str, str]] = {
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "true or false"),
    str: ("text", "texts"),
    NoneType: ("null", "null"),
}
"""Description of one value and of several values of a type, for error messages."""


def strip_annotated(annotation: Any) -> Any:
    """Return the type inside an ``Annotated`` annotation; return any other annotation unchanged."""
    return annotation.__origin__ if get_origin(annotation) is Annotated else annotation


def describe_rules(annotation: Any) -> str:
    """Return the rules of an ``Annotated`` type as text, such as ``above 0 and at most 1``; empty without rules."""
    requirement = [rule.requirement for rule in getattr(annotation, "__metadata__", ())]
    return (
        " and ".join([", ".join(requirement[:-1]), requirement[-1]]) if len(requirement) > 1 else "".join(requirement)
    )


def union_members(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union type; a tuple with the type itself if it is not a union."""
    union = get_origin(annotation) in (Union, UnionType)
    return get_args(annotation) if union else (annotation,)


def describe_type(annotation: Any) -> str:
    """Return a description of a type for users, such as ``a whole number or a list of whole numbers``."""
    return " or ".join(
        _describe_type_member(strip_annotated(member)) for member in union_members(strip_annotated(annotation))
    )


def _describe_type_member(annotation: Any) -> str:
    arguments = get_args(annotation)
    if get_origin(annotation) is Literal:
        return f"one of {', '.join(map(str, arguments))}"
    if get_origin(annotation) is tuple:
        count = "" if arguments[-1] is Ellipsis else f"{len(arguments)} "
        return f"a list of {count}{_TYPE_NAMES.get(strip_annotated(arguments[0]), ('', 'values'))[1]}"
    name = f"a {annotation.__name__}" if isinstance(annotation, type) else str(annotation)
    return _TYPE_NAMES.get(annotation, (name, ""))[0]
