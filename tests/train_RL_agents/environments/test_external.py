"""Runs in environments of others, from training to an exported policy."""

import json
import re
from functools import partial

import pytest
import torch

from marinenav_env import ConfigError
from marinenav_env.support import plugins
from tests.refusals import refusal
from tests.train_RL_agents.exporting.helpers import require_onnx
from tests.train_RL_agents.tiny_runs import ROLLOUTS, TINY
from train_RL_agents.agents import AGENTS
from train_RL_agents.api import train
from train_RL_agents.boat.runtime import CONTRACT_FILE
from train_RL_agents.config.reading import from_dict
from train_RL_agents.environments import make_environment
from train_RL_agents.environments.external import ExternalEnvironment
from train_RL_agents.exporting.export import export
from train_RL_agents.learning.checks import DivergedError
from train_RL_agents.run.checkpoint import STATE_FILE, load_policy, save_policy
from train_RL_agents.run.onnx_policy import load_onnx_policy
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.torchrl_trainer import TorchRLTrainer, resume

CPU = torch.device("cpu")
HERE = "tests.train_RL_agents.environments.helpers"
DISCRETE = ("DQN", "IQN", "Rainbow")
slow = partial(pytest.param, marks=pytest.mark.slow)
SETTINGS = {key: TINY[key] for key in ("total_timesteps", "eval_freq", "log_freq", "execution", "trainer")}


@pytest.fixture(autouse=True)
def allowed():
    plugins.allow(*(f"{HERE}:{name}" for name in ("Chase", "Forgetful", "Alone")))


def config_of(agent="DQN", *words, name="Chase"):
    content = SETTINGS | {"agent_type": agent}
    if AGENTS[agent].algorithm == "on-policy":
        content = content | {"trainer": ROLLOUTS}
    env = [f"env.name={HERE}:{name}", "env.max_steps=6", "env.eval_episodes=3"]
    if name != "Alone":
        env.append(f"env.options=action={'categorical' if agent in DISCRETE else 'bounded'},ends=each")
    return from_dict(content, [*env, *words])


def begun(folder, *arguments, **options):
    run = RunFolder.create(config_of(*arguments, **options), 0, parent=folder)
    return TorchRLTrainer(run, quiet=True)


def weights(trainer):
    return trainer.algorithm.learner.agent.state_dict()


@pytest.mark.parametrize("agent", [name if name == "SAC" else slow(name) for name in AGENTS])
def test_every_agent_trains_evaluates_and_is_loaded_without_the_environment(agent, tmp_path):
    trainer = begun(tmp_path, agent)
    before = {name: value.clone() for name, value in weights(trainer).items()}
    trainer.train()
    assert trainer.finished and trainer.algorithm.learner.updates > 0
    assert any(not torch.equal(before[name], value) for name, value in weights(trainer).items())
    assert len(trainer.rows) == 2 and trainer.rows[-1]["avg_length"] <= 6.0
    loaded = load_policy(trainer.run.path, "latest")
    assert loaded.agent.spec == ExternalEnvironment(trainer.config).spec
    assert loaded.metrics["avg_return"] == trainer.rows[-1]["avg_return"]


def test_a_single_agent_without_a_batch_trains(tmp_path):
    trainer = begun(tmp_path, "AC-IQN", name="Alone")
    trainer.train()
    assert trainer.finished and trainer.collector.env.num_robots == 1


@pytest.mark.parametrize("words", [("DQN", "agent.memory.kind=frames"), slow(("PPO", "agent.memory.kind=gru"))])
def test_a_run_is_resumed_exactly_where_the_environment_has_a_state(words, tmp_path):
    whole = begun(tmp_path / "a", *words)
    whole.train()
    part = begun(tmp_path / "b", *words)
    part.callbacks.append(lambda trainer: trainer.stop() if trainer.env_steps >= 80 else None)
    part.train()
    assert not part.finished
    again = resume(RunFolder.open(part.run.path), quiet=True)
    again.train()
    assert again.finished
    for name, value in weights(whole).items():
        assert torch.equal(value, weights(again)[name]), name
    metrics = [{key: value for key, value in row.items() if "time" not in key} for row in whole.rows]
    assert metrics == [{key: value for key, value in row.items() if "time" not in key} for row in again.rows]


def test_episodes_restart_where_it_has_none_and_a_line_says_so(tmp_path, capsys):
    part = begun(tmp_path, "DQN", name="Forgetful")
    part.callbacks.append(lambda trainer: trainer.stop() if trainer.env_steps >= 80 else None)
    part.train()
    assert torch.load(part.run.checkpoints / STATE_FILE, weights_only=True)["world"] is None
    again = resume(RunFolder.open(part.run.path), bar=False)
    again.train()
    assert again.finished
    assert "the environment has no state to save: its episodes restart" in capsys.readouterr().out


@pytest.mark.parametrize(("breaks", "says"), [("nan", "observations"), ("reward", "reward")])
def test_numbers_that_are_not_finite_stop_the_run_with_a_sentence(breaks, says, tmp_path):
    trainer = begun(tmp_path, "AC-IQN", f"env.options=breaks={breaks}")
    with pytest.raises(DivergedError, match=says):
        trainer.train()


WORKERS = ("trainer.collector=processes", "trainer.collectors=2", "env.max_steps=0")
PARALLEL = ("env.parallel=true", "trainer.num_envs=2")


@pytest.mark.parametrize(
    ("name", "words", "breaks", "says"),
    [
        ("Chase", ("env.max_steps=0",), "raise", r"a step failed .*the winch is jammed, .*helpers\.py, line \d+\)$"),
        slow("Chase", (*WORKERS, "env.timeout=2"), "hang", "timeout=2: workers do not answer within 2 s"),
        slow("Alone", (*PARALLEL, "env.timeout=3"), "hang", r"no answer within env\.timeout, 3 s"),
        # A process that raises takes seconds to end where the machine is busy.
        slow("Alone", (*PARALLEL, "env.timeout=120"), "raise", "Alone: a step failed .*worker . dead; its own error"),
    ],
)
def test_an_environment_that_hangs_or_raises_ends_the_run_with_a_sentence(name, words, breaks, says, tmp_path):
    trainer = begun(tmp_path, "AC-IQN", *words, f"env.options=breaks={breaks}", name=name)
    assert re.search(says, refusal(trainer.train))


def test_the_plan_of_memory_counts_environments_also_in_processes():
    sizes = [
        ExternalEnvironment(config_of("AC-IQN", *words, name="Alone")).held_memory(None)[1]["environments"]
        for words in ((), ("trainer.num_envs=16",), ("env.parallel=true",))
    ]
    assert 0 < sizes[0] < sizes[1] < sizes[2]


@pytest.mark.parametrize(("action", "continuous"), [("bounded", True), ("categorical", False)])
def test_the_actions_of_ppo_follow_the_environment(action, continuous):
    agent = make_environment(config_of("PPO", f"env.options=action={action}")).make_agent(CPU)
    assert agent.continuous is continuous
    clipped = ["agent.actions=clipped_gaussian", "env.options=action=bounded"]
    assert make_environment(config_of("PPO", *clipped)).make_agent(CPU).config.actions == "clipped_gaussian"


@pytest.mark.parametrize(
    ("agent", "words", "says"),
    [
        ("DQN", ["env.options=action=bounded"], "agent_type=.DQN.: must be one of AC-IQN, DDPG, SAC, PPO, A2C, "),
        ("AC-IQN", ["env.options=action=one_hot"], "with the discrete actions of"),
        ("PPO", ["agent.actions=categorical"], "PPO, A2C, with the continuous actions of"),
    ],
)
def test_settings_that_do_not_fit_the_environment_are_refused(agent, words, says):
    assert re.search(says, refusal(lambda: make_environment(config_of(agent, *words)).make_agent(CPU)))


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["DQN", "AC-IQN", "PPO"])
def test_an_exported_policy_acts_as_the_agent(agent, tmp_path):
    require_onnx()
    trainer = begun(tmp_path, agent)
    trainer.train()
    loaded = load_policy(trainer.run.path)
    export(loaded, tmp_path / "out", ["onnx"])
    contract = json.loads((tmp_path / "out" / CONTRACT_FILE).read_text())
    assert contract["env"] == f"{HERE}:Chase" and "frames" not in contract
    found = load_onnx_policy(tmp_path / "out" / f"{agent}.onnx")
    environment = ExternalEnvironment(trainer.config)
    env = environment.make_envs(loaded.agent, CPU, 3, None)
    observation = dict(env.reset()["robots", "observation"].items())
    observation = {name: value.flatten(0, 1) for name, value in observation.items()}
    torch.testing.assert_close(found.agent.act(observation), loaded.agent.act(observation))
    del contract["spec"]
    (tmp_path / "out" / CONTRACT_FILE).write_text(json.dumps(contract))
    with pytest.raises(ConfigError, match="does not say what the policy observes"):
        load_onnx_policy(tmp_path / "out" / f"{agent}.onnx")


def test_a_policy_file_without_a_valid_specification_is_damaged(tmp_path):
    config, file = config_of("DQN"), tmp_path / "policy.pt"
    save_policy(file, make_environment(config).make_agent(CPU), config, 0, {})
    content = torch.load(file, weights_only=True)
    for damage in (None, "text", "[]", '{"entries": [], "action_size": 2}', '{"entries": 3}'):
        torch.save(content | {"spec": damage}, file)
        refusal(load_policy, file)


@pytest.mark.slow
def test_workers_step_environments_of_others(tmp_path):
    words = ("trainer.collector=processes", "trainer.collectors=2", "env.options=action=categorical")
    trainer = begun(tmp_path, "DQN", *words)
    trainer.train()
    assert trainer.finished


def test_a_program_trains_in_an_environment_that_it_names(tmp_path):
    options = {"max_steps": 5, "eval_episodes": 2, "options": ["action=one_hot"]}
    run = train("DQN", env={"name": f"{HERE}:Chase", **options}, save_dir=str(tmp_path), quiet=True, **SETTINGS)
    assert run.finished and "avg_return" in run.best
    evaluation = run.load().evaluate(episodes=3)
    assert evaluation.overall["episodes"] == 3
