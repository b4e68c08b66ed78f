"""Runs: exact resume, interruptions of every kind, counting in env-steps, seeds, start weights."""

import gc
import json
import math
import multiprocessing
import os
import re
import resource
import signal
import subprocess
import time
import weakref
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

import train_RL_agents
from marinenav_env import ConfigError
from tests.train_RL_agents.tiny_runs import (
    CPU,
    HARD,
    SOFT,
    TINY,
    arrays,
    at,
    differences,
    evaluations,
    files,
    new_run,
    programs,
    results,
    saved,
    scalars,
    small_pool,
    train,
    train_and_die,
    train_apart,
    usual_signals,
    without_times,
)
from train_RL_agents.agents import AGENTS
from train_RL_agents.checkpoint import (
    POLICY,
    STATE,
    TRAINING,
    load_policy,
    read_checked,
    read_manifest,
)
from train_RL_agents.cli import main
from train_RL_agents.progress import Clock
from train_RL_agents.run_folder import RunFolder
from train_RL_agents.torchrl_trainer import TorchRLTrainer, resume

ROOT = Path(train_RL_agents.__file__).parents[1]
KINDS = [("agent_type=" + agent, f"trainer.n_steps={n}", *targets)
         for agent in ("AC-IQN", "DQN") for n in (1, 3) for targets in (SOFT, HARD)]  # fmt: skip
OTHERS = [(f"agent_type={agent}", "trainer.n_steps=3", *SOFT)
          for agent in AGENTS if agent not in ("AC-IQN", "DQN")]  # fmt: skip


@pytest.fixture(autouse=True)
def _surroundings():
    with small_pool(), usual_signals():
        yield


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """What runs with given settings come to when nothing interrupts them."""
    found = {}

    def of(*words):
        if words not in found:
            run = new_run(tmp_path_factory.mktemp("whole"), *words)
            train(run)
            found[words] = results(run)
        return found[words]

    return of


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished run, only to be read."""
    with small_pool():
        run = new_run(tmp_path_factory.mktemp("trained"))
        train(run)
    return run


class CrashError(Exception):
    """Stands for a process that dies."""


def no_temporaries(run):
    return not list(run.path.rglob(".*"))


def crash(*args, **kwargs):
    raise CrashError


# Exact resume -----------------------------------------------------------------------------------


@pytest.mark.parametrize("words", KINDS + OTHERS, ids=" ".join)
def test_an_interrupted_run_ends_as_one_that_was_not(tmp_path, uninterrupted, words):
    parts = new_run(tmp_path, *words)
    train(parts, stop_at=104)
    stopped = saved(parts)
    assert stopped["env_steps"] == 104
    assert [row["env_steps"] for row in stopped["rows"]] == [80]
    torch.manual_seed(99)  # nothing may depend on the global generator
    trainer = train(RunFolder.open(parts.path))
    assert trainer.env_steps == trainer.env.env_steps == 160
    assert differences(uninterrupted(*words), results(parts)) == []

    # The comparison is worth something: everything was in use, and goes on changing.
    final = saved(parts)
    assert int(final["replay"]["filled"]) == 150
    assert final["learner"]["updates"] == (160 - 16) // 8
    changed = {name.split(".")[1] for name in differences(stopped, final)}
    assert changed >= {"env_steps", "world", "replay", "learner", "generators", "rows"}
    assert ("streams" in changed) == ("trainer.n_steps=3" in words)


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["DQN", "AC-IQN"])
def test_a_compiled_run_that_is_interrupted_ends_as_one_that_was_not(tmp_path, monkeypatch, agent):
    """In processes of their own, which on one machine share the cache of compiled code."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    words = (f"agent_type={agent}", "compile=true", "trainer.n_steps=3")
    whole, parts = (new_run(tmp_path / name, *words) for name in ("whole", "parts"))
    for run, stop_at in ((whole, None), (parts, 104), (parts, None)):
        process = multiprocessing.get_context("spawn").Process(
            target=train_apart, args=(run.path, stop_at)
        )
        process.start()
        process.join()
        assert process.exitcode == 0
    assert saved(parts)["learner"]["updates"] == (160 - 16) // 8
    assert differences(results(whole), results(parts)) == []


def test_priorities_of_replay_are_resumed_too(tmp_path, uninterrupted):
    words = ("agent_type=Rainbow", "trainer.prioritized=true")
    run = new_run(tmp_path, *words)
    train(run, stop_at=64)
    train(run)
    assert differences(uninterrupted(*words), results(run)) == []


@pytest.mark.parametrize("moment", ["step", "update", "evaluate", "policy", "state", "in place"])
def test_a_run_that_dies_goes_on_from_its_last_checkpoint(
    tmp_path, monkeypatch, uninterrupted, moment
):
    run = new_run(tmp_path, "agent_type=DQN", "trainer.n_steps=3", *HARD)
    trainer = TorchRLTrainer(run, quiet=True)
    places = {
        "step": (trainer.env, "_step"),
        "update": (trainer.learner.optimizer, "step"),
        "evaluate": (trainer.history, "_arrays"),
        "policy": (torch, "save"),
        "state": (os, "fsync"),
        "in place": (Path, "replace"),
    }
    at(trainer, 136, lambda: monkeypatch.setattr(*places[moment], crash))
    with pytest.raises(CrashError):
        trainer.train()
    monkeypatch.undo()
    assert saved(run)["env_steps"] == 80
    assert no_temporaries(run)
    train(RunFolder.open(run.path))
    expected = uninterrupted("agent_type=DQN", "trainer.n_steps=3", *HARD)
    assert differences(expected, results(run)) == []


@pytest.mark.slow
def test_kill_9_at_any_moment_changes_nothing(tmp_path, uninterrupted):
    words = ("agent_type=AC-IQN", "trainer.n_steps=3", "eval_freq=40", *HARD)
    run = new_run(tmp_path, *words)
    # Forked from a process that has imported torch, but has not used it.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.train_RL_agents.tiny_runs"])

    def child(moment, count=1, seconds=None):
        process = context.Process(target=train_and_die, args=(run.path, moment, count))
        process.start()
        process.join(seconds)
        process.kill()
        process.join()
        return process.exitcode

    # Every 5 steps two files of evaluations, a policy, the manifest and the state are written.
    for moment, count, reached in (
        ("step", 3, 0), ("written", 4, 0), ("write", 2, 0), ("placed", 5, 40), ("update", 2, 40),
        ("step", 3, 40), ("write", 1, 40), ("placed", 4, 40), ("written", 5, 40), ("placed", 5, 80),
    ):  # fmt: skip
        assert child(moment, count) == -signal.SIGKILL, moment
        if reached:
            assert saved(run)["env_steps"] == reached, moment
        else:
            assert not (run.checkpoints / STATE).exists(), moment
    generator, reached = torch.Generator().manual_seed(0), [80]
    for _ in range(8):
        child("never", seconds=0.2 + float(torch.rand((), generator=generator)))
        reached.append(saved(run)["env_steps"])
    assert reached == sorted(reached)
    assert child("never") == 0
    assert differences(uninterrupted(*words), results(run)) == []
    assert no_temporaries(run)


def test_a_run_may_be_made_longer(tmp_path):
    run = new_run(tmp_path)
    train(run)
    trainer = resume(RunFolder.open(run.path), total_timesteps=240, quiet=True)
    trainer.train()
    assert saved(run)["env_steps"] == 240
    assert [row["env_steps"] for row in evaluations(run)] == ["80", "160", "240"]
    # The next resume knows of it, too.
    assert RunFolder.open(run.path).config.total_timesteps == 240


def test_changes_hold_for_the_next_resume(tmp_path, capsys):
    run = new_run(tmp_path)
    train(run, stop_at=40)
    assert main(["train", "--resume", str(run.path), "total_timesteps=200", "--no-bar"]) == 0
    assert main(["train", "--resume", str(run.path), "--no-bar"]) == 0
    assert saved(run)["env_steps"] == 200
    assert "resuming at 200 env-steps" in capsys.readouterr().out


def test_resuming_a_finished_run_changes_nothing(tmp_path):
    run = new_run(tmp_path)
    train(run)
    before = files(run.path)
    train(RunFolder.open(run.path))
    assert files(run.path) == before


def test_speed_is_that_since_the_resume(tmp_path, monkeypatch):
    monkeypatch.setattr(Clock, "lap", lambda self: ({}, 1.0))
    run = new_run(tmp_path)
    train(run, stop_at=104)
    train(RunFolder.open(run.path))
    assert scalars(run)["charts/SPS"] == [(40, 40.0), (80, 40.0), (120, 16.0), (160, 40.0)]


def test_times_leave_the_interruption_out(tmp_path):
    run = new_run(tmp_path)
    train(run, stop_at=104)
    clock = read_checked(run.checkpoints / STATE, TRAINING, CPU)["clock"]
    began = time.perf_counter()
    time.sleep(0.5)
    train(RunFolder.open(run.path))
    since = time.perf_counter() - began
    stopped, last = clock["total"], float(evaluations(run)[1]["wall_time"])
    assert stopped < last < stopped + since - 0.5
    for row in evaluations(run):
        assert 0.0 < float(row["train_time"]) < float(row["wall_time"])


# Refusals ---------------------------------------------------------------------------------------


def refused(run, expected):
    """Resuming is refused with one sentence, and changes nothing on the disk."""
    before = files(run.path)
    with pytest.raises(ConfigError, match=re.escape(expected)) as caught:
        resume(RunFolder.open(run.path), quiet=True)
    assert len(str(caught.value).splitlines()) == 1
    assert str(run.path) in str(caught.value)
    assert files(run.path) == before
    return str(caught.value)


def test_a_run_without_checkpoint_starts_anew(tmp_path, uninterrupted):
    run = new_run(tmp_path)
    train(run, stop_at=24)
    (run.checkpoints / STATE).unlink()
    resume(RunFolder.open(run.path), quiet=True).train()
    assert differences(uninterrupted(), results(run)) == []


def test_seeds_whose_turn_had_not_come_are_trained_on_resume(tmp_path, monkeypatch):
    words = [f"{key}={value}" for key, value in (("save_dir", tmp_path), ("seed", "4,5"))]
    config = tmp_path / "tiny.json"
    config.write_text(json.dumps(TINY))
    stops = TorchRLTrainer.train

    def stopped(trainer):
        at(trainer, 24, lambda: signal.raise_signal(signal.SIGINT))
        stops(trainer)

    with monkeypatch.context() as patch:
        patch.setattr(TorchRLTrainer, "train", stopped)
        assert main(["train", "--config", str(config), *words, "--quiet"]) == 130
    (folder,) = tmp_path.glob("training_*")
    assert main(["train", "--resume", str(folder), "--quiet"]) == 0
    for seed in (4, 5):
        assert saved(RunFolder.open(folder / f"seed_{seed}"))["env_steps"] == 160


def test_a_run_without_replay_buffer_is_not_resumed(tmp_path, capsys):
    run = new_run(tmp_path, "save_replay=false")
    trainer = TorchRLTrainer(run, bar=False)
    at(trainer, 104, lambda: signal.raise_signal(signal.SIGINT))
    trainer.train()
    assert "--resume" not in capsys.readouterr().out
    refused(run, "saved without its replay buffer (save_replay=false)")


def test_damaged_states_are_refused(tmp_path):
    run = new_run(tmp_path)
    train(run, stop_at=24)
    file = run.checkpoints / STATE
    whole = file.read_bytes()
    middle = len(whole) // 2
    for damaged in (
        b"",
        whole[:middle],
        whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
        b"something else",
    ):
        file.write_bytes(damaged)
        message = refused(run, str(file))
        assert "damaged" in message
    file.write_bytes(whole)
    resume(RunFolder.open(run.path), quiet=True)


def test_files_of_another_kind_or_version_are_refused(tmp_path):
    run = new_run(tmp_path)
    train(run, stop_at=88)
    file = run.checkpoints / STATE
    state = torch.load(file)
    policy = (run.checkpoints / "policy_000000000080.pt").read_bytes()
    file.write_bytes(policy)
    refused(run, f"{file}='marinenav policy': must be a marinenav training state")
    torch.save({"epoch": 3}, file)
    refused(run, f"{file}=None: must be a marinenav training state")
    torch.save(state | {"version": 2}, file)
    refused(run, f"{file}: version=2: must be at most 1; update marinenav")


@pytest.mark.parametrize(
    "words", [("agent_type=AC-IQN",), ("agent.critics=1",), ("agent.duelling=false",),
              ("trainer.num_envs=9",), ("trainer.buffer_size=100",), ("trainer.buffer_size=999",),
              ("trainer.gamma=0.9",), ("trainer.learning_rate=1e-4", "trainer.tau=0.5"),
              ("world.reward.timestep_penalty=-0.5",), ("training_schedule.num_robots=2,4",)],
    ids=" ".join)  # fmt: skip
def test_a_state_of_another_configuration_is_refused(tmp_path, trained, words):
    other = new_run(tmp_path, *words)
    (other.checkpoints / STATE).write_bytes((trained.checkpoints / STATE).read_bytes())
    message = refused(other, f"{other.checkpoints / STATE}: was made with other settings than ")
    for word in words:
        assert f"{word.partition('=')[0]}=" in message
    assert message.count("(was ") == len(words) or words[0].startswith("agent_type")


def test_a_configuration_changed_by_hand_is_refused(tmp_path):
    run = new_run(tmp_path)
    train(run, stop_at=24)
    file = run.path / "trial_config.json"
    whole = file.read_text()
    file.write_text(whole.replace('"gamma": 0.99', '"gamma": 0.95'))
    message = refused(run, str(file))
    assert message.endswith("has: trainer.gamma=0.95 (was 0.99)")
    file.write_text(whole)
    resume(RunFolder.open(run.path), quiet=True)


@pytest.mark.parametrize(
    "change", [{"total_timesteps": 240}, {"eval_freq": 40}, {"log_freq": 16}, {"threads": 2},
               {"save_dir": "elsewhere"}, {"load_model": "gone.pt"}],
    ids=str)  # fmt: skip
def test_some_settings_may_change(tmp_path, trained, change):
    run = RunFolder(tmp_path, replace(trained.config, **change), trained.seed)
    run.checkpoints.mkdir()
    (run.checkpoints / STATE).write_bytes((trained.checkpoints / STATE).read_bytes())
    assert resume(run, quiet=True).env_steps == 160


def test_a_state_that_does_not_fit_is_refused(tmp_path, trained):
    other = new_run(tmp_path)
    state = torch.load(trained.checkpoints / STATE)
    torch.save({key: state[key] for key in state if key != "config"}, other.checkpoints / STATE)
    refused(other, f"{other.checkpoints / STATE}: does not say which settings it was made with")
    del state["learner"]["agent"]
    torch.save(state, other.checkpoints / STATE)
    refused(other, f"{other.checkpoints / STATE}: does not fit the run's configuration (")


# Short memory ------------------------------------------------------------------------------------


def limit_memory(monkeypatch, rows):
    """Losses of more rows than these fail; returns the sizes that were tried."""
    losses, tried = AGENTS["DQN"].losses, []

    def limited(agent, batch, random):
        tried.append(batch.reward.shape[0])
        if tried[-1] > rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return losses(agent, batch, random)

    monkeypatch.setattr(AGENTS["DQN"], "losses", limited)
    return tried


def test_a_run_goes_on_with_smaller_parts_also_when_resumed(tmp_path, monkeypatch, capsys):
    tried = limit_memory(monkeypatch, 4)
    whole, parts = new_run(tmp_path / "whole"), new_run(tmp_path / "parts")
    TorchRLTrainer(whole, bar=False).train()
    assert capsys.readouterr().out.count("out of memory: updates go on with 4 of 8") == 1
    assert tried == [8, *[4] * 36]
    assert scalars(whole)["train/micro_batches"] == [(step, 2.0) for step in (40, 80, 120, 160)]

    tried.clear()
    train(parts, stop_at=104)
    train(RunFolder.open(parts.path))
    assert tried.count(8) == 1  # the resumed run knows
    assert saved(parts)["learner"]["micro_batch"] == 4
    assert differences(results(whole), results(parts)) == []


def test_a_run_without_any_room_is_saved_and_says_one_sentence(
    tmp_path, monkeypatch, capsys, command
):
    with monkeypatch.context() as patch:
        limit_memory(patch, 0)
        # The plan made before the run tries small batches; this shortage comes later.
        patch.setattr("train_RL_agents.memory.plan._kept_bytes", lambda *_: 1000)
        assert main(command) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(
        r"marinenav: error: trainer\.batch_size=8: out of memory even with one transition at a "
        r"time; make room .*; saved\n", said
    )  # fmt: skip
    run = only_run(tmp_path)
    assert saved(run)["env_steps"] == 24
    assert saved(run)["learner"]["micro_batch"] == 8
    assert main(["train", "--resume", str(run.path), "--no-bar"]) == 0
    assert saved(run)["learner"]["updates"] == (160 - 16) // 8  # that one was made up for


# Full disks and signals -------------------------------------------------------------------------


@pytest.fixture
def command(tmp_path):
    """Arguments that train in a folder of their own."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(TINY))
    return ["train", "-C", str(config), f"save_dir={tmp_path / 'runs'}", "--no-bar"]


def only_run(tmp_path):
    (path,) = tmp_path.glob("runs/*/seed_*")
    return RunFolder.open(path)


@pytest.mark.parametrize("count", range(1, 16))
def test_a_full_disk_costs_no_file_and_gives_one_sentence(
    tmp_path, monkeypatch, capsys, command, count
):
    """The disk is full from the ``count``-th write on; 14 are made in a run."""
    left, fsync, written = iter(range(count - 1)), os.fsync, []

    def full(descriptor):
        if next(left, None) is None:
            raise OSError(28, "No space left on device")
        written.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    status = main([*command, "total_timesteps=48", "eval_freq=24"])
    output = capsys.readouterr().err
    if count == 15:
        assert (status, output) == (0, "")
        return
    assert status == 2
    assert re.fullmatch(
        r"marinenav: error: .*: cannot be written \(\[Errno 28\] No space left on device\); "
        r"what was there is kept\n", output
    )  # fmt: skip
    if ".command.txt.tmp" not in written:
        assert not list(tmp_path.glob("runs/*"))  # it never began
        return
    (folder,) = tmp_path.glob("runs/*/seed_0")
    assert not list(folder.rglob(".*"))
    # What had been written is complete, and the run can be resumed from its last state.
    for file in folder.rglob("*.json"):
        json.loads(file.read_text())
    monkeypatch.setattr(os, "fsync", fsync)
    if ".training_state.pt.tmp" in written:
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
def test_a_disk_that_is_full(tmp_path, capsys, command):
    disk = tmp_path / "runs"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    try:
        status = main(command)
        output = capsys.readouterr().err
        assert status == 2
        assert len(output.splitlines()) == 1
        assert "No space left on device" in output
        assert no_temporaries(only_run(tmp_path))
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_says_how_to_go_on(tmp_path, capsys, number):
    run = new_run(tmp_path / "a folder")
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    trainer = TorchRLTrainer(run, bar=False)
    at(trainer, 64, lambda: signal.raise_signal(number))
    trainer.train()
    assert trainer.stopped
    assert saved(run)["env_steps"] == 64
    hint = f"stopped and saved; go on with: marinenav train --resume '{run.path}'\n"
    assert capsys.readouterr().out.splitlines(keepends=True)[-1] == hint
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before
    assert differences(without_times(trainer._state()), saved(run)) == []


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["step", "save"])
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


@pytest.fixture
def start():
    """Starts commands, and leaves none behind."""
    heeds_ctrl_c = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with programs("train_RL_agents", end=subprocess.Popen.kill, preexec_fn=heeds_ctrl_c) as begin:
        yield begin


def wait_for(process, tmp_path, name):
    until = time.monotonic() + 60.0
    while not list(tmp_path.glob(f"runs/*/seed_0/{name}")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, f"no {name}"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signalled_command_can_be_resumed(tmp_path, command, start, number):
    process = start(*command, "total_timesteps=1000000000", "eval_freq=800")
    wait_for(process, tmp_path, f"checkpoints/{STATE}")
    process.send_signal(number)
    output, errors = process.communicate(timeout=30)
    run = only_run(tmp_path)
    assert (process.returncode, errors) == (130, "")
    hint = output.splitlines()[-1]
    assert hint == f"stopped and saved; go on with: marinenav train --resume {run.path}"
    steps = saved(run)["env_steps"]
    again = start(*hint.split()[-3:], "--no-bar", f"total_timesteps={steps + 40}")
    output, errors = again.communicate(timeout=60)
    assert (again.returncode, errors) == (0, "")
    assert f"resuming at {steps:,} env-steps" in output.splitlines()
    assert saved(run)["env_steps"] == steps + 40


@pytest.mark.slow
def test_a_second_ctrl_c_ends_a_command_at_once(tmp_path, command, start):
    # The first evaluation comes with the first batch and takes minutes.
    process = start(*command, "eval_freq=1", "world.max_steps=100000",
                    "eval_schedule.num_episodes=20,20")  # fmt: skip
    wait_for(process, tmp_path, "eval_configs.json")
    time.sleep(2.0)
    process.send_signal(signal.SIGINT)
    time.sleep(1.0)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, "")
    assert not (only_run(tmp_path).checkpoints / STATE).exists()


# Counting ---------------------------------------------------------------------------------------


def counts(tmp_path, *words):
    """How often, or when, things happened in a run."""
    run = new_run(tmp_path / str(len(list(tmp_path.iterdir()))), *words)
    trainer = TorchRLTrainer(run, quiet=True)
    targets = []
    original = trainer.learner.update_targets
    trainer.learner.update_targets = lambda: (targets.append(trainer.env_steps), original())
    trainer.train()
    logged = scalars(run)
    return {
        "env_steps": trainer.env_steps,
        "updates": trainer.learner.updates,
        "updates when logged": logged["train/updates"],
        "targets": len(targets),
        "evaluations": [row["env_steps"] for row in evaluations(run)],
        "policies": sorted(file.name for file in run.checkpoints.glob("policy_*")),
    }


@pytest.mark.parametrize(
    ("words", "updates", "targets"),
    [
        (("trainer.train_freq=4",), (240 - 16) // 4, (240 - 16) // 4),
        (("trainer.train_freq=24", "trainer.target_update_interval=12"), (240 - 16) // 24, 20),
        (("trainer.learning_starts=100", "trainer.target_update_interval=48"), 140 // 8, 5),
    ],
)
def test_counts_do_not_depend_on_the_number_of_environments(tmp_path, words, updates, targets):
    found = [
        counts(tmp_path, *words, f"trainer.num_envs={envs}", f"trainer.steps_per_batch={steps}",
               "total_timesteps=240", "eval_freq=120", "log_freq=48", "trainer.buffer_size=500")
        for envs, steps in ((8, 1), (12, 2))
    ]  # fmt: skip
    assert found[0] == found[1]
    assert found[0]["env_steps"] == 240
    assert (found[0]["updates"], found[0]["targets"]) == (updates, targets)
    assert [step for step, _ in found[0]["updates when logged"]] == [48, 96, 144, 192, 240]
    assert found[0]["evaluations"] == ["120", "240"]


def test_intervals_that_are_no_multiple_of_a_batch_are_kept_on_average(tmp_path):
    found = counts(tmp_path, "trainer.num_envs=7", "eval_freq=50", "trainer.train_freq=5")
    assert found["env_steps"] == 161
    assert found["updates"] == (161 - 16) // 5
    # The first batch past each multiple, and the end.
    assert found["evaluations"] == ["56", "105", "154", "161"]
    assert [step for step, _ in found["updates when logged"]] == [42, 84, 126, 161]


def test_updates_do_not_pile_up_before_learning_starts(tmp_path):
    run = new_run(tmp_path, "trainer.learning_starts=100", "trainer.train_freq=4")
    trainer = TorchRLTrainer(run, quiet=True)
    updates = {}
    for env_steps in range(88, 168, 8):
        at(trainer, env_steps, lambda: updates.update({trainer.env_steps: trainer.learner.updates}))
    trainer.train()
    # Noted in the middle of a batch, before its own updates.
    assert updates == {steps: max(0, (steps - 8 - 100) // 4) for steps in range(88, 168, 8)}


@pytest.mark.parametrize("envs", [8, 16])
def test_levels_follow_one_another_at_their_env_steps(tmp_path, envs):
    words = ("training_schedule.timesteps=0,80", f"trainer.num_envs={envs}")
    trainer = TorchRLTrainer(new_run(tmp_path, *words), quiet=True)
    levels = {}

    def note():
        pool = trainer.env._starts.starts.scenario.level
        assert bool((pool == pool[0]).all())
        levels[trainer.env_steps] = int(pool[0])

    for env_steps in range(16, 176, 16):
        at(trainer, env_steps, note)
    trainer.train()
    assert levels == {steps: int(steps >= 80) for steps in range(16, 176, 16)}


def test_the_level_is_resumed_too(tmp_path, uninterrupted):
    words = ("training_schedule.timesteps=0,80",)
    run = new_run(tmp_path, *words)
    for stop in (64, 104):
        train(run, stop_at=stop)
    train(run)
    assert differences(uninterrupted(*words), results(run)) == []


def test_schedules_reach_their_last_values(tmp_path):
    words = ("trainer.learning_rate=1e-3", "trainer.learning_rate_final=1e-5",
             "trainer.exploration_initial_eps=0.9", "trainer.exploration_final_eps=0.3",
             "trainer.exploration_fraction=0.5", "trainer.exploration_spread=0.1")  # fmt: skip
    trainer = TorchRLTrainer(new_run(tmp_path, *words), quiet=True)
    rates, strengths = {}, {}

    def note():
        rates[trainer.env_steps - 8] = trainer.learner.learning_rate
        strengths[trainer.env_steps - 8] = trainer.policy.exploration[:, 0].tolist()

    for env_steps in range(8, 168, 8):
        at(trainer, env_steps, note)
    trainer.train()
    for begun, rate in rates.items():
        expected = 1e-5 + 0.5 * (1e-3 - 1e-5) * (1.0 + math.cos(math.pi * begun / 160))
        assert rate == pytest.approx(expected)
        boldest = 0.9 - 0.6 * min(begun / 80, 1.0)
        spread = [boldest * 0.1 ** (each / 7) for each in range(8)]
        assert strengths[begun] == pytest.approx(spread, rel=1e-5)
    assert strengths[80][0] == pytest.approx(0.3)
    # After the last batch there is nothing left to do.
    trainer._set_schedules()
    assert trainer.learner.learning_rate == 1e-5
    assert trainer.policy.exploration[0].item() == pytest.approx(0.3)


# Seeds and start weights ------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_run_and_another_does_not(tmp_path):
    runs = [new_run(tmp_path / name, seed=seed) for name, seed in (("a", 3), ("b", 3), ("c", 4))]
    for number, run in enumerate(runs):
        torch.manual_seed(number)
        train(run)
    first, again, other = map(results, runs)
    assert differences(first, again) == []
    changed = differences(first, other)
    for part in (".state.learner.agent", ".state.world.now", ".state.replay.rows", ".arrays"):
        assert any(name.startswith(part) for name in changed), part
    # All seeds are judged on the same set.
    assert first["scenarios"] == other["scenarios"]


def test_global_generators_are_left_alone(tmp_path):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = new_run(tmp_path / "first", "agent_type=AC-IQN")
    train(first, stop_at=104)
    train(first)
    TorchRLTrainer(new_run(tmp_path / "next", "agent_type=AC-IQN", f"load_model={first.path}"))
    assert torch.equal(torch.get_rng_state(), before)


def test_several_seeds_share_a_training_folder(tmp_path, command):
    assert main([*command, "--seed", "5", "7", "--quiet"]) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("training_")
    runs = [RunFolder.open(path) for path in sorted(folder.iterdir())]
    assert [(run.path.name, run.seed, run.config.seed) for run in runs] == [
        ("seed_5", 5, (5,)), ("seed_7", 7, (7,))
    ]  # fmt: skip
    assert all(saved(run)["env_steps"] == 160 for run in runs)
    assert differences(saved(runs[0])["learner"], saved(runs[1])["learner"])


def test_a_trainer_is_gone_before_the_next_seed_starts(tmp_path, command, monkeypatch):
    """Memory is planned for one."""
    before, build = [], TorchRLTrainer._build

    def note(trainer):
        assert [each for each in before if each() is not None] == []
        before.append(weakref.ref(trainer))
        build(trainer)

    monkeypatch.setattr(TorchRLTrainer, "_build", note)
    gc.disable()
    try:
        assert main([*command, "--seed", "5", "6", "7", "--quiet"]) == 0
    finally:
        gc.enable()
    assert len(before) == 3


@pytest.mark.parametrize("agent", ["AC-IQN", "DQN"])
def test_training_starts_from_given_weights(tmp_path, agent):
    words = (f"agent_type={agent}",)
    first = new_run(tmp_path / "first", *words)
    train(first)
    given = load_policy(first.path, "latest")
    for path in (given.path, first.path):
        run = new_run(tmp_path / path.name, *words, f"load_model={path}", seed=9)
        expected = load_policy(path).agent.networks.state_dict()
        trainer = TorchRLTrainer(run, quiet=True)
        for agent in (trainer.learner.agent, trainer.learner.averaged, trainer.policy.agent):
            assert differences(dict(agent.networks.state_dict()), dict(expected)) == []
            for name, target in agent.targets.items():
                ours = dict(agent.networks[name].state_dict())
                assert differences(dict(target.state_dict()), ours) == []


def test_start_weights_are_not_needed_any_more_on_resume(tmp_path, trained, uninterrupted):
    policy = tmp_path / "start.pt"
    policy.write_bytes(load_policy(trained.path).path.read_bytes())
    expected = uninterrupted(f"load_model={policy}")
    run = new_run(tmp_path, f"load_model={policy}")
    train(run, stop_at=104)
    policy.unlink()
    train(run)
    assert differences(expected, results(run)) == []


def test_a_run_that_is_refused_leaves_no_folder(tmp_path, command, capsys):
    assert main([*command, "load_model=absent.pt", "seed=1,2", "--quiet"]) == 2
    assert "absent.pt" in capsys.readouterr().err
    assert not list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize("words", [("agent_type=AC-IQN",), ("agent.critics=1",),
                                   ("agent.duelling=false",), ("agent.layer_norm=false",),
                                   ("world.vessel.left_thrust_change=0,500",)],
                         ids=" ".join)  # fmt: skip
def test_weights_of_another_architecture_are_refused(tmp_path, trained, words):
    policy = trained.checkpoints / "policy_000000000160.pt"
    run = new_run(tmp_path, *words, f"load_model={policy}")
    with pytest.raises(ConfigError) as caught:
        TorchRLTrainer(run, quiet=True)
    message = str(caught.value)
    assert message.startswith(f"{policy}: does not fit this agent (")
    assert len(message) < len(str(policy)) + 120
    assert "\n" not in message


# What is evaluated and saved --------------------------------------------------------------------


def test_the_averaged_weights_are_evaluated_and_saved(tmp_path):
    run = new_run(tmp_path, "trainer.average_decay=0.9")
    trainer = train(run)
    policy = read_checked(run.checkpoints / "policy_000000000160.pt", POLICY, CPU)["weights"]
    assert differences(dict(policy), dict(trainer.learner.averaged.networks.state_dict())) == []
    assert differences(dict(policy), dict(trainer.learner.agent.networks.state_dict()))


def test_weights_that_are_not_finite_leave_files_that_can_be_read(tmp_path):
    run = new_run(tmp_path, "agent_type=AC-IQN")
    trainer = TorchRLTrainer(run, bar=False)

    def ruin():
        for agent in (trainer.learner.agent, trainer.learner.averaged):
            for parameter in agent.parameters():
                parameter.data.fill_(math.nan)

    at(trainer, 120, ruin)
    trainer.train()
    manifest = strict(run.checkpoints / "manifest.json")
    assert manifest["policies"][1]["metrics"]["avg_return"] is None
    assert manifest["best"] == "policy_000000000080.pt"
    assert evaluations(run)[1]["avg_return"] == ""
    assert load_policy(run.path).env_steps == 80
    resume(RunFolder.open(run.path), quiet=True)


def strict(path):
    """JSON without NaN and infinities."""

    def refuse(name):
        raise AssertionError(f"{path}: {name}")

    return json.loads(path.read_text(), parse_constant=refuse)


def test_the_training_state_holds_only_what_is_filled(tmp_path):
    sizes = {}
    for slots in (1_000, 1_000_000):
        run = new_run(tmp_path / str(slots), f"trainer.buffer_size={slots}")
        train(run, stop_at=40)
        assert int(saved(run)["replay"]["filled"]) < 200
        sizes[slots] = (run.checkpoints / STATE).stat().st_size
    assert sizes[1_000_000] < sizes[1_000] + 2_000
    assert sizes[1_000_000] < 5_000_000


def test_evaluations_agree_with_those_of_the_saved_policies(tmp_path, capsys):
    run = new_run(tmp_path, "agent_type=AC-IQN")
    train(run)
    entries = read_manifest(run.checkpoints)["policies"]
    for row, entry in zip(evaluations(run), entries, strict=True):
        out = tmp_path / "out.json"
        command = ["evaluate", "--checkpoint", str(run.checkpoints / entry["file"]), "-D", "cpu",
                   "--json", str(out)]  # fmt: skip
        assert main(command) == 0
        figures = strict(out)["figures"]["overall"]
        assert figures == entry["metrics"]
        assert float(row["avg_return"]) == figures["avg_return"]
    assert arrays(run)["rewards"][1].mean() == pytest.approx(figures["avg_return"])
