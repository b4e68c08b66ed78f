"""What goes wrong during a run: short memory, full disks, signals."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.train_RL_agents.tiny_runs import (
    ROOT,
    at,
    differences,
    evaluations,
    new_run,
    no_temporaries,
    only_run,
    results,
    saved,
    scalars,
    train,
    without_times,
)
from train_RL_agents.agents import AGENTS
from train_RL_agents.commands.cli import main
from train_RL_agents.run.checkpoint import NOT_EVALUATED_NOTE, load_policy, read_manifest
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.torchrl_trainer import TorchRLTrainer
from train_RL_agents.utils.signals import STOP_SIGNALS, USER_SIGNALS

pytestmark = pytest.mark.usefixtures("surroundings", "no_plugins")
SHORT = ("total_timesteps=80",)
"""Settings of a run that ends with its first evaluation."""


# Short memory ------------------------------------------------------------------------------------


def limit_memory(monkeypatch, rows):
    """Losses of more rows than these fail; returns the sizes that were tried."""
    losses, tried = AGENTS["DQN"].loss, []

    def limited(agent, batch, random):
        tried.append(batch.reward.shape[0])
        if tried[-1] > rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return losses(agent, batch, random)

    monkeypatch.setattr(AGENTS["DQN"], "loss", limited)
    return tried


@pytest.fixture(autouse=True)
def every_signal_counts(monkeypatch):
    """Also one that comes at once."""
    monkeypatch.setattr("train_RL_agents.utils.signals.DEBOUNCE_TIME", 0.0)


def test_a_run_goes_on_with_smaller_parts_also_when_resumed(tmp_path, monkeypatch, capsys):
    tried = limit_memory(monkeypatch, 4)
    whole, parts = (new_run(tmp_path / name, *SHORT) for name in ("whole", "parts"))
    TorchRLTrainer(whole, bar=False).train()
    assert capsys.readouterr().out.count("out of memory: updates go on with 4 of 8") == 1
    assert tried == [8, *[4] * 16]
    assert scalars(whole)["train/micro_batches"] == [(40, 2.0), (80, 2.0)]

    tried.clear()
    train(parts, stop_at=56)
    train(RunFolder.open(parts.path))
    assert tried.count(8) == 1  # the resumed run knows
    assert saved(parts)["learner"]["micro_batch"] == 4
    assert differences(results(whole), results(parts)) == []


def test_a_run_without_any_room_is_saved_and_says_one_sentence(tmp_path, monkeypatch, capsys, command):
    with monkeypatch.context() as patch:
        limit_memory(patch, 0)
        assert main([*command, *SHORT]) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(
        r"marinenav: error: trainer\.batch_size=8: out of memory even with one transition at a "
        r"time; make room .*; saved\n",
        said,
    )
    run = only_run(tmp_path)
    assert saved(run)["env_steps"] == 24
    assert saved(run)["learner"]["micro_batch"] == 8
    assert main(["train", "--resume", str(run.path), "--no-bar"]) == 0
    assert saved(run)["learner"]["updates"] == (80 - 16) // 8  # that one was made up for


# Full disks and signals -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "count", [pytest.param(count, marks=[pytest.mark.slow] * (count not in (1, 8, 16))) for count in range(1, 18)]
)
def test_a_full_disk_costs_no_file_and_gives_one_sentence(tmp_path, monkeypatch, capsys, command, count):
    """The disk is full from the ``count``-th write on; 16 are made in a run."""
    left, fsync, written = iter(range(count - 1)), os.fsync, []

    def full(descriptor):
        if next(left, None) is None:
            raise OSError(28, "No space left on device")
        written.append(Path(f"/proc/self/fd/{descriptor}").readlink().name.split(".")[1])
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    status = main([*command, "total_timesteps=48", "eval_freq=24"])
    output = capsys.readouterr().err
    if count == 17:
        assert (status, output) == (0, "")
        return
    assert status == 2
    assert re.fullmatch(
        r"marinenav: error: .*: cannot be written \(\[Errno 28\] No space left on device\); "
        r"what was there is kept\n",
        output,
    )
    if written.count("trial_config") < 2:
        assert not list(tmp_path.glob("runs/*"))  # it never began
        return
    (folder,) = tmp_path.glob("runs/*/seed_0")
    assert not list(folder.rglob(".*"))
    # What had been written is complete, and the run can be resumed from its last state.
    for file in folder.rglob("*.json"):
        json.loads(file.read_text())
    monkeypatch.setattr(os, "fsync", fsync)
    if "training_state" in written:
        assert main(["train", "--resume", str(folder), "--no-bar"]) == 0
        assert saved(RunFolder.open(folder))["env_steps"] == 48


def test_a_file_size_limit_is_reported_like_a_full_disk(tmp_path, capsys, command):
    """The system refuses in the middle of torch.save, which hides the reason."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, before[1]))
    try:
        status = main(command)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    output = capsys.readouterr().err
    assert status == 2
    assert len(output.splitlines()) == 1
    assert "cannot be written ([Errno 27] File too large); what was there is kept" in output
    assert no_temporaries(only_run(tmp_path))


@pytest.mark.slow
def test_tensorboards_thread_reports_in_one_sentence_too(tmp_path):
    """In a process of its own: errors of threads are told apart from the command's."""
    code = (
        "import resource, sys\n"
        "from train_RL_agents.run.run_folder import RunFolder\n"
        "from marinenav_env import ConfigError\n"
        "run = RunFolder.open(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "try:\n"
        "    for step in range(10_000):\n"
        "        run.writer.log({'a': 1.0}, step)\n"
        "        run.writer.flush()\n"
        "except ConfigError as error:\n"
        "    sys.exit(str(error))\n"
    )
    run = new_run(tmp_path)
    done = subprocess.run([sys.executable, "-c", code, str(run.path)], cwd=ROOT, capture_output=True, text=True)
    said = f"{run.path}: events for TensorBoard cannot be written ([Errno 27] File too large)"
    assert done.stderr.splitlines() == [said]


@pytest.mark.parametrize("number", [STOP_SIGNALS[-1], USER_SIGNALS[0]])
def test_a_signal_saves_and_says_how_to_go_on(tmp_path, capsys, number):
    run = new_run(tmp_path / "a folder")
    before = [signal.getsignal(each) for each in STOP_SIGNALS + USER_SIGNALS]
    trainer = TorchRLTrainer(run, bar=False)
    at(trainer, 64, lambda: signal.raise_signal(number))
    trainer.train()
    assert trainer.stopped
    assert saved(run)["env_steps"] == 64
    hint = f"stopped and saved; go on with: marinenav train --resume '{run.path}'\n"
    assert capsys.readouterr().out.splitlines(keepends=True)[-1] == hint
    assert [signal.getsignal(each) for each in STOP_SIGNALS + USER_SIGNALS] == before
    assert differences(without_times(trainer._state()), saved(run)) == []


def test_a_users_signal_saves_and_the_run_goes_on_if_asked_for(tmp_path, capsys):
    whole, run = (new_run(tmp_path / name, "on_user_signal=save", *SHORT) for name in ("whole", "signalled"))
    train(whole)
    trainer, states = TorchRLTrainer(run, bar=False), []
    at(trainer, 64, lambda: signal.raise_signal(USER_SIGNALS[0]))
    at(trainer, 72, lambda: states.append(saved(run)["env_steps"]))
    trainer.train()
    assert (trainer.finished, trainer.stopped, states) == (True, False, [64])
    said = capsys.readouterr().out.splitlines()
    assert said.count("saved at 64 env-steps, as a signal asked") == 1
    assert differences(results(whole), results(run)) == []
    # What a scheduler kills later goes on from there.
    train(RunFolder.open(run.path))


def test_a_run_that_is_stopped_leaves_a_policy(tmp_path, capsys):
    run = new_run(tmp_path / "runs")
    trainer = train(run, stop_at=48)
    policy = load_policy(run.path)
    assert (policy.env_steps, policy.metrics) == (48, {"note": NOT_EVALUATED_NOTE})
    ema = trainer.algorithm.learner.ema.networks.state_dict()
    assert differences(dict(policy.agent.networks.state_dict()), dict(ema)) == []
    assert main(["evaluate", str(run.path), "--episodes", "1"]) == 0
    assert f"{run.path}: {NOT_EVALUATED_NOTE}, at 48 env-steps\n" in capsys.readouterr().out
    # Once policies are evaluated it has gone.
    train(RunFolder.open(run.path), stop_at=112)
    assert (load_policy(run.path).env_steps, load_policy(run.path, "latest").env_steps) == (80, 112)
    train(RunFolder.open(run.path))
    names = [each["file"] for each in read_manifest(run.checkpoints)["policies"]]
    assert names == ["policy_000000000080.pt", "policy_000000000160.pt"]
    assert sorted(each.name for each in run.checkpoints.glob("policy_*")) == names


def test_a_signal_while_a_run_is_set_up_leaves_a_policy(tmp_path, command, capsys, monkeypatch):
    build = TorchRLTrainer._build

    def interrupted(self, seed):
        signal.raise_signal(signal.SIGINT)
        build(self, seed)

    monkeypatch.setattr(TorchRLTrainer, "_build", interrupted)
    assert main([*command, *SHORT]) == 130
    run = only_run(tmp_path)
    assert "stopped and saved; go on with: " in capsys.readouterr().out
    assert load_policy(run.path).env_steps == saved(run)["env_steps"] == 0
    monkeypatch.setattr(TorchRLTrainer, "_build", build)
    assert train(RunFolder.open(run.path)).env_steps == 80


@pytest.mark.parametrize(("first", "moment"), [(signal.SIGINT, "step"), (signal.SIGTERM, "save")])
def test_a_second_signal_acts_at_once(tmp_path, monkeypatch, first, moment):
    run = new_run(tmp_path)
    trainer = TorchRLTrainer(run, quiet=True)

    def interrupt(*arguments):
        signal.raise_signal(signal.SIGINT)

    def twice():
        signal.raise_signal(first)
        if moment == "step":
            interrupt()
        else:
            monkeypatch.setattr(os, "fsync", interrupt)

    at(trainer, 104, twice)
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    assert saved(run)["env_steps"] == 80
    assert no_temporaries(run)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_during_the_last_batch_does_no_harm(tmp_path):
    run = new_run(tmp_path)
    train(run, stop_at=160)
    assert saved(run)["env_steps"] == 160
    assert len(evaluations(run)) == 2
