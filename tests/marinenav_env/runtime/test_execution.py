"""Settings of how functions are run."""

from typing import Any

import pytest

from marinenav_env import ConfigError
from marinenav_env.runtime.execution import Execution


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"device": 0}, r"^execution\.device=0: must be text$"),
        ({"threads": -1}, r"^execution\.threads=-1: must be at least 0 and at most 1024$"),
        ({"compile": "yes"}, r"^execution\.compile='yes': must be true or false$"),
    ],
)
def test_what_cannot_be_used_is_refused_by_its_setting(setting: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Execution(**setting)
