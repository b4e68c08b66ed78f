"""Entries of the benchmark: written, read again, and refused where they are damaged."""

import json
from dataclasses import asdict, replace

import pytest
import torch

from marinenav_env import ConfigError
from tests.train_RL_agents.entries import by_role, entry, result
from train_RL_agents.evaluation.entry import BENCHMARK_VERSION, SuiteResult, read_entry
from train_RL_agents.evaluation.tables import RULES_COLUMNS, UNRULY_COLUMNS


def written(path, change=lambda content: None):
    content = json.loads(entry().to_json())
    change(content)
    path.write_text(json.dumps(content))
    return path


def test_entry_is_read_as_it_was_written(tmp_path):
    read = read_entry(written(tmp_path / "a.json"))
    assert read == entry() and read.to_json() == entry().to_json()


def test_episodes_give_the_metrics_that_they_had():
    own = result("ssct", ("a", "b"))
    table = own.episodes.table(own.groups)
    assert table["overall"]["success_rate"] == 0.5 and table["b"]["success_rate"] == 0.5
    assert table["b"]["timeout_rate"] == 0.5 and table["a"]["collision_rate"] == 0.5
    assert table["overall"]["robot_success_rate"] == 0.75
    assert table["overall"]["avg_time"] == 20.25
    assert torch.equal(own.episodes.level, torch.tensor([0, 1, 0, 1]))


def test_numbers_of_episodes_are_rounded():
    """Travel time and return to hundredths, energy to newton seconds."""
    own = result("s")
    exact = replace(
        own.episodes, time=torch.tensor([20.256]), energy=torch.tensor([2999.6]), returns=torch.tensor([11.504])
    )
    found = SuiteResult.from_episodes(
        exact, scenarios=own.scenarios, seed=1, groups=("all",), astern=0.0, compliance={}
    )
    assert (found.time, found.energy, found.returns) == ((20.26,), (3000,), (11.5,))


def test_extreme_results_are_entries_too():
    """A vessel alone that does not arrive; tracks to the edge; metrics that are no shares."""
    found = result("c")
    assert replace(found, robots=(1,), arrived=(0,), astern=1.0).robots == (1,)
    assert replace(found, tracks=(((1e4, -1e4),),)).tracks == (((1e4, -1e4),),)
    row = by_role(())["overall"] | {"delay": 40.0, "detour": -0.1, "safety": 1.0, "early": 0.0}
    row |= dict.fromkeys(("all_kept", "all_kept_low", "all_kept_high"))
    assert replace(found, compliance={"all": row}).compliance["all"]["delay"] == 40.0
    row = dict.fromkeys(RULES_COLUMNS, 0.5) | {"closest_approach": 9.0}
    assert replace(found, compliance={"overall": row}).compliance["overall"] == row


def test_a_situation_is_clear_if_no_episode_of_it_has_a_collision():
    assert replace(result("sstcss"), situations=(0, 0, 1, 2, 2, 3)).clear_situations == (3, 4)
    assert result("c").clear_situations is None


def test_suites_of_vessels_that_misbehave_have_metrics_of_their_own():
    row = dict.fromkeys(UNRULY_COLUMNS, 0.5) | {"avoided_low": 0.25, "avoided_high": 0.75}
    assert replace(result("c"), compliance={"overall": row}).estimates()["avoided"] == (0.5, 0.25, 0.75)


def test_baselines_have_no_file():
    own = entry()
    policy = own.policy | {"sha256": None, "env_steps": None}
    assert replace(own, policy=policy).policy["sha256"] is None


def test_other_content_is_refused(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("[1]")
    with pytest.raises(ConfigError, match=r"list.*: must be a marinenav entry"):
        read_entry(path)


EMPTY = dict.fromkeys(("level", "robots", "arrived", "time", "energy", "returns", "groups"), ())


def without(content):
    del content["suites"]["imazu"]["conduct"]["case 1"]["safety"]


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
        (change("benchmark", value=BENCHMARK_VERSION - 1), "benchmark=3: must be 4.*run `marinenav submit`"),
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
        (change("suites", "imazu", "tracks", value=[[[10_001.0, 0]], [[0, 1]]]), "tracks"),
        (change("suites", "imazu", "tracks", value=[[[0, -10_001.0]], [[0, 1]]]), "tracks"),
        (change("suites", "imazu", "tracks", value=[[[0, 1]]]), "tracks"),
        (change("suites", "imazu", "tracks", value=[[], [[0, 1]]]), "tracks"),
        (change("suites", "imazu", "tracks", value=[[[]], [[0, 1]]]), "tracks"),
        (change("suites", "imazu", "tracks", value=[[[0, 1], [0]], [[0, 1]]]), "tracks"),
        (
            change("suites", "currents", value=asdict(result("s")) | EMPTY | {"outcome": ""}),
            "level=0: must be as long",
        ),
        (change("suites", "currents", "situations", value=[0]), "situations=1: must be none, or 4"),
        (change("suites", "currents", "robots", value=[2, 2, 2, 0]), "at most the number"),
        (without, "conduct"),
        (change("suites", "imazu", "conduct", "case 1", value=7), "figures of all groups"),
        (change("suites", "imazu", "conduct", "case 1", "safety", value=1.2), "conduct"),
        (change("suites", "imazu", "conduct", "case 3", value={}), "conduct"),
        (change("suites", "imazu", "duties", value={"give-way": [1, 2, 3]}), "duties"),
        (change("suites", "imazu", "duties", value={"give-way": [-1, 4]}), "duties"),
        (change("suites", "imazu", "duties", value={"on watch": [3, 4]}), "duties"),
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
