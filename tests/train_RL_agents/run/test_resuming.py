"""Which settings may change when a run goes on."""

import pytest

from tests.train_RL_agents.tiny_runs import TINY
from train_RL_agents.config.overrides import flatten
from train_RL_agents.config.reading import from_dict, to_dict
from train_RL_agents.run.resuming import RESUMABLE_SETTINGS, list_changes


def settings(**others):
    return flatten(to_dict(from_dict(TINY | others)))


def test_changes_are_told_in_order_with_both_values():
    changed = settings(**{"trainer.gamma": 0.9, "save_dir": "elsewhere", "agent.critics": 1})
    del changed["world.dt"]
    assert list_changes(settings(), changed) == [
        "agent.critics=1 (was 2)",
        "trainer.gamma=0.9 (was 0.99)",
        "world.dt=None (was 0.25)",
    ]


@pytest.mark.parametrize("key", [*RESUMABLE_SETTINGS, "save_dir", "load_model"])
def test_some_settings_may_change(key):
    before = settings()
    assert key in before
    assert list_changes(before, before | {key: object()}) == []


def test_all_others_may_not():
    before = settings()
    free = {*RESUMABLE_SETTINGS, "save_dir", "load_model"}
    assert before.keys() > free
    changed = list_changes(before, dict.fromkeys(before, "another"))
    assert len(changed) == len(before) - len(free)
