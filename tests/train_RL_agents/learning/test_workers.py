"""Environments in other processes: shares, policies that are sent, runs, resume, falling back."""

import multiprocessing
import os
import signal

import pytest
import torch

from marinenav_env import write_scenarios
from marinenav_env.runtime.philox import RandomSource
from tests.marinenav_env.helpers import simple_episode
from tests.train_RL_agents.helpers import agent_of, make_inputs, seeded
from tests.train_RL_agents.tiny_runs import (
    at,
    begin,
    differences,
    evaluations,
    new_run,
    saved,
    scalars,
    train,
    trainer_of,
)
from train_RL_agents.config.reading import from_dict
from train_RL_agents.environments import make_environment
from train_RL_agents.learning import collectors, workers
from train_RL_agents.learning.replay import STORED_MASK
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.torchrl_trainer import TorchRLTrainer

TWO, SHORT = ("trainer.collector=processes", "trainer.collectors=2"), "total_timesteps=80"
pytestmark = pytest.mark.usefixtures("surroundings")


# What workers get -------------------------------------------------------------------------------


def noise():
    """What the noise of the second of several processes follows from."""
    return RandomSource.from_seed(3, 8, torch.device("cpu"), first=8)


def test_each_worker_has_its_share_of_one_world():
    config = from_dict(
        {"training_schedule.timesteps": [0, 5, 9, 10, 11, 12]}, ["trainer.num_envs=8", *TWO, "execution.compile=false"]
    )
    environment, agent = make_environment(config), agent_of("AC-IQN")
    envs = [make() for step in (12, 0) for make in workers._worker_env_factories(environment, agent, 0, noise(), step)]
    assert [env.num_envs for env in envs] == [4] * 4
    assert [env.env_steps for env in envs] == [6, 6, 0, 0]
    assert envs[0].reset_pool._curriculum.timesteps == (0, 3, 5, 5, 6, 6)
    steps, environments = zip(
        *((int(env.next_noise_source().step[0]), env.episodes.noise.environment.tolist()) for env in envs), strict=True
    )
    assert steps == (1, 1, 0, 0)
    assert environments[:2] == ([8, 9, 10, 11], [12, 13, 14, 15])
    goals = {tuple(env.scenario.goal.flatten().tolist()) for env in envs}
    assert len(goals) == 4
    assert (envs[0].reset_pool.states == envs[1].reset_pool.states).all()
    assert not (envs[0].reset_pool.states == envs[2].reset_pool.states).all()
    # Other processes decide when Ctrl-C ends them.
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def starts_of(env):
    """The place (m) from which each environment starts one episode after the other, and what it observes there."""
    step, starts = env.reset(), []
    for _ in range(2):
        starts.append(torch.cat((env.scenario.start[:, 0, :1], step["robots", "observation", "self_state"][:, 0]), -1))
        _, step = env.step_and_maybe_reset(step.update(env.action_spec.zero()))
    return torch.stack(starts, 1)


def test_ranks_and_workers_use_a_scenario_file_in_the_order_of_one_world(tmp_path):
    write_scenarios(tmp_path / "all.json", [simple_episode([(5 + row, 5, 0)], [(40, 40)]) for row in range(8)])
    words = [f"training_schedule.scenarios={tmp_path / 'all.json'}", "world.max_steps=1", "execution.compile=false"]
    agent, cpu = agent_of("AC-IQN"), torch.device("cpu")
    one = make_environment(from_dict({}, ["trainer.num_envs=4", *words]))
    expected = starts_of(one.make_envs(agent, cpu, 0, RandomSource.from_seed(0, 4, cpu)))
    assert sorted(expected[..., 0].flatten().tolist()) == [5.0 + row for row in range(8)]
    share = make_environment(from_dict({}, ["trainer.num_envs=2", *TWO, *words]), 2)
    second = RandomSource.from_seed(0, 2, cpu, 2)
    assert torch.equal(starts_of(share.make_envs(agent, cpu, 1, second)), expected[2:])
    envs = [starts_of(make()) for make in workers._worker_env_factories(share, agent, 1, second, 0)]
    assert torch.equal(torch.cat(envs), expected[2:])


def test_a_sent_policy_acts_as_the_latest_one_and_tosses_its_own_coins(tmp_path):
    trainer = trainer_of(tmp_path, "agent_type=AC-IQN")
    sent = workers.WorkerPolicy(trainer.collector.policy, 4)
    learned = list(trainer.algorithm.learner.agent.networks.parameters())
    with torch.no_grad():
        for each in learned:
            each.add_(0.1)
    trainer.collector.policy.set_exploration(0.8, 0.5)
    sent.copy_from(trainer.collector.policy)
    inputs = make_inputs(4, 3, generator=seeded())
    assert torch.equal(sent.agent.act(inputs), trainer.collector.policy.agent.act(inputs))
    assert torch.equal(sent.exploration, trainer.collector.policy.exploration[::2])
    assert not {id(each) for each in sent.parameters()} & {id(each) for each in learned}
    step, actions = trainer.collector.env.reset()[:4], []
    for seed in (1, 2, 1):
        workers._worker_seed, sent._generator = seed, None
        actions.append(sent(step.clone())["robots", "action"])
    assert torch.equal(actions[0], actions[2])
    assert not torch.equal(actions[0], actions[1])


# Falling back -----------------------------------------------------------------------------------


def test_without_workers_the_run_goes_on_in_this_process(tmp_path, monkeypatch, capsys):
    def refuse(*arguments, **settings):
        raise OSError("Resource temporarily unavailable\nand more")

    monkeypatch.setattr(workers, "MultiSyncCollector", refuse)
    run = new_run(tmp_path / "two", *TWO, SHORT)
    TorchRLTrainer(run, bar=False).train()
    message = "no workers by processes (Resource temporarily unavailable); collecting in this process"
    assert message in capsys.readouterr().out
    alone = new_run(tmp_path / "one", SHORT)
    train(alone)
    assert differences(saved(alone)["learner"], saved(run)["learner"]) == []
    # Also when it was interrupted: world and open windows are in the checkpoint.
    parts = new_run(tmp_path / "parts", *TWO, SHORT)
    train(parts, stop_at=56)
    assert saved(parts)["world"]["env_steps"] == 56
    train(parts)
    assert differences(saved(run), saved(parts)) == []


class Lost:
    """Stands in for workers that are lost after a batch, which is that of a world in this process."""

    def __init__(self, environment, policy, device, seed, noise, *others):
        self._policy, start = policy, noise._replace(step=noise.step.clone())
        self._env = environment.make_envs(policy.agent, device, seed, start)

    def batches(self):
        yield self._env.step_and_maybe_reset(self._policy(self._env.reset()))[0].unsqueeze(1)
        raise OSError("worker 0 was lost")

    def close(self):
        pass


def test_a_run_that_loses_its_workers_does_not_repeat_its_first_episodes(tmp_path, monkeypatch):
    monkeypatch.setattr(collectors, "Workers", Lost)
    trainer = begin(new_run(tmp_path, *TWO))
    goals = [trainer.collector.collect()["robots", "observation", "self_state"][:, 0, :, :2] for _ in range(2)]
    assert not (goals[0] == goals[1]).all((-1, -2)).any()


# Runs -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_workers_train_a_policy_and_resume_with_fresh_worlds(tmp_path):
    """What is promised: the same experience from the same seed, and all but worlds resumed."""
    runs = [new_run(tmp_path / name, *TWO, "trainer.n_steps=3") for name in ("a", "b")]
    for run in runs:
        train(run, stop_at=104)
    first, again = map(saved, runs)
    assert differences(first, again) == []
    assert (first["world"], first["env_steps"]) == (None, 104)
    assert int(first["replay"]["filled"]) > 0

    trainer = begin(RunFolder.open(runs[0].path))
    assert trainer.env_steps == 104
    assert differences(first["learner"], dict(trainer.algorithm.learner.state_dict())) == []
    assert differences(first["replay"], dict(trainer.algorithm.replay.state_dict())) == []
    opened = {}
    at(trainer, 112, lambda: opened.update(trainer.algorithm.state_dict()["n_step"]["open"]))
    trainer.train()
    assert not opened[STORED_MASK].any(), "windows of the worlds before went on"
    assert saved(runs[0])["env_steps"] == 160
    assert saved(runs[0])["learner"]["updates"] == (160 - 16) // 8
    assert [row["env_steps"] for row in evaluations(runs[0])] == ["80", "160"]
    logged = scalars(runs[0])
    terms = [dict(values) for tag, values in logged.items() if tag.startswith("train/reward/")]
    assert len(terms) == 5 and len(logged["train/episode_return"]) >= 2
    for env_steps, value in logged["train/episode_return"]:
        assert sum(term[env_steps] for term in terms) == pytest.approx(value, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "said"), [(signal.SIGKILL, "worker 0 was ended by SIGKILL"), (signal.SIGTERM, "")])
def test_a_run_goes_on_without_its_workers(tmp_path, capsys, number, said):
    run = new_run(tmp_path, *TWO, "trainer.n_steps=3")
    trainer = TorchRLTrainer(run, bar=False)
    at(trainer, 80, lambda: os.kill(multiprocessing.active_children()[0].pid, number))
    trainer.train()
    output = capsys.readouterr().out
    assert said in output
    assert ("collecting in this process" in output) == bool(said)
    assert not multiprocessing.active_children()
    assert saved(run)["env_steps"] == 160
    assert saved(run)["learner"]["updates"] == (160 - 16) // 8
    assert (saved(run)["world"] is None) == (not said)


@pytest.mark.slow
def test_ray_trains_a_policy_too(tmp_path, capsys):
    ray = pytest.importorskip("ray")
    run = new_run(tmp_path, "trainer.collector=ray", "trainer.collectors=2")
    try:
        TorchRLTrainer(run, bar=False).train()
    finally:
        ray.shutdown()
    assert "collecting in this process" not in capsys.readouterr().out
    assert saved(run)["env_steps"] == 160
    assert saved(run)["world"] is None
