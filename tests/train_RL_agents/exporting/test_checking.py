"""Files and outputs of other programs against the examples of a contract."""

import copy
import json
import re
from pathlib import Path

import pytest
import torch

from marinenav_env import ConfigError
from tests.train_RL_agents.exporting.test_export import make_policy
from train_RL_agents.agents import AGENTS
from train_RL_agents.exporting.checking import check_file
from train_RL_agents.exporting.export import CONTRACT_FILE, NUM_EXAMPLES, export
from train_RL_agents.exporting.torchscript import file_name


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dqn")
    policy = make_policy("DQN")
    return policy, folder / file_name("DQN"), export(policy, folder, ["torchscript"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["IQN", "SAC", "PPO"])
def test_exported_files_reproduce_the_examples(name, tmp_path):
    export(make_policy(name), tmp_path, ["torchscript"])
    count, difference = check_file(tmp_path / file_name(name))
    assert count == NUM_EXAMPLES == 16
    assert difference < 1e-7


@pytest.mark.parametrize("name", AGENTS)
def test_a_runtime_in_float32_is_within_the_tolerance(name, tmp_path):
    policy = make_policy(name)
    written = export(policy, tmp_path, [])["examples"]
    inputs = {key: torch.tensor(each) for key, each in written["inputs"].items()}
    taus = {"taus": inputs.pop("taus")} if "taus" in inputs else {}
    agent = copy.deepcopy(policy.agent).float()
    with torch.no_grad():
        outputs = agent.outputs(inputs, **taus)
    outputs = {
        "outputs": {key: each.tolist() for key, each in outputs.items()},
        "action": agent.select(outputs).tolist(),
    }
    (tmp_path / "mine.json").write_text(json.dumps(outputs))
    assert 0.0 < check_file(tmp_path / "mine.json")[1] < 1e-5


def test_examples_are_the_outputs_and_actions_of_the_agent(exported):
    policy, _, written = exported
    examples = written["examples"]
    inputs = {key: torch.tensor(each, dtype=torch.float64) for key, each in examples["inputs"].items()}
    agent = copy.deepcopy(policy.agent).double()
    assert examples["action"] == agent.act(inputs).tolist()
    expected = agent.outputs(inputs)["values"]
    got = torch.tensor(examples["outputs"]["values"], dtype=torch.float64)
    torch.testing.assert_close(got, expected, rtol=0.0, atol=1e-7)
    assert (inputs["objects_state"][1:] != 0.0).any()


def test_contract_stays_short_lines_but_for_its_examples(exported):
    lines = (exported[1].parent / CONTRACT_FILE).read_text().splitlines()
    assert [len(line) > 2000 for line in lines].count(True) == 1
    assert lines[-2].startswith('  "examples": {')


def test_a_damaged_file_is_refused_before_it_is_read(exported, tmp_path, monkeypatch):
    """torch may crash at such a file."""
    _, whole, contract = exported
    content = bytearray(whole.read_bytes())
    content[len(content) // 2] ^= 1
    path = tmp_path / whole.name
    path.write_bytes(content)
    (tmp_path / CONTRACT_FILE).write_text(json.dumps(contract))
    monkeypatch.setattr("train_RL_agents.exporting.checking.SandboxedNetwork", None)
    with pytest.raises(ConfigError, match=r"damaged, or not the file that contract\.json describes"):
        check_file(path)
    path.unlink()
    with pytest.raises(ConfigError, match="cannot be read as an exported file"):
        check_file(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda each: each.update(tolerance=1e308), "a tolerance of 1e"),
        (lambda each: each.update(tolerance=0), "a tolerance of 0"),
        (
            lambda each: (
                [
                    part.update({name: [] for name in part})
                    for part in (each["inputs"], each["outputs"], each)
                    if part is not each
                ]
                and each.update(action=[])
            ),
            "not 1 to 100 examples",
        ),
    ],
    ids=["wide", "none", "no examples"],
)
def test_examples_that_say_nothing_are_refused(change, words, exported, tmp_path):
    contract = json.loads(json.dumps(exported[2]))
    change(contract["examples"])
    (tmp_path / CONTRACT_FILE).write_text(json.dumps(contract))
    (tmp_path / exported[1].name).write_bytes(exported[1].read_bytes())
    with pytest.raises(ConfigError, match=words):
        check_file(tmp_path / exported[1].name)


def test_a_file_that_is_not_there_is_named(exported, tmp_path):
    for missing in (tmp_path / "no.pt2", tmp_path / "no.json", tmp_path):
        with pytest.raises(ConfigError, match=f"^{re.escape(str(missing))}: cannot be read as an"):
            check_file(missing)
    alone = tmp_path / exported[1].name
    alone.write_bytes(exported[1].read_bytes())
    with pytest.raises(ConfigError, match=r"must be beside the contract.json"):
        check_file(alone)


@pytest.mark.parametrize("name", [".", ".."])
def test_folders_without_a_name_are_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"^\.*: cannot be read as an exported file"):
        check_file(Path(name))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda each: each["outputs"]["values"][3].__setitem__(4, 1e3), "values differs"),
        (lambda each: each["outputs"]["values"][3].__setitem__(4, float("nan")), "values differs"),
        (lambda each: each["action"].__setitem__(0, 26), "selected_action differs"),
        (lambda each: each["outputs"]["values"].pop(), "has the shape [15, 25]"),
        (lambda each: each["outputs"]["values"][3].pop(), "needs outputs, with numbers for each"),
        (lambda each: each.pop("outputs"), "needs outputs, with numbers for each of values"),
    ],
    ids=["other", "nan", "action", "fewer", "ragged", "none"],
)
def test_other_outputs_are_refused(change, words, exported, tmp_path):
    outputs = json.loads(json.dumps(exported[2]["examples"]))
    (tmp_path / CONTRACT_FILE).write_text(json.dumps(exported[2]))
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(outputs))
    assert check_file(path)[1] == 0.0
    change(outputs)
    path.write_text(json.dumps(outputs))
    with pytest.raises(ValueError, match=r"mine\.json") as refusal:
        check_file(path)
    assert words in str(refusal.value)
