"""Packages that only some commands need."""

import json
import sys

import pytest

from marinenav_env import ConfigError
from marinenav_env.support.extras import import_optional


def test_what_is_installed_is_imported():
    assert import_optional("json", "tune") is json


def test_what_is_not_is_told_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError) as caught:
        import_optional("ray.util", "ray")
    assert str(caught.value) == ("ray is not installed, and this needs it: pip install 'marinenav[ray]'")
