"""Entries of the benchmark: written, read again, and refused where they are damaged."""

import json

import pytest
import torch

from marinenav_env import ConfigError
from tests.train_RL_agents.entries import entry, result
from train_RL_agents.evaluation.entry import BENCHMARK, read_entry


def written(path, change=lambda content: None):
    content = json.loads(entry().content())
    change(content)
    path.write_text(json.dumps(content))
    return path


def test_entry_is_read_as_it_was_written(tmp_path):
    read = read_entry(written(tmp_path / "a.json"))
    assert read == entry() and read.content() == entry().content()


def test_episodes_give_the_figures_that_they_had():
    own = result("ssct", ("a", "b"))
    table = own.episodes.table(own.groups)
    assert table["overall"]["success_rate"] == 0.5 and table["b"]["success_rate"] == 0.5
    assert table["b"]["timeout_rate"] == 0.5 and table["a"]["collision_rate"] == 0.5
    assert table["overall"]["robot_success_rate"] == 0.75
    assert table["overall"]["avg_time"] == 20.25
    assert torch.equal(own.episodes.level, torch.tensor([0, 1, 0, 1]))


def change(*keys, value):
    def changed(content):
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return changed


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (change("format", value="other"), "must be a marinenav entry"),
        (change("benchmark", value=BENCHMARK - 1), "benchmark=1: must be 2"),
        (change("suites", "currents", "outcome", value="ssc"), "level=4: must be as long as"),
        (change("suites", "currents", "outcome", value="ssc?"), "must be letters of sct"),
        (change("suites", "currents", "level", value=[0, 0, 0, 1]), "numbers of all groups"),
        (change("suites", "currents", "arrived", value=[3, 2, 2, 2]), "at most the number"),
        (change("suites", "currents", "astern", value=1.5), "astern=1.5"),
        (change("suites", "currents", "scenarios", value="x"), "32 hexadecimal digits"),
        (change("suites", "currents", "conduct", value={"all": {}}), "conduct"),
        (change("suites", "imazu", "conduct", "case 1", "safety", value="x"), "conduct"),
        (change("suites", "imazu", "conduct", "case 1", "safety", value=-1), "conduct"),
        (change("suites", "imazu", "conduct", "case 1", "all_kept_low", value=None), "conduct"),
        (change("suites", "imazu", "duties", value={"give-way": [5, 4]}), "duties"),
        (change("suites", "imazu", "tracks", value=[[[0.0]], [[0, 1]]]), "tracks"),
        (change("suites", "imazu", "more", value=1), "damaged"),
        (change("suites", value=[]), "damaged"),
        (change("policy", value={"name": "x"}), "policy.agent"),
        (change("policy", "name", value=["x"]), "texts, numbers and null"),
        (change("policy", "name", value=None), "policy.name=None: must be text"),
    ],
)
def test_damaged_entries_are_refused_in_a_sentence(tmp_path, damage, sentence):
    path = written(tmp_path / "a.json", damage)
    with pytest.raises(ConfigError, match=sentence) as error:
        read_entry(path)
    assert str(error.value).startswith(str(path))
