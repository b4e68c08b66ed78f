"""Several ranks: what each holds, one run of two gloo processes, exact resume, refusals."""

import json
import multiprocessing
import os
import signal
import subprocess
import time
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist

from marinenav_env import ConfigError
from tests.train_RL_agents.helpers import agent_of, learner_of, make_batch, seeded
from tests.train_RL_agents.tiny_runs import (
    CPU,
    TINY,
    at,
    begin,
    differences,
    evaluations,
    new_run,
    only_run,
    programs,
    results,
    saved,
    scalars,
    small_pool,
    train,
    usual_signals,
    wait_for_state,
    without_times,
)
from train_RL_agents.agents import AGENTS
from train_RL_agents.config.reading import from_dict
from train_RL_agents.run.checkpoint import STATE_FILE, TRAINING_FORMAT, read_checkpoint
from train_RL_agents.run.ranks import Ranks
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.torchrl_trainer import TorchRLTrainer, resume

ROWS = 26
FRAMES = ("agent.memory.kind=frames", "world.sensor.duties=true")
WORDS = ("agent_type=DQN", "trainer.n_steps=3", "trainer.buffer_size=300", *FRAMES)


# Processes --------------------------------------------------------------------------------------


def run_ranks(tmp_path, work, *arguments, ranks=2):
    """Run work(rank, *arguments) in so many connected processes; they must all end well."""
    # Forked from a process that has imported torch, but has not used it.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.train_RL_agents.tiny_runs"])
    meeting = tmp_path / f"meeting_{time.monotonic_ns()}"
    processes = [context.Process(target=_rank, args=(rank, ranks, meeting, work, arguments)) for rank in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        process.kill()
        process.join()
    return [process.exitcode for process in processes]


def _rank(rank, ranks, meeting, work, arguments):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    with small_pool(), usual_signals():
        work(rank, *arguments)
    dist.destroy_process_group()


def state_of(run, rank):
    """A rank's training state of the last checkpoint, but for wall times."""
    if rank == 0:
        return saved(run)
    (file,) = run.checkpoints.glob(f"training_state_rank{rank}_*.pt")
    return without_times(read_checkpoint(file, TRAINING_FORMAT, CPU))


# What a rank holds ------------------------------------------------------------------------------


def rank_of(size, rank=0):
    ranks = Ranks()
    ranks.size, ranks.rank = size, rank
    return ranks


@pytest.mark.parametrize(
    ("agent", "divided", "unchanged"),
    [
        ("AC-IQN", ("num_envs", "batch_size", "buffer_size"), ("train_freq",)),
        ("PPO", ("num_envs", "batch_size"), ("rollout_steps", "epochs")),
    ],
)
def test_totals_are_divided_among_ranks(agent, divided, unchanged):
    config = from_dict({"agent_type": agent, "training_schedule.timesteps": [0, 5, 9, 16, 17, 21]})
    own = rank_of(4).rank_config(config)
    assert all(getattr(own.trainer, name) * 4 == getattr(config.trainer, name) for name in divided)
    assert all(getattr(own.trainer, name) == getattr(config.trainer, name) for name in unchanged)
    # A rank's world has made a quarter of the steps when all together have made them.
    assert own.training_schedule.curriculum().timesteps == (0, 2, 3, 4, 5, 6)
    for name in ("total_timesteps", "eval_freq", "log_freq"):
        assert getattr(own, name) == getattr(config, name)


def test_what_cannot_be_divided_is_refused():
    config = from_dict({"trainer.batch_size": 101})
    with pytest.raises(ConfigError, match=r"trainer\.batch_size=101: must be a multiple of 2, the number of processes"):
        rank_of(2).rank_config(config)


def test_one_process_is_left_as_it_is():
    ranks, config = Ranks(), from_dict({})
    assert (ranks.size, ranks.is_main, ranks.rank_seed(3), ranks.launch_command()) == (1, True, 3, ["marinenav"])
    assert ranks.rank_config(config) is config
    tensor = torch.ones(3)
    ranks.average_tensor(tensor)
    assert tensor.tolist() == [1.0, 1.0, 1.0]
    assert ranks.broadcast_result(lambda: 4) == 4
    with pytest.raises(ConfigError), ranks.barrier():
        raise ConfigError("here")


def test_seeds_differ_also_in_the_bits_that_cpu_generators_look_at():
    seeds = {rank_of(64, rank).rank_seed(seed) % 2**32 for rank in range(64) for seed in range(100)}
    assert len(seeds) == 6400


# Gradients --------------------------------------------------------------------------------------


def test_two_ranks_take_the_step_of_the_whole_batch(tmp_path):
    assert run_ranks(tmp_path, compare_steps, "SAC", "PPO") == [0, 0]


@pytest.mark.slow
def test_two_ranks_take_that_step_with_every_agent(tmp_path):
    assert run_ranks(tmp_path, compare_steps, *AGENTS) == [0, 0]


def compare_steps(rank, *names):
    """Each rank learns from half a batch, and one learner beside it from all of it."""
    for name in names:
        # Of half of each batch, the ranks would take other rows than one process.
        settings = {"actor_share": 1.0} if hasattr(agent_of(name).config, "actor_share") else {}
        agent = agent_of(name, **settings)
        whole = make_batch(agent, ROWS, seeded(5))
        if agent.algorithm == "on-policy":
            # Means are over the active robots of each rank: here as many on both.
            whole = whole._replace(weight=torch.ones(ROWS))
        random = agent.loss_noise(ROWS, seeded(6))
        batches = {None: whole, Ranks(): _half(whole, rank)}
        learned = []
        for ranks, batch in batches.items():
            learner = learner_of(name, acting={"ranks": ranks}, agent=settings)
            drawn = random if ranks is None else _half(random, rank)
            with patch.object(learner.agent, "loss_noise", lambda *_, drawn=drawn: drawn):
                for _ in range(3):
                    learner.update(batch)
            learned.append(learner.agent.networks.parameters())
        for own_part, whole_part in zip(*learned, strict=True):
            torch.testing.assert_close(own_part, whole_part, rtol=1e-3, atol=2e-5, msg=name)


def _half(values, rank):
    """A rank's half of whatever has ROWS rows; fractions of quantiles have none and are shared."""
    if isinstance(values, torch.Tensor):
        axis = next((axis for axis, size in enumerate(values.shape) if size == ROWS), None)
        return values if axis is None else values.chunk(2, axis)[rank]
    if isinstance(values, dict):
        return {name: _half(each, rank) for name, each in values.items()}
    if isinstance(values, tuple):
        parts = [_half(each, rank) for each in values]
        return type(values)(*parts) if hasattr(values, "_fields") else tuple(parts)
    return values


# Runs -------------------------------------------------------------------------------------------


def run_whole_and_in_parts(tmp_path, *words, stop_at):
    """Two runs of two ranks, one of them interrupted, which must be the same afterwards."""
    whole, parts = new_run(tmp_path / "whole", *words), new_run(tmp_path / "parts", *words)
    assert run_ranks(tmp_path, train_both, whole, parts, stop_at) == [0, 0]
    assert differences(results(whole), results(parts)) == []
    assert differences(state_of(whole, 1), state_of(parts, 1)) == []
    return whole, parts


@pytest.mark.slow
def test_ranks_with_a_recurrent_policy_resume_exactly(tmp_path):
    _, parts = run_whole_and_in_parts(tmp_path, "agent_type=PPO", "agent.memory.kind=gru", stop_at=96)
    first, second = state_of(parts, 0), state_of(parts, 1)
    assert differences(first["learner"], second["learner"]) == []
    assert any("memory" in name for name in differences(first, second)), differences(first, second)


def test_an_interrupted_run_of_two_ranks_ends_as_one_that_was_not(tmp_path):
    whole, parts = run_whole_and_in_parts(tmp_path, *WORDS, stop_at=104)
    first, second = state_of(parts, 0), state_of(parts, 1)
    assert first["env_steps"] == second["env_steps"] == 160
    assert first["world"]["env_steps"] == 80
    assert first["learner"]["updates"] == (160 - 16) // 8
    # The same weights, learned from different experience.
    assert differences(first["learner"], second["learner"]) == []
    assert {name.split(".")[1] for name in differences(first, second)} >= {"world", "replay", "generators", "n_step"}
    assert [row["env_steps"] for row in evaluations(whole)] == ["80", "160"]
    logged = scalars(whole)
    assert logged["train/updates"] == [(40, 3.0), (80, 8.0), (120, 13.0), (160, 18.0)]
    # Each of 8 environments makes 20 steps, and ends an episode after 8 at the latest.
    assert sum(episodes for _, episodes in logged["train/episodes"]) >= 16.0
    assert sorted(file.name for file in parts.checkpoints.glob("training_state*")) == [
        STATE_FILE,
        "training_state_rank1_000000000160.pt",
    ]
    assert not list(parts.path.rglob(".*"))


def train_both(rank, whole, parts, stop_at):
    """One run as it is; the other with a SIGTERM to the second rank alone, and resumed."""
    train(whole)
    trainer = begin(parts)
    at(trainer, stop_at, lambda: signal.raise_signal(signal.SIGTERM) if rank == 1 else None)
    trainer.train()
    assert trainer.stopped
    assert trainer.env_steps == stop_at
    torch.manual_seed(99 + rank)  # nothing may depend on the global generator
    train(RunFolder.open(parts.path))


@pytest.mark.slow
def test_states_of_one_step_are_there_whenever_a_rank_dies(tmp_path):
    """The leader is killed before its state replaces the last one; the other's is complete."""
    whole, run = new_run(tmp_path / "whole", *WORDS), new_run(tmp_path / "parts", *WORDS)
    codes = run_ranks(tmp_path, die_while_saving, run)
    assert codes[0] == -signal.SIGKILL
    assert saved(run)["env_steps"] == 80
    names = {file.name for file in run.checkpoints.glob("training_state_rank1_*")}
    assert names == {f"training_state_rank1_{step:012d}.pt" for step in (80, 160)}
    assert run_ranks(tmp_path, train_two, whole, run) == [0, 0]
    assert differences(results(whole), results(run)) == []
    assert differences(state_of(whole, 1), state_of(run, 1)) == []


def die_while_saving(rank, run):
    trainer = begin(run)
    replace = Path.replace

    def deadly(path, target):
        if rank == 0 and trainer.env_steps == 160 and path.name.startswith(f".{STATE_FILE}."):
            os.kill(os.getpid(), signal.SIGKILL)
        return replace(path, target)

    with patch.object(Path, "replace", deadly):
        try:
            trainer.train()
        except RuntimeError:  # from the first rank nothing more is heard
            os._exit(1)


def train_two(rank, *runs):
    for run in runs:
        train(run)


def test_other_numbers_of_processes_are_refused(tmp_path):
    one, two = new_run(tmp_path / "one"), new_run(tmp_path / "two")
    with small_pool():
        train(one, stop_at=24)
    assert run_ranks(tmp_path, refuse_one, one, two) == [0, 0]
    with small_pool(), pytest.raises(ConfigError, match="processes=1: must be 2, as many as saved it; torchrun"):
        resume(RunFolder.open(two.path), quiet=True)


def refuse_one(rank, one, two):
    """What stops one rank stops both, and only the first one speaks."""
    train(two, stop_at=24)
    with pytest.raises(ConfigError if rank == 0 else SystemExit) as caught:
        resume(RunFolder.open(one.path), quiet=True)
    if rank == 0:
        assert "processes=2: must be 1, as many as saved it" in str(caught.value)
    config = from_dict({}, ["trainer.num_envs=9"])
    with pytest.raises(ConfigError if rank == 0 else SystemExit):
        TorchRLTrainer(RunFolder(one.path, config, 0), quiet=True)
    with pytest.raises(ConfigError if rank == 0 else SystemExit) as caught, Ranks().barrier():
        if rank == 1:
            raise ConfigError("the disk of the second is full")
    assert str(caught.value) == ("the disk of the second is full" if rank == 0 else "2")


# The command ------------------------------------------------------------------------------------


@pytest.fixture
def torchrun(tmp_path):
    """Starts two ranks of the command, and leaves none behind."""
    words = [
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "train_RL_agents",
        "train",
        "--no-bar",
    ]
    # Killed, torchrun would leave its ranks behind.
    with programs(*words, end=subprocess.Popen.terminate) as begin:
        yield begin


@pytest.fixture
def command(tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(TINY))
    return ["-C", str(config), f"save_dir={tmp_path / 'runs'}"]


@pytest.mark.slow
def test_torchrun_is_stopped_by_a_signal_and_goes_on(tmp_path, torchrun, command):
    process = torchrun(*command, "total_timesteps=1000000000", "eval_freq=800")
    wait_for_state(process, tmp_path)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    run = only_run(tmp_path)
    steps = saved(run)["env_steps"]
    assert state_of(run, 1)["env_steps"] == steps
    hint = output.splitlines()[-1]
    assert hint == (
        f"stopped and saved; go on with: torchrun --nproc-per-node 2 -m train_RL_agents train --resume {run.path}"
    )
    again = torchrun("--resume", str(run.path), f"total_timesteps={steps + 40}")
    output, errors = again.communicate(timeout=90)
    assert again.returncode == 0, errors
    assert f"resuming at {steps:,} env-steps" in output.splitlines()
    assert output.count("finished") == 1
    assert saved(run)["env_steps"] == state_of(run, 1)["env_steps"] == steps + 40
