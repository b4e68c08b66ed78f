"""Types and rules of fields, and how values are shown."""

import math
from dataclasses import dataclass
from typing import Annotated, Generic, Literal, TypeVar

import numpy as np
import pytest

from marinenav_env.support.validation import (
    IS_NOT_EMPTY,
    ConfigError,
    Fraction,
    OrderedRange,
    PositiveFloat,
    PositiveFraction,
    PositiveInt,
    above,
    at_least,
    at_most,
    brief,
    check_fields,
    describe_rules,
    describe_type,
    is_nonnegative_int,
    is_number,
    is_printable_text,
    require,
)
from tests.refusals import refusal

Inner = TypeVar("Inner", bound=Exception)


@dataclass(frozen=True)
class Settings(Generic[Inner]):
    """One field of every kind."""

    count: PositiveInt = 1
    positive: PositiveFloat = 1.0
    fraction: Fraction = 0.5
    share: PositiveFraction = 0.5
    free: float = 0.0
    flag: bool = False
    name: str = ""
    choice: Literal["a", "b"] = "a"
    maybe: float | None = None
    counts: Annotated[tuple[int, ...], at_most(9)] = ()
    pair: Annotated[OrderedRange, at_least(0.0)] = (0.0, 1.0)
    each: Annotated[float | Annotated[tuple[float, ...], IS_NOT_EMPTY], above(0.0)] = 1.0
    rows: tuple[tuple[int, int], ...] = ()
    inner: Inner | None = None

    def __post_init__(self):
        check_fields(self, "settings")


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("count", 3.0, 3),
        ("count", 1e6, 1_000_000),
        ("positive", 2, 2.0),
        ("positive", np.float32(0.5), 0.5),
        ("fraction", 0, 0.0),
        ("flag", True, True),
        ("name", "--help", "--help"),
        ("choice", "b", "b"),
        ("maybe", None, None),
        ("counts", [1, 2.0], (1, 2)),
        ("counts", 3, (3,)),
        ("each", 2, 2.0),
        ("each", [2], (2.0,)),
        ("rows", [[1, 2], (3, 4)], ((1, 2), (3, 4))),
    ],
)
def test_values_become_what_is_declared(name, given, expected):
    value = getattr(Settings(**{name: given}), name)
    assert value == expected
    assert type(value) is type(expected)
    if isinstance(value, tuple):
        assert [type(item) for item in value] == [type(item) for item in expected]


@pytest.mark.parametrize(
    ("name", "given", "allowed"),
    [
        ("count", 0, "at least 1"),
        ("count", 1.5, "a whole number"),
        ("count", "1", "a whole number"),
        ("count", math.nan, "finite"),
        ("count", 10**400, "finite"),
        ("positive", 0.0, "above 0"),
        ("positive", 1j, "a number"),
        ("fraction", 1.5, "at least 0 and at most 1"),
        ("share", 0, "above 0 and at most 1"),
        ("flag", 1, "true or false"),
        ("name", 5, "text"),
        ("choice", "c", "one of a, b"),
        ("choice", np.zeros(2), "one of a, b"),
        ("maybe", "x", "a number or null"),
        ("counts", [10], "at most 9"),
        ("counts", [[1]], "a list of whole numbers"),
        ("pair", (1.0, 0.0), "a range, low <= high and at least 0"),
        ("pair", 1.0, "a list of 2 numbers"),
        ("pair", (0.0, math.inf), "finite"),
        ("each", (), "one or more numbers"),
        ("each", "--help", "a number or a list of numbers"),
        ("rows", [[1, 2, 3]], "a list of values"),
    ],
)
def test_other_values_are_refused(name, given, allowed):
    assert refusal(Settings, **{name: given}) == f"settings.{name}={brief(given)}: must be {allowed}"


def test_a_type_variable_stands_for_its_bound():
    fault = ValueError()
    assert Settings(inner=fault).inner is fault
    with pytest.raises(ConfigError, match=r"settings\.inner="):
        Settings(inner=5)  # type: ignore[type-var]


def test_types_and_rules_in_words():
    assert describe_type(int | tuple[int, ...]) == "a whole number or a list of whole numbers"
    assert describe_type(float | None) == "a number or null"
    assert describe_type(Literal["a", "b"]) == "one of a, b"
    assert describe_type(Annotated[tuple[float, float], IS_NOT_EMPTY]) == "a list of 2 numbers"
    assert describe_rules(Fraction) == "at least 0 and at most 1"
    assert describe_rules(Annotated[int, at_most(2**32 - 1)]) == "at most 4294967295"
    assert describe_rules(float) == ""
    three = Annotated[tuple[int, ...], IS_NOT_EMPTY, at_least(1), at_most(9)]
    assert describe_rules(three) == "one or more numbers, at least 1 and at most 9"


def test_messages_are_one_short_line():
    for value in ("x" * 10_000, [1] * 10_000, 10**5000, _deep(100_000)):
        assert len(brief(value)) <= 120
    message = refusal(require, False, "a\nb" * 1000, "\r\n\u2028", "c\x00d" * 1000)
    assert len(message) < 400 and message.isprintable()


def _deep(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "number", "count"),
    [
        (0, True, True),
        (2**63 - 1, True, True),
        (2**63, True, False),
        (-1, True, False),
        (1.5, True, False),
        (np.float32(2.0), True, False),
        (True, False, False),
        (math.nan, False, False),
        (math.inf, False, False),
        (10**400, False, False),
        ("1", False, False),
        (None, False, False),
    ],
)
def test_what_is_a_number_and_what_a_count(value, number, count):
    assert (is_number(value), is_nonnegative_int(value)) == (number, count)


def test_only_text_that_can_be_shown_is_kept():
    assert not is_printable_text(5)
    for text in ("a\x00", "\x1f", "a\nb", "\x7f", "\x9f", "\ud800", "\udfff"):
        assert not is_printable_text(text)
        with pytest.raises(ConfigError, match=r"must be text without control characters$"):
            Settings(name=text)
    for text in ("", " ", "~", "\xa0", "\ud7ff", "\ue000", "\U0001f6a2"):
        assert is_printable_text(text) and Settings(name=text).name == text


@pytest.mark.parametrize(("name", "largest", "words"), [("count", 2**53, "9.0072e+15"), ("free", 1e30, "1e+30")])
def test_numbers_that_are_too_large_are_refused(name, largest, words):
    assert getattr(Settings(**{name: largest}), name) == largest
    for sign, allowed in ((1, f"at most {words}"), (-1, f"at least -{words}")):
        assert refusal(Settings, **{name: sign * (largest + largest // 1000)}).endswith(f"must be {allowed}")
