"""Interfaces say which extra they need."""

import sys
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    ("module", "package", "message"),
    [
        ("pettingzoo_env", "pettingzoo", r"needs PettingZoo; install it with: pip install 'marinenav\[pettingzoo\]'$"),
        ("benchmarl_task", "benchmarl", "needs BenchMARL; install it with: pip install benchmarl$"),
        ("sb3_vec_env", "stable_baselines3", r"needs stable-baselines3; .*pip install 'marinenav\[sb3\]'$"),
    ],
)
def test_without_the_package_the_module_says_what_to_install(monkeypatch, module, package, message):
    module = f"marinenav_env.interfaces.{module}"
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"^{module} {message}"):
        import_module(module)
