"""Errors in words."""

import pytest

from train_RL_agents.utils.errors import first_line


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("plain", "plain"),
        ("\n  first \nframe #0", "first "),
        ("", "RuntimeError"),
    ],
)
def test_only_the_first_line_is_told(message, expected):
    assert first_line(RuntimeError(message)) == expected
