"""Searches: spaces, proposals, results, pruning, going on."""

import json
from dataclasses import replace

import pytest

from marinenav_env import ConfigError
from tests.train_RL_agents.tiny_runs import TINY
from tests.train_RL_agents.trials import finish, make_trial, write_space
from train_RL_agents.config.reading import apply_overrides, from_dict, load_config
from train_RL_agents.experiments import search as module
from train_RL_agents.experiments.search import BEST_CONFIG_NAME, STORAGE_NAME, Search, read_space

optuna = pytest.importorskip("optuna", reason="needs the extra tune")
CONFIG = from_dict(TINY)


@pytest.fixture
def space(tmp_path):
    (tmp_path / "space").mkdir()
    return read_space(write_space(tmp_path / "space"), CONFIG)


def test_a_trial_that_diverges_is_pruned(tmp_path, space, capsys):
    study = Search(tmp_path, CONFIG, space)
    make_trial(study, 2, "loss became infinite or NaN between 0 and 40 env-steps", True)
    line = capsys.readouterr().out
    assert line.startswith("trial 0: loss became infinite or NaN between 0 and 40 env-steps; it had ")
    assert study.num_finished == 1
    assert study.write_best() is None


def test_a_trial_that_fails_is_made_again_but_not_ten_in_a_row(tmp_path, space, capsys):
    study = Search(tmp_path, CONFIG, space, 1)
    make_trial(study, 2, "marinenav: error: it broke")
    assert capsys.readouterr().out.startswith("trial 0: refused, it broke; it had trainer.learning_rate=")
    for _ in range(8):
        make_trial(study, -9, "it said nothing")
    assert study.num_finished == 0
    with pytest.raises(ConfigError, match="it said nothing"):
        make_trial(study, -9, "it said nothing")


def test_a_study_keeps_trials_and_the_best_configuration(tmp_path, space, capsys):
    study = Search(tmp_path / "study", CONFIG, space)
    configs = [make_trial(study) for _ in range(3)]
    assert study.num_finished == 3
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(line.startswith(f"trial {number}: success 0.") for number, line in enumerate(lines))
    best = study.write_best()
    assert best.value == max(config.trainer.batch_size for config in configs) / 10
    assert load_config(tmp_path / "study" / BEST_CONFIG_NAME, []) == configs[best.number]
    assert (tmp_path / "study" / "trial_0002" / "seed_0" / "trial_config.json").is_file()


def test_the_best_configuration_is_that_of_a_run_that_can_be_resumed(tmp_path, space):
    trials = apply_overrides(CONFIG, ["save_replay=false"])
    study = Search(tmp_path, trials, space, best_base=CONFIG)
    config = make_trial(study)
    study.write_best()
    assert not config.save_replay
    assert load_config(tmp_path / BEST_CONFIG_NAME, []) == replace(config, save_replay=True)


@pytest.mark.parametrize("names", [("a?x", "a?y"), ("50%a", "50%61", "50a"), ("a#b", "a#c"), ("file:a", "[a]")])
def test_every_folder_has_a_storage_of_its_own_whatever_its_name(tmp_path, space, names):
    for name in names:
        make_trial(Search(tmp_path / "studies" / name, CONFIG, space))
    assert {path.name for path in (tmp_path / "studies").iterdir()} == set(names)
    for name in names:
        assert (tmp_path / "studies" / name / STORAGE_NAME).is_file()
        assert Search(tmp_path / "studies" / name, CONFIG, space).num_finished == 1


def test_a_study_goes_on_from_its_storage(tmp_path, space, capsys):
    make_trial(Search(tmp_path, CONFIG, space))
    make_trial(Search(tmp_path, CONFIG, space), 130)  # stopped
    next(Search(tmp_path, CONFIG, space).runs([]))  # as a process that was killed leaves it
    again = Search(tmp_path, CONFIG, space)
    assert again.num_finished == 1
    make_trial(again)
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["trial 0", "trial 3"]
    with pytest.raises(ConfigError, match="must be new, or of the same space"):
        Search(tmp_path, CONFIG, read_space(write_space(tmp_path, {"seed": [1, 2]}), CONFIG))


def test_several_seeds_of_a_trial_are_refused(tmp_path, space):
    with pytest.raises(ConfigError, match=r"seed=\(0, 1\): must be one number, since a trial is one run"):
        Search(tmp_path / "study", apply_overrides(CONFIG, ["seed=0,1"]), space)
    assert not (tmp_path / "study").exists()


def test_a_continued_study_proposes_other_trials(tmp_path, space):
    for _ in range(3):
        make_trial(Search(tmp_path, CONFIG, space))
    rates = [trial.params["trainer.learning_rate"] for trial in Search(tmp_path, CONFIG, space).study.trials]
    assert len(set(rates)) == 3


def test_the_end_of_the_last_trials_is_waited_for(tmp_path, space):
    study = Search(tmp_path, CONFIG, space, 2)
    runs = study.runs([])
    first, second = next(runs), next(runs)
    assert next(runs) is None
    finish(first)
    assert next(runs) is None
    finish(second, 1, "it broke")
    finish(next(runs))
    assert list(runs) == []


def test_a_study_goes_on_with_the_same_settings_only(tmp_path, space):
    study = Search(tmp_path, CONFIG, space)
    make_trial(study)
    saved = json.loads(study.study.user_attrs["config"])
    assert Search(tmp_path, CONFIG, space).num_finished == 1
    saved["total_timesteps"] += 1
    study.study.set_user_attr("config", json.dumps(saved))
    with pytest.raises(ConfigError, match="must be new, or of the same config"):
        Search(tmp_path, CONFIG, space)


def test_settings_that_do_not_go_together_end_a_trial_only(tmp_path, space, monkeypatch, capsys):
    study = Search(tmp_path, CONFIG, space)
    with monkeypatch.context() as patch:
        wrong = iter([{"seed": [-1]}])
        patch.setattr(module, "apply_overrides", lambda config, values: apply_overrides(config, next(wrong, values)))
        make_trial(study)
    refused, accepted = capsys.readouterr().out.splitlines()
    assert refused.startswith("trial 0: refused, seed=[-1]: must be")
    assert "it had " in refused
    assert accepted.startswith("trial 1: success")
    monkeypatch.setattr(module, "apply_overrides", lambda config, values: apply_overrides(config, {"seed": [-1]}))
    with pytest.raises(ConfigError, match=r"seed=\[-1\]: must be"):
        make_trial(study)
    assert len(study.study.trials) == 12  # the tenth refusal in a row


def test_a_damaged_study_is_refused(tmp_path, space):
    (tmp_path / STORAGE_NAME).write_text("no database")
    with pytest.raises(ConfigError, match=r"study\.db: damaged, no study, or cannot be written \(.*\)$"):
        Search(tmp_path, CONFIG, space)


def test_pruned_trials_count_but_are_not_the_best(tmp_path, space, monkeypatch, capsys):
    study = Search(tmp_path, CONFIG, space)
    with monkeypatch.context() as patch:
        patch.setattr("optuna.Trial.should_prune", lambda trial: True)
        make_trial(study)
    assert capsys.readouterr().out.startswith("trial 0: pruned at success 0.")
    assert list(study.study.trials[0].intermediate_values) == [80]
    assert (study.num_finished, study.write_best()) == (1, None)
    make_trial(study)
    assert study.write_best().number == 1


def test_trials_are_compared_at_the_same_evaluation_whatever_the_size_of_their_batches(tmp_path, space):
    study = Search(tmp_path, CONFIG, space)
    run = next(study.runs([]))
    for env_steps in (80 + 16, 160 + 32):
        run.on_evaluation(env_steps, 0.5)
    assert [*study.study.get_trials()[0].intermediate_values] == [80, 160]


def test_a_run_that_is_finished_is_not_pruned(tmp_path, space, monkeypatch):
    monkeypatch.setattr("optuna.Trial.should_prune", lambda trial: True)
    run = next(Search(tmp_path, CONFIG, space).runs([]))
    assert not run.on_evaluation(160, 0.5)


def test_space_has_ranges_and_choices(tmp_path):
    kinds = optuna.distributions
    space = read_space(write_space(tmp_path), CONFIG)
    assert space["trainer.learning_rate"] == kinds.FloatDistribution(1e-4, 1e-3, log=True)
    assert space["trainer.batch_size"] == kinds.IntDistribution(4, 8)
    assert space["agent.features"] == kinds.CategoricalDistribution(['"raw"', '"geometric"'])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "an object with one or more settings"),
        ({"trainer.batch": [1]}, "trainer.batch=[1]: there is no such setting"),
        ({"agent_type": ["DQN", "IQN"]}, "a study is of one agent"),
        ({"trainer.batch_size": [4, 8] * 51}, "a list with 1 to 100 values"),
        ({"trainer.batch_size": [64, -1]}, "trainer.batch_size=-1: must be at least 1"),
        ({"trainer.batch_size": {"low": 4.5, "high": 8}}, "trainer.batch_size=4.5: must be a whole"),
        ({"trainer.tau": {"low": 0.1}}, "with low, high and perhaps log"),
        ({"trainer.tau": {"low": 0.2, "high": 0.1}}, "numbers low < high"),
        ({"trainer.learning_rate_final": {"low": 0.0, "high": 0.1, "log": True}}, "above 0 where log"),
        ({"agent.features": {"low": 1, "high": 2}}, "the setting is not a single number"),
    ],
)
def test_a_space_that_makes_no_sense_is_refused(tmp_path, content, message):
    with pytest.raises(ConfigError) as caught:
        read_space(write_space(tmp_path, content), CONFIG)
    assert message in str(caught.value)
