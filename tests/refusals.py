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
