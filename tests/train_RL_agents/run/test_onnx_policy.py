"""ONNX files, evaluated as the policies that they were made of."""

import json
import re
from dataclasses import replace

import pytest
import torch

from marinenav_env import ConfigError, WorldConfig
from tests.refusals import refusal
from tests.train_RL_agents.exporting.helpers import make_policy, require_onnx
from train_RL_agents.evaluation.judging.policies import (
    ActingOptions,
    EvaluatedPolicy,
    find_evaluated,
    require_effect,
    run_set,
)
from train_RL_agents.evaluation.suites.suites import make_scenario_set
from train_RL_agents.exporting.export import export
from train_RL_agents.run.checkpoint import load_policy
from train_RL_agents.run.onnx_policy import load_onnx_policy

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def iqn(tmp_path_factory):
    """A policy and its ONNX file."""
    require_onnx()
    policy, folder = make_policy("IQN"), tmp_path_factory.mktemp("iqn")
    export(policy, folder, ["onnx"])
    return policy, folder / "IQN.onnx"


@pytest.fixture
def copied(iqn, tmp_path):
    """The file beside its contract, in a folder of the test's own; and the contract's content."""
    for path in (iqn[1], iqn[1].parent / "contract.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path / "IQN.onnx", json.loads((tmp_path / "contract.json").read_text())


def steers_alike(policy, file):
    """A file and its policy steer vessels alike, and score actions alike."""
    world = replace(policy.config.world, max_steps=6)
    chosen = make_scenario_set("rules", world, 1, 3)
    found = find_evaluated(str(file), "best", CPU)
    (one, own), (other, seen) = [
        run_set(each, chosen, world, ActingOptions(estimates=True), CPU, "x")
        for each in (EvaluatedPolicy.from_loaded(policy), found)
    ]
    torch.testing.assert_close(own.poses, seen.poses, rtol=0.0, atol=1e-3)
    assert torch.allclose(one.returns, other.returns, atol=1e-3)
    if own.scores is not None and own.quantiles is None:
        torch.testing.assert_close(own.scores, seen.scores, rtol=1e-3, atol=1e-3)
    assert found.label == f"{policy.config.agent_type} after 7 env-steps"


def test_a_file_steers_as_its_policy(iqn):
    steers_alike(*iqn)
    loaded, chosen = load_onnx_policy(iqn[1]), make_scenario_set("rules", WorldConfig(max_steps=6), 1, 3)
    evaluated = EvaluatedPolicy.from_loaded(loaded)
    with pytest.raises(ConfigError, match="left out for an ONNX file"):
        run_set(evaluated, chosen, WorldConfig(max_steps=6), ActingOptions(risk=0.5), CPU)
    for option, message in (
        ({"risk": 0.5}, "takes no risk level"),
        ({"stochastic": True}, "acts the same while training"),
    ):
        with pytest.raises(ConfigError, match=f"left out: it {message}"):
            require_effect({"it": evaluated}, **option)
    with pytest.raises(ConfigError, match="ONNX files are for evaluate, play and falsify"):
        load_policy(iqn[1])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), [("PPO", torch.float64), ("SAC", torch.float32), ("DQN", torch.float32)])
def test_files_of_other_agents_steer_as_their_policies(name, dtype, tmp_path):
    require_onnx()
    memory = {"PPO": {"agent.memory.kind": "gru"}, "SAC": {"agent.memory.kind": "frames"}}.get(name, {})
    policy = make_policy(name, **memory, **{"world.sensor.duties": True, "world.scenario.shore_segments": 16})
    export(policy, tmp_path, ["onnx"], dtype)
    steers_alike(policy, tmp_path / f"{name}.onnx")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda each: each.pop("config"), r"contract\.json: damaged, or not a contract \('config'\)"),
        (lambda each: each.update(version=2), r"contract\.json: damaged, .* \(of another version\); export again"),
        (lambda each: each["config"].update(env={"name": "x:Y"}), "does not say what the policy observes|x:Y"),
        (lambda each: each["files"]["onnx"].update(sha256="0"), r"damaged, or not the file that contract\.json"),
        (lambda each: each["examples"]["action"].__setitem__(0, 26), "the actions of the examples of contract"),
        (lambda each: each["examples"]["action"].pop(), "does not fit the examples"),
        (lambda each: each["examples"].update(tolerance=1e9, action=16 * [26]), "the actions of the examples"),
    ],
)
def test_contracts_that_do_not_fit_are_refused(change, words, copied):
    path, contract = copied
    change(contract)
    (path.parent / "contract.json").write_text(json.dumps(contract))
    assert re.search(words, refusal(load_onnx_policy, path))


def test_files_that_are_not_what_was_exported_are_refused(copied):
    path, contract = copied
    whole = path.read_bytes()
    other = path.with_name("other.onnx")  # of which the contract has no hash
    for content, words in ((whole[:1000], "cannot be loaded"), (b"", "cannot be loaded")):
        other.write_bytes(content)
        assert re.search(words, refusal(load_onnx_policy, other))
    other.write_bytes(whole)
    assert load_onnx_policy(other).env_steps == contract["env_steps"]
    path.write_bytes(whole[:-1])
    with pytest.raises(ConfigError, match="damaged, or not the file"):
        load_onnx_policy(path)
    missing = path.with_name("no.onnx")
    with pytest.raises(ConfigError, match=f"^{re.escape(str(missing))}: cannot be read as an ONNX policy"):
        load_onnx_policy(missing)
    (path.parent / "contract.json").unlink()
    with pytest.raises(ConfigError, match=r"must be beside the contract\.json"):
        load_onnx_policy(path)
