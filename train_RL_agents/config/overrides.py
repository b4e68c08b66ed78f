"""Settings on the command line: ``key=value``, and what a value stands for."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from typing import Any

from marinenav_env.support.validation import ConfigError, bare, brief, members_of

_PYTHON = {"True": True, "False": False}


def split(text: str) -> tuple[str, str]:
    """Return the key and the value of a ``key=value`` argument."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"{brief(text)}: must be key=value, as in trainer.batch_size=512")
    return key.strip(), value.strip()


def read_word(text: str, annotation: Any) -> Any:
    """Convert a value of the command line to one of JSON.

    Text where the setting is text; else JSON, a list without its brackets, or a number or truth
    value as Python writes it; else text, or a list of texts where the setting is one.
    """
    readers: list[Callable[[str], Any]] = [json.loads, _read_list]
    texts = annotation == tuple[str, ...]
    readers += [_read_texts] if texts else [_PYTHON.__getitem__, int, float]
    for read in () if annotation is str else readers:
        with contextlib.suppress(ValueError, KeyError, RecursionError):
            return read(text)
    return text


_THOUSANDS = {"k": 1_000, "m": 1_000_000}
"""Letters that stand for a factor in other programs."""


def in_full(text: str, annotation: Any) -> str:
    """Return a hint at the number that a text such as 100k stands for where one is due."""
    number, letter = text[:-1], text[-1:].lower()
    due = {int, float} & {bare(each) for each in members_of(bare(annotation))}
    if not due or letter not in _THOUSANDS or not re.fullmatch(r"\d+(\.\d+)?", number):
        return ""
    return f"; did you mean {float(number) * _THOUSANDS[letter]:.15g}?"


def _read_list(text: str) -> Any:
    return json.loads(f"[{text}]")


def _read_texts(text: str) -> list[str]:
    return [each.strip() for each in text.removeprefix("[").removesuffix("]").split(",")]
