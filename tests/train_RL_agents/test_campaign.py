"""A small campaign against runs: kills, signals and limits of files at random moments."""

import multiprocessing
import random
import signal
import time

import pytest

from marinenav_env.support import plugins
from tests.train_RL_agents.tiny_runs import (
    TINY,
    differences,
    evaluations,
    new_run,
    no_temporaries,
    results,
    saved,
    train,
    train_and_die,
)
from train_RL_agents.agents import AGENTS
from train_RL_agents.config.reading import from_dict
from train_RL_agents.run.run_folder import RunFolder

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
        process = CONTEXT.Process(target=train_and_die, args=(run.path, "never", 1))
        process.start()
        process.join(moments.uniform(0.1, 2.0 * taken) if kills else None)
        process.kill()
        process.join()
    assert process.exitcode == 0
    assert differences(results(whole), results(run)) == []
    assert no_temporaries(run)


CHASE = "tests.train_RL_agents.other_envs:Chase"
OTHERS = {
    CHASE: (None, "DQN", ("env.options=action=one_hot",)),
    "vmas:navigation": ("vmas", "AC-IQN", ("env.options=n_agents=2",)),
    "pettingzoo:mpe2/simple_spread_v3": ("mpe2", "DQN", ()),
    "gymnasium:LunarLander-v3": ("Box2D", "IQN", ()),
}
"""Package, agent and settings by the name of the environment; the state of the first can be saved."""


def _train_in_other(folder):
    plugins.allow(CHASE)
    train_and_die(folder, "never", 1)


@pytest.mark.parametrize("name", OTHERS)
def test_a_run_in_an_environment_of_others_that_is_killed_goes_on(tmp_path, name):
    package, agent, words = OTHERS[name]
    if package is not None:
        pytest.importorskip(package)
    plugins.allow(CHASE)
    content = {key: TINY[key] for key in ("log_freq", "execution", "trainer")} | {"agent_type": agent}
    words = (*words, f"env.name={name}", "env.max_steps=10", "env.eval_episodes=2", "total_timesteps=240")
    config, moments = from_dict(content, [*words, "eval_freq=40"]), random.Random(name)
    whole, run = (RunFolder.create(config, 0, ["marinenav"], tmp_path / folder) for folder in ("whole", "parts"))
    began = time.monotonic()
    _train_in_other(whole.path)
    taken = time.monotonic() - began
    ends = []
    # A process needs at least the time of the whole run for the rest of it, so the first is killed before its end.
    for longest in (0.9 * taken, 2.0 * taken, None):
        process = CONTEXT.Process(target=_train_in_other, args=(run.path,))
        process.start()
        process.join(longest and moments.uniform(0.1, longest))
        process.kill()
        process.join()
        ends.append(process.exitcode)
    assert ends[0] == -signal.SIGKILL and ends[-1] == 0 and no_temporaries(run)
    assert [int(row["env_steps"]) for row in evaluations(run)] == [40, 80, 120, 160, 200, 240]
    if name == CHASE:
        rows = [[row["avg_return"] for row in evaluations(part)] for part in (whole, run)]
        assert differences(saved(whole), saved(run)) == [] and rows[0] == rows[1]
