"""What a run's folder holds, and that its parts agree."""

import itertools
import math
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from marinenav_env import ConfigError, read_scenarios
from tests.refusals import refusal
from tests.train_RL_agents.tiny_runs import CPU, TIMES, TINY, arrays, evaluations, files, new_run, scalars, strict
from train_RL_agents.config.reading import from_dict, load_config, to_dict
from train_RL_agents.evaluation.running.episodes import run_episodes
from train_RL_agents.policy_wrapper import PolicyWrapper
from train_RL_agents.run import run_folder
from train_RL_agents.run.checkpoint import load_policy, read_manifest
from train_RL_agents.run.run_folder import RunFolder, best_policy

STEPS = [80, 160]


# A new folder -----------------------------------------------------------------------------------


def test_a_new_folder_says_what_is_run(tmp_path):
    config = from_dict(TINY, ["seed=3,4", f"save_dir={tmp_path}"])
    argv = ["marinenav", "train", "-C", "my file.json", "seed=3,4"]
    run = RunFolder.create(config, 4, argv)
    assert run.path.parent.parent == tmp_path
    assert run.path.parent.name.startswith("DQN_20")
    assert run.path.name == "seed_4"
    assert sorted(files(run.path)) == ["command.txt", "git_diff.patch", "trial_config.json", "versions.json"]
    assert run.checkpoints.is_dir()
    assert shlex.split((run.path / "command.txt").read_text()) == argv
    assert "'my file.json' seed=3,4" in (run.path / "command.txt").read_text()
    assert run.config == replace(config, seed=(4,))
    assert run.seed == 4


@pytest.mark.parametrize("agent", ["AC-IQN", "PPO"])
def test_the_configuration_is_read_back(tmp_path, agent):
    words = (
        f"agent_type={agent}",
        "trainer.gamma=0.9",
        "training_schedule.timesteps=0,50",
        "world.vessel.m=300,350.5,400",
        "trainer.learning_rate=1e-4",
    )
    run = new_run(tmp_path, *words, seed=7)
    opened = RunFolder.open(run.path)
    assert (opened.config, opened.seed, opened.path) == (run.config, 7, run.path)
    assert load_config(run.path / "trial_config.json") == run.config
    assert strict(run.path / "trial_config.json") == to_dict(run.config)


def test_a_run_finds_its_scenarios_from_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = new_run(tmp_path / "runs", "training_schedule.scenarios=waters/mine.json")
    assert RunFolder.open(run.path).config.training_schedule.scenarios == str(tmp_path / "waters" / "mine.json")


def test_an_existing_folder_is_refused(tmp_path):
    run = new_run(tmp_path)
    before = files(tmp_path)
    message = refusal(new_run, tmp_path)
    assert "must be new; use --resume to go on with it" in message and str(run.path) in message
    assert files(tmp_path) == before


def test_commands_that_start_within_a_second_have_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder.time, "strftime", lambda form: "now")
    config = from_dict(TINY, [f"save_dir={tmp_path / 'runs'}"])
    # All look before any of them makes its folder.
    monkeypatch.setattr(Path, "exists", lambda path: False)
    with ThreadPoolExecutor() as pool:
        parents = list(pool.map(RunFolder.make_parent, [config] * 8))
    names = ["DQN_now", *(f"DQN_now_{count}" for count in range(2, 9))]
    assert sorted(path.name for path in parents) == names
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == names


def test_open_finds_the_only_run(tmp_path):
    run = new_run(tmp_path)
    assert RunFolder.open(tmp_path).path == run.path
    new_run(tmp_path, seed=1)
    with pytest.raises(ConfigError, match="must be a single run"):
        RunFolder.open(tmp_path)
    with pytest.raises(ConfigError, match="must be a run folder"):
        RunFolder.open(tmp_path / "absent")


def test_a_damaged_configuration_is_refused(tmp_path):
    run = new_run(tmp_path)
    file = run.path / "trial_config.json"
    file.write_text(file.read_text()[:100])
    message = refusal(RunFolder.open, run.path)
    assert "cannot be read as JSON settings" in message and str(file) in message


# Evaluations ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.* starts that touch another robot")
def test_the_scenario_file_reproduces_an_evaluation(finished):
    loaded = load_policy(finished.path, "latest")
    episodes = run_episodes(
        PolicyWrapper(loaded.agent),
        read_scenarios(finished.path / "eval_configs.json"),
        loaded.config.world,
        continuous=True,
        device=CPU,
        seed=loaded.config.eval_schedule.seed,
    )
    recorded = arrays(finished)
    assert episodes.returns.tolist() == pytest.approx(recorded["rewards"][-1].tolist(), abs=1e-5)
    assert episodes.success.tolist() == recorded["successes"][-1].tolist()
    assert episodes.collision.tolist() == recorded["collisions"][-1].tolist()


def test_evaluations_in_tensorboard_and_manifest_agree_with_the_table(finished):
    rows, logged = evaluations(finished), scalars(finished)
    entries = read_manifest(finished.checkpoints)["policies"]
    for row, entry in zip(rows, entries, strict=True):
        assert entry["env_steps"] == int(row["env_steps"])
        for name, value in entry["metrics"].items():
            assert row[name] == ("" if value is None else str(value))
    for name in rows[0]:
        if name in ("env_steps", *TIMES):
            assert f"eval/{name}" not in logged
            continue
        expected = [(step, float(row[name])) for step, row in zip(STEPS, rows, strict=True) if row[name]]
        steps, values = zip(*logged.get(f"eval/{name}", []), strict=True) if expected else ((), ())
        assert list(steps) == [step for step, _ in expected]
        assert list(values) == pytest.approx([value for _, value in expected])


# TensorBoard ------------------------------------------------------------------------------------


def test_tensorboard_has_every_kind_of_scalar_over_env_steps(finished):
    logged = scalars(finished)
    for tag in ("train/replay_fill", "train/updates", "charts/SPS", "losses/loss_critic", "losses/grad_norm"):
        assert [step for step, _ in logged[tag]] == [40, 80, 120, 160], tag
    # On a slow machine there is time for a sample of its use.
    kinds = {"train", "eval", "losses", "time", "charts", "Result", "Training"}
    assert {tag.partition("/")[0] for tag in logged} - {"system"} == kinds
    assert [step for step, _ in logged["eval/success_rate"]] == STEPS
    for phase in ("collect", "insert", "sample", "update", "evaluate", "save"):
        assert all(0.0 <= share <= 1.0 for _, share in logged[f"time/{phase}"]), phase
    assert [round(value) for _, value in logged["train/updates"]] == [3, 8, 13, 18]
    fill = [value for _, value in logged["train/replay_fill"]]
    assert fill == sorted(fill)
    assert fill[-1] == 1.0
    assert all(value > 0.0 for _, value in logged["charts/SPS"])


def test_what_is_missing_or_not_finite_is_not_logged(tmp_path):
    run = new_run(tmp_path)
    run.writer.log({"a": 1.0, "b": None, "c": math.nan, "d": math.inf, "e": 0.0}, 8)
    run.writer.close()
    assert scalars(run) == {"a": [(8, 1.0)], "e": [(8, 0.0)]}


def test_entries_after_the_checkpoint_are_hidden(tmp_path, monkeypatch):
    # Event files are read in the order of their names, which begin with the second of their making.
    seconds = itertools.count(1_700_000_000.0)
    monkeypatch.setattr(time, "time", lambda: next(seconds))
    run = new_run(tmp_path)
    for step in (10, 20, 30):
        run.writer.log({"a": 1.0}, step)
    run.writer.close()
    again = RunFolder.open(run.path)
    again.writer.resumed_at = 20
    again.writer.log({"a": 2.0}, 30)
    again.writer.close()
    assert scalars(run) == {"a": [(10, 1.0), (20, 1.0), (30, 2.0)]}
    # Started again in the same folder.
    again = RunFolder.open(run.path)
    again.writer.log({"a": 3.0}, 10)
    again.writer.close()
    assert scalars(run) == {"a": [(10, 3.0)]}


def test_events_are_on_the_disk_after_a_flush(tmp_path):
    run = new_run(tmp_path)
    run.writer.flush()  # nothing yet
    assert not list(run.path.glob("events*"))
    run.writer.log({"a": 1.0}, 8)
    run.writer.flush()
    assert scalars(run) == {"a": [(8, 1.0)]}
    run.writer.close()
    run.writer.close()


# Manifest and other files -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metrics", "best"),
    [
        ([(1.0, 0.1, 3.0), (59 / 60, 0.1, 3.3)], 1),  # one episode of 60 less counts as equal
        ([(1.0, 0.1, 3.0), (58 / 60, 0.05, 3.3)], 0),  # two
        ([(54 / 60, 0.1, 3.0), (52 / 60, 0.1, 3.3), (51 / 60, 0.1, 3.5)], 1),  # a standard error is 0.039
        ([(0.983, 0.1, 3.0), (0.983, 0.1, 3.0)], 0),
        ([(None, None, 3.0), (None, None, 3.3)], 1),  # of an environment without success
        ([(0.9, 0.1, None), (0.9, 0.1, 3.3)], 1),
        ([(1.0, 0.1, 9.0), (59 / 60, 0.05, 3.0)], 1),
        ([(1.0, None, 3.0), (1.0, None, 9.0)], 1),
        ([(1 / 60, 0.5, 3.0), (0.0, 0.0, 9.0)], 0),
    ],
)
def test_the_best_policy_has_fewest_collisions_then_the_highest_return_near_the_highest_success(metrics, best):
    names = "success_rate", "collision_rate", "avg_return"
    entries = [{"metrics": dict(zip(names, values, strict=True)) | {"episodes": 60}} for values in metrics]
    assert best_policy(entries) is entries[best]


def test_a_policy_is_added_as_the_latest_and_perhaps_the_best(tmp_path):
    run = new_run(tmp_path)
    bests = []
    for step, success, gained, best in (
        (8, 0.0, None, True),
        (16, 0.0, -3.0, True),
        (24, 0.5, -9.0, True),
        (32, 0.4, 9.0, False),
        (40, 0.5, -8.0, True),
        (48, 0.46, -7.0, True),  # within a standard error
        (56, 0.5, None, False),
    ):
        metrics = {"success_rate": success, "avg_return": gained, "episodes": 100}
        assert run.add_policy(f"policy_{step}.pt", step, metrics) == best, step
        manifest = read_manifest(run.checkpoints)
        assert manifest["latest"] == f"policy_{step}.pt"
        bests.append(manifest["best"])
    assert bests == [f"policy_{step}.pt" for step in (8, 16, 24, 24, 40, 48, 48)]
    # A resumed run repeats what came after its checkpoint.
    assert run.add_policy("policy_40.pt", 40, {"success_rate": 0.1, "avg_return": 0.0}) is False
    manifest = read_manifest(run.checkpoints)
    assert [entry["env_steps"] for entry in manifest["policies"]] == [8, 16, 24, 32, 40]
    assert (manifest["latest"], manifest["best"]) == ("policy_40.pt", "policy_24.pt")
