"""Resumed runs: the same bits as one that was never interrupted."""

import json
import multiprocessing
import os
from pathlib import Path

import pytest
import torch

from tests.train_RL_agents.tiny_runs import (
    LEVELS,
    ROOT,
    at,
    differences,
    evaluations,
    files,
    new_run,
    no_temporaries,
    results,
    saved,
    train,
    train_apart,
)
from train_RL_agents.agents import AGENTS
from train_RL_agents.evaluation.running import history
from train_RL_agents.learning import learner
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.torchrl_trainer import TorchRLTrainer, resume

SOFT = ("trainer.target_update_interval=0", "trainer.tau=0.05")
HARD = ("trainer.target_update_interval=24", "trainer.tau=1.0")
MAP = {"maps": str(ROOT / "tests/data/waters/moos_obstacles.txt"), "min_start_goal_dis": 20.0}
SHORES = (
    "world.scenario.shore_segments=64",
    *(
        f"{name}.levels={json.dumps([level | MAP for level in LEVELS['levels']])}"
        for name in ("training_schedule", "eval_schedule")
    ),
)
"""Settings that put the levels of TINY into a harbour."""
DUTIES, FRAMES = ("world.sensor.duties=true",), ("agent.memory.kind=frames", "agent.memory.number=3")
KINDS = [
    ("agent_type=AC-IQN", "trainer.n_steps=3", *SOFT),
    ("agent_type=AC-IQN", "trainer.n_steps=1", *HARD),
    ("agent_type=DQN", "trainer.n_steps=1", *DUTIES, *SHORES, *SOFT),
    ("agent_type=DQN", "trainer.n_steps=3", *HARD),
    ("agent_type=Rainbow", "trainer.prioritized=true", "trainer.replay_storage=host", "trainer.n_steps=3"),
    ("agent_type=IQN", "trainer.n_steps=3", *FRAMES, *DUTIES, *SHORES, *SOFT),
    *(
        (f"agent_type={name}", "trainer.n_steps=3", *SOFT)
        for name, agent in AGENTS.items()
        if name not in ("AC-IQN", "DQN") and agent.algorithm == "off-policy"
    ),
]
FLEET = ("agent.critic=fleet", "trainer.normalize_advantages=false")
GRU = ("agent.memory.kind=gru", "agent.memory.size=8")
ROLLOUT_KINDS = [
    ("agent_type=PPO",),
    ("agent_type=A2C", "trainer.epochs=1", "trainer.optimizer=rmsprop", *FLEET),
    ("agent_type=PPO", *GRU, "agent.actions=gaussian", "agent.target_kl=0.01", *DUTIES, *SHORES),
    ("agent_type=PPO", "agent.memory.kind=frames"),
]
QUICK = (KINDS[4], ROLLOUT_KINDS[2])
"""Others are resumed as these, as those that die below and as in learning/test_graph_collector.py; they are slow."""
pytestmark = pytest.mark.usefixtures("surroundings")


class CrashError(Exception):
    """Stands for a process that dies."""


def crash(*args, **kwargs):
    """Die."""
    raise CrashError


def slowly(words):
    """The words of a run, marked as slow if it is like another one."""
    return pytest.param(words, marks=[pytest.mark.slow] * (words not in QUICK))


def _name(words):
    """The words of a run, the harbour in short."""
    return " ".join(words).replace(" ".join(SHORES), "harbour")


@pytest.mark.parametrize("words", [slowly(words) for words in KINDS + ROLLOUT_KINDS], ids=_name)
def test_an_interrupted_run_ends_as_one_that_was_not(tmp_path, uninterrupted, words):
    on_policy = words in ROLLOUT_KINDS
    stop_at = 112 if on_policy else 104
    parts = new_run(tmp_path, *words)
    train(parts, stop_at=stop_at)
    stopped = saved(parts)
    assert stopped["env_steps"] == stop_at
    assert [row["env_steps"] for row in stopped["rows"]] == [80]
    torch.manual_seed(99)  # nothing may depend on the global generator
    trainer = train(RunFolder.open(parts.path))
    assert trainer.env_steps == trainer.collector.env.env_steps == 160
    assert differences(uninterrupted(*words), results(parts)) == []

    # The comparison is worth something: everything was in use, and goes on changing.
    final = saved(parts)
    changed = {name.split(".")[1] for name in differences(stopped, final)}
    assert changed >= {"env_steps", "world", "learner", "generators", "rows"}
    assert ("n_step" in changed) == ("trainer.n_steps=3" in words)
    if not on_policy:
        assert "replay" in changed
        assert int(final["replay"]["filled"]) == 150
        assert final["learner"]["updates"] == (160 - 16) // 8


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["DQN", "AC-IQN"])
def test_a_compiled_run_that_is_interrupted_ends_as_one_that_was_not(tmp_path, monkeypatch, agent):
    """In processes of their own, which on one machine share the cache of compiled code."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    words = (f"agent_type={agent}", "execution.compile=true", "trainer.n_steps=3")
    whole, parts = (new_run(tmp_path / name, *words) for name in ("whole", "parts"))
    for run, stop_at in ((whole, None), (parts, 104), (parts, None)):
        process = multiprocessing.get_context("spawn").Process(target=train_apart, args=(run.path, stop_at))
        process.start()
        process.join()
        assert process.exitcode == 0
    assert saved(parts)["learner"]["updates"] == (160 - 16) // 8
    assert differences(results(whole), results(parts)) == []


WINDOWS = ("agent_type=DQN", "trainer.n_steps=3", *HARD)
ROLLOUTS = ROLLOUT_KINDS[1]


@pytest.mark.parametrize(
    ("words", "owner", "name", "calls"),
    [
        pytest.param(WINDOWS, learner, "step_optimizer", 0, marks=pytest.mark.slow),
        (WINDOWS, history, "stored_arrays", 0),
        (WINDOWS, Path, "replace", 0),
        (ROLLOUTS, learner, "step_optimizer", 5),
        pytest.param(ROLLOUTS, os, "fsync", 0, marks=pytest.mark.slow),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_run_that_dies_goes_on_from_its_last_checkpoint(
    tmp_path, monkeypatch, uninterrupted, words, owner, name, calls
):
    """It dies in a function that it had called so often in that batch."""
    run = new_run(tmp_path, *words)
    trainer = TorchRLTrainer(run, quiet=True)
    function, left = getattr(owner, name), iter(range(calls))
    die = lambda *given: crash() if next(left, None) is None else function(*given)  # noqa: E731
    at(trainer, 112 if words is ROLLOUTS else 136, lambda: monkeypatch.setattr(owner, name, die))
    with pytest.raises(CrashError):
        trainer.train()
    monkeypatch.undo()
    assert saved(run)["env_steps"] == 80
    assert no_temporaries(run)
    train(RunFolder.open(run.path))
    assert differences(uninterrupted(*words), results(run)) == []


def test_a_run_may_be_made_longer(ended):
    resume(ended, total_timesteps=240, quiet=True).train()
    assert saved(ended)["env_steps"] == 240
    assert [row["env_steps"] for row in evaluations(ended)] == ["80", "160", "240"]
    # The next resume knows of it, too.
    assert RunFolder.open(ended.path).config.total_timesteps == 240


def test_resuming_a_finished_run_changes_nothing(ended):
    before = files(ended.path)
    train(ended)
    assert files(ended.path) == before
