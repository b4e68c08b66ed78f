"""Runs: counting in env-steps, seeds, start weights, what is evaluated and saved."""

import gc
import math
import weakref
from contextlib import nullcontext

import pytest
import torch

from marinenav_env.specs import STATISTICS
from marinenav_env.support import plugins
from tests.host_reads import no_host_reads
from tests.train_RL_agents.tiny_runs import (
    arrays,
    at,
    differences,
    evaluations,
    new_run,
    results,
    saved,
    scalars,
    strict,
    train,
    trainer_of,
)
from train_RL_agents.commands.cli import main
from train_RL_agents.config.building import describe_late_starts
from train_RL_agents.run.checkpoint import load_policy, read_manifest, save_policy
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.torchrl_trainer import TorchRLTrainer

pytestmark = pytest.mark.usefixtures("surroundings")
SHORT = ("total_timesteps=80",)
"""Settings of a run that ends with its first evaluation."""


# Counting ---------------------------------------------------------------------------------------


def counts(tmp_path, *words):
    """How often, or when, things happened in a run."""
    run = new_run(tmp_path / str(len(list(tmp_path.iterdir()))), *words)
    trainer = TorchRLTrainer(run, quiet=True)
    targets = []
    original = trainer.algorithm.learner.update_targets
    trainer.algorithm.learner.update_targets = lambda tau: (targets.append(trainer.env_steps), original(tau))
    trainer.train()
    logged = scalars(run)
    return {
        "env_steps": trainer.env_steps,
        "updates": trainer.algorithm.learner.updates,
        "updates when logged": logged["train/updates"],
        "targets": len(targets),
        "evaluations": [row["env_steps"] for row in evaluations(run)],
        "policies": sorted(file.name for file in run.checkpoints.glob("policy_*")),
    }


def test_counts_do_not_depend_on_the_number_of_environments(tmp_path):
    found = [
        counts(
            tmp_path,
            "trainer.train_freq=24",
            "trainer.learning_starts=100",
            "trainer.target_update_interval=12",
            f"trainer.num_envs={envs}",
            f"trainer.steps_per_batch={steps}",
            "total_timesteps=240",
            "eval_freq=120",
            "log_freq=48",
            "trainer.buffer_size=500",
        )
        for envs, steps in ((8, 1), (12, 2))
    ]
    assert found[0] == found[1]
    assert found[0]["env_steps"] == 240
    assert (found[0]["updates"], found[0]["targets"]) == ((240 - 100) // 24, 20)
    assert [step for step, _ in found[0]["updates when logged"]] == [48, 96, 144, 192, 240]
    assert found[0]["evaluations"] == ["120", "240"]


def test_intervals_that_are_no_multiple_of_a_batch_are_kept_on_average(tmp_path):
    found = counts(tmp_path, "trainer.num_envs=7", "eval_freq=50", "log_freq=50", "trainer.train_freq=5")
    assert found["env_steps"] == 161
    assert found["updates"] == (161 - 16) // 5
    # The first batch past each multiple, and the end.
    assert found["evaluations"] == ["56", "105", "154", "161"]
    assert [step for step, _ in found["updates when logged"]] == [56, 105, 154, 161]


def test_schedules_reach_their_last_values(tmp_path):
    words = (
        "trainer.learning_rate=1e-3",
        "trainer.learning_rate_final=1e-5",
        "trainer.exploration_initial_eps=0.9",
        "trainer.exploration_final_eps=0.3",
        "trainer.exploration_fraction=0.5",
        "trainer.exploration_spread=0.1",
    )
    trainer = trainer_of(tmp_path, *words)
    rates, strengths = {}, {}

    def note():
        rates[trainer.env_steps - 8] = trainer.algorithm.learner.learning_rate
        strengths[trainer.env_steps - 8] = trainer.collector.policy.exploration[:, 0].tolist()

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
    trainer.algorithm.set_progress(1.0, trainer.collector.policy)
    assert trainer.algorithm.learner.learning_rate == 1e-5
    assert trainer.collector.policy.exploration[0].item() == pytest.approx(0.3)


# Training episodes ------------------------------------------------------------------------------


def recorded_episodes(trainer):
    """Train; the statistics of the episodes that ended by log entry, as the world has them."""
    found, entry = [], []
    observe, log = trainer.algorithm.add_steps, trainer.log
    trainer.algorithm.episodes.add = no_host_reads()(trainer.algorithm.episodes.add)

    def noted(steps):
        ended = steps["next", STATISTICS][steps["next", "done"].squeeze(-1)].tolist()
        entry.extend(dict(zip(trainer.collector.env.statistics, row, strict=True)) for row in ended)
        observe(steps)

    def logged():
        found.append((trainer.env_steps, list(entry)))
        entry.clear()
        log()

    trainer.algorithm.add_steps, trainer.log = noted, logged
    trainer.train()
    return found


@pytest.mark.parametrize(
    ("words", "uses_cuda_graphs"),
    [
        (("trainer.steps_per_batch=3",), True),
        (
            (
                'training_schedule.levels={"like": "traffic", "traffic": 0.5},{"like": "traffic", "num_robots": 3}',
                "agent_type=PPO",
            ),
            False,
        ),
        (("world.reward.function=tests.own_parts:published_reward",), True),
    ],
)
def test_metrics_of_training_episodes_are_logged(tmp_path, words, uses_cuda_graphs, monkeypatch):
    monkeypatch.setattr(plugins, "_allowed_references", {"tests.own_parts:published_reward"})
    run = new_run(tmp_path, *words)
    trainer = TorchRLTrainer(run, quiet=True)
    trainer.collector.uses_cuda_graphs = uses_cuda_graphs
    expected, logged = recorded_episodes(trainer), scalars(run)
    assert sum(len(episodes) for _, episodes in expected) > 10
    tags = {"return": "episode_return", "length": "episode_length"}
    for name in ("return", "length", "success", "collision"):
        found = dict(logged[f"train/{tags.get(name, f'{name}_rate')}"])
        for env_steps, episodes in expected:
            mean = sum(each[name] for each in episodes) / len(episodes) if episodes else None
            assert found.get(env_steps) == (pytest.approx(mean, abs=1e-4) if episodes else None)
    assert [value for _, value in logged["train/episodes"]] == [len(each) for _, each in expected]
    terms = [values for tag, values in logged.items() if tag.startswith("train/reward/")]
    assert len(terms) == (0 if "function" in words[0] else 5)
    if terms:
        total = [sum(value for _, value in each) for each in zip(*terms, strict=True)]
        found = [value for _, value in logged["train/episode_return"]]
        assert total == pytest.approx(found, abs=1e-4)


# Seeds and start weights ------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_run_and_another_does_not(tmp_path):
    runs = [new_run(tmp_path / name, *SHORT, seed=seed) for name, seed in (("a", 3), ("b", 3), ("c", 4))]
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
    first = new_run(tmp_path / "first", "agent_type=AC-IQN", *SHORT)
    train(first, stop_at=48)
    train(first)
    TorchRLTrainer(new_run(tmp_path / "next", "agent_type=AC-IQN", f"load_model={first.path}"))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("word", "warning"),
    [
        (
            "training.reward.collision_penalty=-100",
            r"the reward -100 of a collision, times trainer.reward_scale=0.1, counts as -5: Rainbow has returns of "
            r"-5 to 6; settings of agent widen the range",
        ),
        ("trainer.reward_scale=1", "the reward 10 of an arrival, .* counts as 6"),
        ("training.reward.collision_penalty=-50", None),
        ("agent.v_min=-10", None),
    ],
)
def test_rewards_that_an_agent_cannot_represent_are_told(tmp_path, word, warning):
    """Penalties of 100 and 400 gave the very same policy, without a word."""
    words = ("agent_type=Rainbow", "training.reward.collision_penalty=-100", word)
    warned = pytest.warns(UserWarning, match=warning) if warning else nullcontext()
    with warned:
        trainer_of(tmp_path, *words).run.writer.close()


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("trainer.learning_starts=152",), 0),
        (("trainer.learning_starts=153",), 1),
        (("trainer.learning_starts=153", "total_timesteps=161"), 0),
        (('training_schedule.levels=[{}, {"starts_at": 159}, {"starts_at": 160}]',), 1),
        (("agent_type=PPO",), 0),
    ],
)
def test_what_begins_after_the_end_of_a_run_is_told(tmp_path, words, lines):
    assert len(describe_late_starts(new_run(tmp_path, *words).config)) == lines


def test_seeds_share_a_training_folder_and_a_trainer_is_gone_before_the_next_starts(tmp_path, command, monkeypatch):
    """Memory is planned for one."""
    before, build = [], TorchRLTrainer._build

    def note(trainer, seed):
        assert [each for each in before if each() is not None] == []
        before.append(weakref.ref(trainer))
        build(trainer, seed)

    monkeypatch.setattr(TorchRLTrainer, "_build", note)
    gc.disable()
    try:
        assert main([*command, *SHORT, "--seed", "5", "7", "--json-lines"]) == 0
    finally:
        gc.enable()
    assert len(before) == 2
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("DQN_")
    runs = [RunFolder.open(path) for path in sorted(folder.iterdir())]
    assert [(run.path.name, run.seed, run.config.seed) for run in runs] == [("seed_5", 5, (5,)), ("seed_7", 7, (7,))]
    assert all(saved(run)["env_steps"] == 80 for run in runs)
    assert differences(saved(runs[0])["learner"], saved(runs[1])["learner"])


def test_weights_of_another_boat_are_a_start_and_keep_the_scales_of_this_one(tmp_path):
    large, policy = new_run(tmp_path / "large", "agent_type=DQN"), tmp_path / "large.pt"
    save_policy(policy, TorchRLTrainer(large, quiet=True).algorithm.learner.agent, large.config, 0, {})
    small = new_run(tmp_path / "small", "agent_type=DQN", "world.vessel=roboboat", f"load_model={policy}")
    weights = TorchRLTrainer(small, quiet=True).algorithm.learner.agent.networks.state_dict()
    given = load_policy(policy).agent.networks.state_dict()
    changed = {name.rpartition(".")[2] for name in given if not torch.equal(weights[name], given[name])}
    assert changed == {"self_scale", "object_scale"}


@pytest.mark.parametrize(("learns", "expected"), [(True, 0.02), (False, 0.2)])
def test_a_fixed_temperature_is_not_that_of_given_weights(tmp_path, learns, expected):
    first, policy = new_run(tmp_path / "first", "agent_type=SAC"), tmp_path / "first.pt"
    save_policy(policy, TorchRLTrainer(first, quiet=True).algorithm.learner.agent, first.config, 0, {})
    words = (f"agent.learn_temperature={learns}", "agent.temperature=0.2", f"load_model={policy}")
    learner = trainer_of(tmp_path / "next", "agent_type=SAC", *words).algorithm.learner
    for agent in (learner.agent, learner.ema):
        assert agent.networks["temperature"]().exp().item() == pytest.approx(expected)


def test_sizes_of_noise_are_in_no_policy_file_and_start_from_the_configuration(tmp_path):
    first, policy = new_run(tmp_path / "first", "agent_type=Rainbow", "agent.sigma_0=0.5"), tmp_path / "first.pt"
    agent = TorchRLTrainer(first, quiet=True).algorithm.learner.agent
    before = {name: weight.clone() for name, weight in agent.networks.state_dict().items()}
    for name, weight in agent.networks.state_dict().items():
        weight.add_(1.0 if name.endswith("_sigma") else 0.0)
    save_policy(policy, agent, first.config, 0, {})
    assert differences(dict(load_policy(policy).agent.networks.state_dict()), before) == []
    words = "agent_type=Rainbow", "agent.sigma_0=0.1", f"load_model={policy}"
    weights = trainer_of(tmp_path / "next", *words).algorithm.learner.agent.networks.state_dict()
    for name, weight in weights.items():
        assert torch.allclose(weight, before[name] * (0.2 if name.endswith("_sigma") else 1.0)), name


def test_training_starts_from_given_weights(tmp_path, finished):
    given = load_policy(finished.path, "latest")
    for path in (given.path, finished.path):
        run = new_run(tmp_path / path.name, "agent_type=AC-IQN", f"load_model={path}", seed=9)
        expected = load_policy(path).agent.networks.state_dict()
        trainer = TorchRLTrainer(run, quiet=True)
        learner, policy = trainer.algorithm.learner, trainer.collector.policy
        for agent in (learner.agent, learner.ema, policy.agent):
            assert differences(dict(agent.networks.state_dict()), dict(expected)) == []
            for name, target in agent.targets.items():
                actual = dict(agent.networks[name].state_dict())
                assert differences(dict(target.state_dict()), actual) == []


def test_start_weights_and_a_teacher_are_not_needed_any_more_on_resume(tmp_path, trained, uninterrupted):
    policy = tmp_path / "start.pt"
    policy.write_bytes(load_policy(trained.path).path.read_bytes())
    words = (f"load_model={policy}", "imitation_learning=true", f"teacher={policy}")
    expected = uninterrupted(*words)
    run = new_run(tmp_path, *words)
    train(run, stop_at=104)
    policy.unlink()
    train(run)
    assert differences(expected, results(run)) == []
    assert len(expected["scalars"]["losses/loss_imitation"]) == 4


# What is evaluated and saved --------------------------------------------------------------------


def test_evaluations_agree_with_those_of_the_saved_policies(tmp_path, finished):
    entries, out = read_manifest(finished.checkpoints)["policies"], tmp_path / "out.json"
    for row, entry in zip(evaluations(finished), entries, strict=True):
        command = ["evaluate", str(finished.checkpoints / entry["file"]), "-D", "cpu", "--json", str(out)]
        assert main(command) == 0
        metrics = strict(out)["figures"]["overall"]
        assert entry["metrics"].items() <= metrics.items()  # which has vessel-hours, too
        assert float(row["avg_return"]) == metrics["avg_return"]
    assert arrays(finished)["rewards"][1].mean() == pytest.approx(metrics["avg_return"])
