"""A small campaign against runs: kills, signals and limits of files at random moments."""

import multiprocessing
import os
import random
import resource
import signal
import sys
import time
import traceback

import pytest

from tests.train_RL_agents.tiny_runs import (
    differences,
    new_run,
    no_temporaries,
    results,
    small_pool,
    train,
    train_and_die,
)
from train_RL_agents.__main__ import main
from train_RL_agents.agents import AGENTS
from train_RL_agents.run.checkpoint import STATE

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("surroundings")]


CONTEXT = multiprocessing.get_context("forkserver")
"""Starts processes that have imported everything. A process that has used autograd, as the tests
have, cannot be forked."""
CONTEXT.set_forkserver_preload(["tests.train_RL_agents.test_campaign"])


def start(*words, limit=None):
    """Start the command in a process of its own.

    Args:
        words: arguments.
        limit: of the size of files that it writes (bytes); None: as it is.

    Returns:
        The process, and what its output comes from.
    """
    said, output = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_command, args=(output, words, limit))
    process.start()
    output.close()
    assert os.read(said.fileno(), 1) == b"\n"  # signals are handled from now on
    return process, said


def _command(output, words, limit):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number in (1, 2):
        os.dup2(output.fileno(), number)
    output.close()
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1) for number in (1, 2))
    if limit is not None:
        most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    sys.argv, status = ["marinenav", *words], 99
    try:
        with small_pool():
            print()
            status = main()
    except BaseException:
        traceback.print_exc()
    os._exit(status)


def end(process, said):
    """Wait for the end of a command; its status and what it said."""
    with os.fdopen(os.dup(said.fileno())) as file:
        text = file.read()
    said.close()
    assert "Traceback" not in text
    process.join()
    return process.exitcode, text


@pytest.mark.parametrize("agent", AGENTS)
def test_a_run_that_is_killed_at_random_moments_ends_with_the_same_bits(tmp_path, agent):
    moments = random.Random(agent)
    words = (f"agent_type={agent}", "eval_freq=40", "total_timesteps=120")
    whole, run = (new_run(tmp_path / name, *words) for name in ("whole", "parts"))
    began = time.monotonic()
    train(whole)
    taken = time.monotonic() - began
    for kills in (True, True, False):
        process = CONTEXT.Process(target=train_and_die, args=(run.path, "never", 1))
        process.start()
        process.join(moments.uniform(0.1, 2.0 * taken) if kills else None)
        process.kill()
        process.join()
    assert process.exitcode == 0
    assert differences(results(whole), results(run)) == []
    assert no_temporaries(run)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_a_random_moment_saves_or_gives_a_sentence(tmp_path, command, number):
    moments = random.Random(number)
    for _ in range(4):
        process, said = start(*command, "total_timesteps=1000000000", "eval_freq=400")
        time.sleep(moments.uniform(0.0, 3.0))
        os.kill(process.pid, number)
        status, text = end(process, said)
        if "stopped and saved" in text:
            assert status == 130
            assert list(tmp_path.glob(f"runs/*/seed_0/checkpoints/{STATE}"))
        else:
            assert "interrupted" in text or "nothing had begun" in text or status == -number


@pytest.mark.parametrize("limit", [0, 300, 5_000, 40_000])
def test_a_limit_of_files_gives_one_sentence(tmp_path, trained, command, limit):
    scenarios = str(trained.path / "eval_configs.json")
    for words in (
        command,
        ("evaluate", str(trained.path), "--scenarios", scenarios, "--record", f"{tmp_path}/a.npz"),
        ("play", str(trained.path), "--scenarios", scenarios, "--html", f"{tmp_path}/a.html"),
        ("export", str(trained.path), "--out", f"{tmp_path}/export"),
    ):
        status, text = end(*start(*words, limit=limit))
        refused = [line for line in text.splitlines() if line.startswith("marinenav: error: ")]
        assert (status, len(refused)) in ((0, 0), (2, 1)), text
        assert not list(tmp_path.rglob(".*.tmp"))
