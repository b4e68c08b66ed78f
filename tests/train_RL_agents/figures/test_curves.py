import json

import numpy as np
import pytest

from marinenav_env import ConfigError
from tests.train_RL_agents.figures.helpers import make_folder
from tests.train_RL_agents.tiny_runs import new_run
from train_RL_agents.figures.curves import (
    Run,
    curve_table,
    difference_table,
    drop_early_runs,
    group_runs,
    iqm_table,
    learning_curve,
    level_counts,
    level_table,
    read_runs,
)


def test_runs_that_end_before_others_begin_are_left_out_and_named():
    long, late, short = (make_run([[1], [1]], steps) for steps in ((2, 9), (4, 9), (1, 3)))
    remaining, sentences = drop_early_runs({"A": [long, short], "B": [long, late, short], "C": []})
    assert remaining == {"A": [long, short], "B": [long, late], "C": []}
    assert sentences == ["B: 1 of 3 runs left out, as they end before the first evaluation of another, at 4 env-steps"]


def make_run(success, steps=(1.0, 2.0), agent="A"):
    return Run(agent, "here", {"steps": np.array(steps)}, {"success": np.array(success)})


def scored(**levels):
    """A run with a number of successes and episodes on each level."""
    won = [number < count for count, total in levels.values() for number in range(total)]
    return Run("A", "here", {}, {"success": np.array([won])}, [name for name in levels for _ in range(levels[name][1])])


UNSCORED = Run("A", "here", {}, {})


# Reading


def test_run_folders_are_found_wherever_they_are(tmp_path):
    for seed in range(2):
        make_folder(tmp_path / "study" / "training_1" / f"seed_{seed}")
    runs = read_runs([tmp_path / "study"])
    assert [run.agent for run in runs] == ["DQN", "DQN"]
    assert {run.folder for run in runs} == {"study"}
    np.testing.assert_allclose(runs[0].axes["minutes"], [1.0, 2.0])
    assert runs[0].success_counts == {"level 1": (1, 1), "level 2": (1, 1), "overall": (2, 2)}


def test_runs_in_different_environments_are_refused(tmp_path):
    paths = [make_folder(tmp_path / name) for name in ("one", "two", "three")]
    config = paths[2] / "trial_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"env": {"name": "gymnasium:CartPole-v1"}}))
    assert len(read_runs(paths[:2])) == 2 and len(read_runs(paths[2:])) == 1
    with pytest.raises(ConfigError, match="RUN='runs in gymnasium:CartPole-v1, marinenav': must be runs in one"):
        read_runs(paths)


def test_episodes_of_external_environments_have_no_levels(tmp_path):
    folder = make_folder(tmp_path / "run")
    config = folder / "trial_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"env": {"name": "gymnasium:CartPole-v1"}}))
    (run,) = read_runs([folder])
    assert [*run.success_counts] == ["overall"]


def test_files_of_stable_baselines3_are_read(tmp_path):
    path = tmp_path / "ppo" / "evaluations.npz"
    path.parent.mkdir()
    np.savez(path, timesteps=[10, 20], results=[[1.0, 3.0], [4.0, 6.0]],
             ep_lengths=[[5, 5], [6, 6]], successes=[[False, True], [True, True]])  # fmt: skip
    [run] = read_runs([path])
    assert run.agent == "ppo"
    np.testing.assert_allclose(learning_curve([run], "steps", "return").mean, [2.0, 5.0])
    np.testing.assert_allclose(learning_curve([run], "steps", "success").mean, [0.5, 1.0])
    assert learning_curve([run], "minutes", "success") is None
    assert run.success_counts == {"overall": (2, 2)}


def test_values_of_each_robot_become_those_of_the_episode(tmp_path):
    success, rewards = [[[1, 0], [1, 1]], [[0, 1], [0, 0]]], np.arange(8.0).reshape(2, 2, 2)
    arrays = {"successes": success, "times": np.full((2, 2, 2), 9.0), "rewards": rewards}
    np.savez(tmp_path / "evaluations.npz", timesteps=[1, 2], **arrays)
    (run,) = read_runs([tmp_path])
    np.testing.assert_allclose(learning_curve([run], "steps", "return").mean, [1.5, 5.5])
    assert run.episodes["success"].tolist() == [[0.0, 1.0], [0.0, 0.0]]
    assert np.isnan(run.episodes["time"]).tolist() == [[True, False], [True, True]]
    assert run.success_counts == {"overall": (0, 2)}


@pytest.mark.heavy
def test_returns_while_training_have_a_curve_of_their_own(tmp_path):
    run = new_run(tmp_path)
    for steps, value in ((8, -50.0), (16, -20.0), (24, 1.0)):
        run.writer.log({"train/episode_return": value, "train/episodes": 3.0}, steps)
    run.writer.close()
    np.savez(run.path / "evaluations.npz", timesteps=[24], successes=[[1, 0]])
    runs = read_runs([run.path])
    line = learning_curve(runs, "steps", "training")
    assert (line.x.tolist(), line.mean.tolist()) == ([8, 16, 24], [-50.0, -20.0, 1.0])
    assert learning_curve(runs, "minutes", "training") is None
    assert learning_curve(runs, "steps", "success").x.tolist() == [24]


def ragged(*rows):
    """An array of Python objects, which numpy saves as a pickle."""
    found = np.empty(len(rows), dtype=object)
    found[:] = rows
    return found


def test_python_objects_are_left_out(tmp_path):
    [run] = read_runs([make_folder(tmp_path / "a", actions=ragged([1], [1, 2]), times=ragged([1], [1, 2]))])
    assert run.episodes.keys() == {"success", "return"}
    np.testing.assert_allclose(learning_curve([run], "steps", "success").mean, [0.5, 1.0])


@pytest.mark.parametrize("steps", [[1000, 2000, 1000], [1000, 2000, 2000]])
def test_evaluations_that_begin_again_are_refused(tmp_path, steps):
    path = tmp_path / "evaluations.npz"
    np.savez(path, timesteps=steps, successes=np.ones((3, 2)))
    with pytest.raises(ConfigError, match="must be numbers that rise from one evaluation to the next"):
        read_runs([path])


# Statistics


def test_a_curve_is_the_mean_over_runs_as_far_as_all_go():
    runs = [make_run([[0, 0], [1, 1], [1, 1]], (1, 2, 3)), make_run([[1, 1], [1, 0]], (1, 2.5))]
    found = learning_curve(runs, "steps", "success")
    np.testing.assert_allclose(found.x, [1.0, 2.0, 2.5])
    np.testing.assert_allclose(found.mean, [0.5, 1.0, 0.75])
    assert found.runs == 2


def test_nothing_succeeds_yet_is_a_gap():
    runs = [make_run([[0.0, 0.0], [1.0, 1.0]])]
    runs[0].episodes["time"] = np.array([[np.nan, np.nan], [5.0, 7.0]])
    found = learning_curve(runs, "steps", "time")
    assert np.isnan([found.mean[0], found.low[0], found.high[0]]).all()
    assert found.mean[1] == 6.0


def test_levels_are_pooled_over_runs_with_wilson_intervals():
    row, overall, other = level_table({"A": [scored(a=(8, 10)), scored(a=(2, 10), b=(1, 4))]})
    assert (overall["level"], overall["successes"], overall["episodes"]) == ("overall", 11, 24)
    assert (other["level"], other["successes"], other["episodes"]) == ("b", 1, 4)
    assert (row["successes"], row["episodes"], row["rate"]) == (10, 20, 0.5)
    # Wilson (1927) for 10 of 20.
    assert (row["low"], row["high"]) == pytest.approx((0.2993, 0.7007), abs=1e-4)


def test_tables_have_every_group_and_axis(tmp_path):
    paths = [make_folder(tmp_path / name, name) for name in ("IQN", "DQN")]
    groups = group_runs(read_runs(paths), "agent")
    assert list(groups) == ["DQN", "IQN"]
    rows = curve_table(groups)
    assert {row["axis"] for row in rows} == {"steps", "minutes"}
    assert {row["metric"] for row in rows} == {"success", "return", "time"}
    assert len(rows) == 2 * 2 * 3 * 2


def test_means_are_of_levels_that_all_have():
    groups = {"A": [scored(a=(3, 4), b=(1, 4))], "B": [scored(a=(4, 4))] * 2}
    assert [each.tolist() for each in level_counts(groups.values())] == [[[[3, 4]]], [[[4, 4]]] * 2]
    rows = iqm_table(groups)
    assert [(row["group"], row["iqm"], row["mean"], row["runs"]) for row in rows] == [
        ("A", 0.75, 0.75, 1),
        ("B", 1.0, 1.0, 2),
    ]
    assert level_counts([[UNSCORED]])[0].shape == (1, 0, 2)
    assert iqm_table({"A": [UNSCORED]}) == []


def test_differences_are_of_every_pair():
    groups = {"A": [scored(a=(4, 4))] * 2, "B": [scored(a=(4, 4))] * 2, "C": [scored(a=(0, 4))] * 2}
    rows = difference_table(groups)
    pairs = [("A", "B", 0.0), ("A", "C", 1.0), ("B", "C", 1.0)]
    assert [(row["group"], row["over"], row["difference"]) for row in rows] == pairs
