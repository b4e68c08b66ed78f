"""Import paths of before there were rooms."""

import pickle
from importlib import import_module

import pytest

from marinenav_env.moved import ROOMS


@pytest.mark.parametrize("name", sorted(ROOMS))
def test_a_documented_path_gives_the_module_where_it_is_now(name):
    optional = {"benchmarl_task": "benchmarl", "sb3_vec_env": "stable_baselines3", "pettingzoo_env": "pettingzoo"}
    if name in optional:
        pytest.importorskip(optional[name])
    before, now = (import_module(f"marinenav_env.{each}") for each in (name, f"{ROOMS[name]}.{name}"))
    assert before is now
    assert now.__spec__.name == now.__name__ == f"marinenav_env.{ROOMS[name]}.{name}"


def test_names_imported_by_a_path_of_before_are_the_same():
    from marinenav_env.support import validation
    from marinenav_env.validation import ConfigError

    assert ConfigError is validation.ConfigError
    assert pickle.loads(pickle.dumps(ConfigError)) is ConfigError
