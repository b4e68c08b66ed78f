"""Evaluations in environments of others."""

from dataclasses import replace

import pytest
import torch

from marinenav_env import ConfigError
from marinenav_env.support import plugins
from tests.train_RL_agents.environments.helpers import Chase
from train_RL_agents.agents import AGENTS
from train_RL_agents.config.reading import from_dict
from train_RL_agents.environments.episodes import run_episodes
from train_RL_agents.environments.external import ExternalEnvironment
from train_RL_agents.environments.group_env import GroupEnv
from train_RL_agents.environments.scoring import evaluate_all, shared_environment
from train_RL_agents.evaluation.judging.policies import EvaluatedPolicy
from train_RL_agents.networks.observation import ObservationSpec
from train_RL_agents.policy_wrapper import PolicyWrapper
from train_RL_agents.run.checkpoint import LoadedPolicy

CPU = torch.device("cpu")
NAME = "tests.train_RL_agents.environments.helpers:Chase"


def evaluated(tmp_path, agent_type="AC-IQN", seed=0, *words):
    plugins.allow(NAME)
    config = from_dict(
        {"agent_type": agent_type}, [f"env.name={NAME}", "env.max_steps=5", "env.options=tells=success", *words]
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        agent = AGENTS[agent_type](config.agent, 0, ExternalEnvironment(config).spec)
    return EvaluatedPolicy.from_loaded(LoadedPolicy(agent.eval(), config, tmp_path / "policy.pt", 10, {}))


def test_every_environment_runs_its_share_of_the_episodes():
    env = GroupEnv(Chase(3, CPU, 0), "chase", 4)
    agent = policy_agent(env)
    table = run_episodes(PolicyWrapper(agent), env, 7, 3)
    assert len(table["returns"]) == 7 and (table["length"] == 4.0).all() and "success" not in table
    again = run_episodes(PolicyWrapper(agent), env, 7, 3)
    assert torch.equal(table["returns"], again["returns"])
    other = run_episodes(PolicyWrapper(agent), env, 7, 4)
    assert not torch.equal(table["returns"], other["returns"])


def policy_agent(env):
    return AGENTS["DDPG"](AGENTS["DDPG"].config_type(), 0, ObservationSpec(env.entries, action_size=2)).eval()


def test_policies_are_compared_on_the_same_episodes(tmp_path, capsys):
    first, second = evaluated(tmp_path), evaluated(tmp_path, "SAC", 1)
    evaluation = evaluate_all({"a": first, "b": second, "c": first}, {"episodes": 6, "seed": 2}, CPU)
    one, two, three = (result.overall for result in evaluation.results)
    assert one == three and one != two and one["episodes"] == 6
    evaluation.show()
    shown = capsys.readouterr().out
    assert NAME in shown and "return" in shown and "success" in shown
    content = evaluation.content()
    assert content["setting"]["env"]["name"] == NAME and set(content["columns"]) == {"success", "return", "length"}
    assert "success" in repr(evaluation)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"suite": "fresh"}, "--suite"),
        ({"levels": (1,)}, "--levels"),
        ({"scenarios": "a.json"}, "--scenarios"),
        ({"record": "a.npz"}, "--record"),
        ({"stochastic": True}, "--stochastic"),
        ({"seed": -1}, "--seed"),
    ],
)
def test_options_of_the_built_in_environment_are_refused(options, says, tmp_path):
    with pytest.raises(ConfigError, match=says):
        evaluate_all({"a": evaluated(tmp_path)}, options, CPU)


def test_policies_of_different_environments_or_blind_ones_are_refused(tmp_path):
    found = evaluated(tmp_path)
    for name, other, says in (
        ("blind:a", replace(found, is_blind=True), "objects only as such"),
        ("b", evaluated(tmp_path, "AC-IQN", 0, "env.max_steps=6"), "to be compared"),
        ("orca", EvaluatedPolicy("orca"), "to be compared"),
    ):
        with pytest.raises(ConfigError, match=says):
            evaluate_all({"a": found, name: other}, {}, CPU)


def test_policies_may_have_been_trained_with_other_limits_and_processes(tmp_path):
    words = ("env.timeout=9", "env.parallel=true", "env.eval_episodes=3")
    policies = {"a": evaluated(tmp_path), "b": evaluated(tmp_path, "AC-IQN", 0, *words)}
    assert shared_environment(policies).eval_episodes == 100


def test_an_evaluation_whose_episodes_never_end_gives_up(monkeypatch):
    monkeypatch.setattr("train_RL_agents.environments.episodes.MAX_STEPS_WITHOUT_END", 20)
    env = GroupEnv(Chase(2, CPU, 0), "chase")
    with pytest.raises(ConfigError, match="no episode of chase ends"):
        run_episodes(PolicyWrapper(policy_agent(env)), env, 2, 0)


def test_trainings_and_evaluations_have_different_episodes(tmp_path):
    found = evaluated(tmp_path).trained
    trained = ExternalEnvironment(found.config).make_envs(found.agent, CPU, 0, None).reset()
    env, starts, policy = GroupEnv(Chase(256, CPU, 0), "chase", 5), [], PolicyWrapper(found.agent)
    run_episodes(lambda step: starts.append(step.clone()) or policy(step), env, 256, 0)
    name = ("robots", "observation", "place")
    assert not torch.equal(trained[name][:4], starts[0][name][:4])


def test_a_risk_level_is_used(tmp_path):
    found = evaluated(tmp_path, "AC-IQN", 3)
    risky, mean = (evaluate_all({"a": found}, {"episodes": 4, "risk": risk}, CPU) for risk in (0.1, 1.0))
    assert risky.results[0].overall["avg_return"] != mean.results[0].overall["avg_return"]
