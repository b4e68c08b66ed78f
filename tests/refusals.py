"""What the refusals of all parts have in common."""

from collections.abc import Callable
from typing import Any

import pytest

from marinenav_env import ConfigError


def refusal(function: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """The sentence of one line with which a call is refused."""
    with pytest.raises(ConfigError) as caught:
        function(*arguments, **options)
    message = str(caught.value)
    assert len(message.splitlines()) == 1 and "\x1b" not in message
    return message


GONE = object()
"""In place of a value: none at all."""


def changed(tree: Any, place: str, value: Any) -> Any:
    """Nested dicts and lists with another value at a place such as ``a/0/b``: a given one, or what a function makes."""
    step, _, rest = place.partition("/")
    tree, key = tree.copy(), int(step) if step.isdecimal() else step
    now = tree.get(key) if isinstance(tree, dict) else tree[key]
    if rest:
        value = changed(now, rest, value)
    tree[key] = value(now) if callable(value) else value
    if tree[key] is GONE:
        del tree[key]
    return tree
