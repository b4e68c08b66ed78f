"""Exported files, evaluated as the policies that they were made of."""

import json

import pytest
import torch

from marinenav_env import ConfigError, WorldConfig
from tests.train_RL_agents.exporting.test_export import make_policy
from train_RL_agents.evaluation.contenders import ActingOptions, Contender, run_set
from train_RL_agents.evaluation.scoring import evaluate_built_in
from train_RL_agents.evaluation.suites import make_scenario_set
from train_RL_agents.exporting.export import CONTRACT_FILE, export
from train_RL_agents.exporting.exported import find_contender
from train_RL_agents.exporting.torchscript import file_name

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", ["IQN", pytest.param("PPO", marks=pytest.mark.slow)])
def test_a_file_steers_as_its_policy(name, tmp_path):
    policy = make_policy(name)
    export(policy, tmp_path, ["torchscript"])
    found = find_contender(str(tmp_path / file_name(name)), "best", CPU)
    world = WorldConfig(max_steps=6)
    chosen = make_scenario_set("rules", world, 1, 3)
    runs = [
        run_set(each, chosen, world, ActingOptions(estimates=True), CPU, "x")
        for each in (Contender.from_loaded(policy), found)
    ]
    torch.testing.assert_close(runs[0][1].poses, runs[1][1].poses, rtol=0.0, atol=1e-3)
    assert torch.allclose(runs[0][0].returns, runs[1][0].returns, atol=1e-3)
    with pytest.raises(ConfigError, match="left out for an exported file"):
        run_set(found, chosen, world, ActingOptions(risk=0.5), CPU)
    for option, message in (
        ({"risk": 0.5}, "takes no risk level"),
        ({"stochastic": True}, "acts the same while training"),
    ):
        with pytest.raises(ConfigError, match=f"left out: exported {message}"):
            evaluate_built_in({"exported": found}, option, CPU)


def test_other_files_are_found_as_ever(tmp_path):
    assert find_contender("apf", "best", CPU) == Contender("apf")
    with pytest.raises(ConfigError, match="no such run folder or policy file"):
        find_contender(str(tmp_path / "none"), "best", CPU)
    with pytest.raises(ConfigError):
        find_contender(".", "best", CPU)


def test_a_contract_without_settings_is_refused(tmp_path):
    export(make_policy("DQN"), tmp_path, ["torchscript"])
    contract = json.loads((tmp_path / CONTRACT_FILE).read_text())
    del contract["config"]
    (tmp_path / CONTRACT_FILE).write_text(json.dumps(contract))
    with pytest.raises(ConfigError, match="export it again"):
        find_contender(str(tmp_path / file_name("DQN")), "best", CPU)


def test_a_contract_of_a_larger_agent_is_refused_before_it_is_made(tmp_path):
    export(make_policy("DQN"), tmp_path, ["torchscript"])
    contract = json.loads((tmp_path / CONTRACT_FILE).read_text())
    contract["config"]["agent"]["hidden_sizes"] = [4096] * 100
    (tmp_path / CONTRACT_FILE).write_text(json.dumps(contract))
    with pytest.raises(ConfigError, match=r"contract\.json: config\.agent=.* bytes'?: must be that of"):
        find_contender(str(tmp_path / file_name("DQN")), "best", CPU)
