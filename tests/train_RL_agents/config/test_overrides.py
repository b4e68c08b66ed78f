"""Settings on the command line."""

import pytest

from marinenav_env import ConfigError
from train_RL_agents.config.overrides import CommandLineValue, flatten_overrides


def test_a_word_has_a_key_and_a_value():
    assert flatten_overrides([" save_dir = a=b ", "seed=1", "seed=2"]) == {"save_dir": "a=b", "seed": "2"}
    for word in ("save_dir", "=3", ""):
        with pytest.raises(ConfigError, match="must be key=value, as in"):
            flatten_overrides([word])


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("5", str, "5"),
        ('"my runs"', str, "my runs"),
        ("null", str, None),
        ("5", int, 5),
        ("1,2", tuple[int, ...], [1, 2]),
        ("True", bool, True),
        ("", tuple[float, ...], []),
        ('{"like": "crossing"}', tuple[object, ...], {"like": "crossing"}),
        ("a, b", tuple[str, ...], ["a", "b"]),
        ("big", int, "big"),
    ],
)
def test_a_value_is_json_or_nearly_so(text, kind, value):
    assert CommandLineValue(text).parse(kind) == value


def test_numbers_with_a_letter_are_written_in_full():
    assert CommandLineValue("2k").spelled_out_hint(int) == "; did you mean 2000?"
    assert CommandLineValue("2k").spelled_out_hint(bool) == CommandLineValue("k").spelled_out_hint(int) == ""
