"""Runs that are killed at random moments, of every agent."""

import multiprocessing
import random
import time

import pytest

from tests.train_RL_agents.tiny_runs import differences, new_run, no_temporaries, results, train, train_apart
from train_RL_agents.agents import AGENTS

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("surroundings")]


CONTEXT = multiprocessing.get_context("forkserver")
"""Starts processes that have imported everything. A process that has used autograd, as the tests
have, cannot be forked."""
CONTEXT.set_forkserver_preload(["tests.train_RL_agents.test_campaign"])


@pytest.mark.parametrize("agent", AGENTS)
def test_a_run_that_is_killed_at_random_moments_ends_with_the_same_bits(tmp_path, agent):
    moments = random.Random(agent)
    words = (f"agent_type={agent}", "eval_freq=40", "total_timesteps=120")
    whole, run = (new_run(tmp_path / name, *words) for name in ("whole", "parts"))
    began = time.monotonic()
    train(whole)
    taken = time.monotonic() - began
    for kills in (True, True, False):
        process = CONTEXT.Process(target=train_apart, args=(run.path, None))
        process.start()
        process.join(moments.uniform(0.1, 2.0 * taken) if kills else None)
        process.kill()
        process.join()
    assert process.exitcode == 0
    assert differences(results(whole), results(run)) == []
    assert no_temporaries(run)
