"""Studies: what is searched, trials, pruning, going on."""

import functools
import json
import sqlite3
import time
import warnings

import pytest
import torch

from marinenav_env import ConfigError
from tests.train_RL_agents.tiny_runs import TINY
from tests.train_RL_agents.trials import write_space
from train_RL_agents.config.reading import from_dict, load_config
from train_RL_agents.config.schema import with_execution
from train_RL_agents.experiments import search as tuning
from train_RL_agents.experiments.search import (
    BEST,
    STORAGE,
    Pruning,
    Search,
    changed,
    read_space,
)
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.torchrl_trainer import DivergedError, TorchRLTrainer

CONFIG = from_dict(TINY)


# The space


def test_space_has_ranges_and_choices(tmp_path):
    kinds = pytest.importorskip("optuna", reason="needs the extra tune").distributions
    space = read_space(write_space(tmp_path), CONFIG)
    assert space["trainer.learning_rate"] == kinds.FloatDistribution(1e-4, 1e-3, log=True)
    assert space["trainer.batch_size"] == kinds.IntDistribution(4, 8)
    assert space["agent.features"] == kinds.CategoricalDistribution(['"raw"', '"geometric"'])


def test_space_may_have_former_names_of_settings(tmp_path):
    pytest.importorskip("optuna", reason="needs the extra tune")
    space = read_space(write_space(tmp_path, {"precision": ["fp32", "bf16"]}), CONFIG)
    assert space.keys() == {"execution.precision"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "an object with one or more settings"),
        ({"trainer.batch": [1]}, "trainer.batch=[1]: there is no such setting"),
        ({"agent_type": ["DQN", "IQN"]}, "a study is of one agent"),
        ({"trainer.batch_size": []}, "a list with 1 to 100 values"),
        ({"trainer.batch_size": [4, 8] * 51}, "a list with 1 to 100 values"),
        ({"trainer.batch_size": [64, -1]}, "trainer.batch_size=-1: must be at least 1"),
        ({"trainer.batch_size": ["many"]}, "trainer.batch_size='many': must be a whole number"),
        ({"trainer.batch_size": {"low": 4.5, "high": 8}}, "trainer.batch_size=4.5: must be a whole"),
        ({"trainer.tau": {"low": 0.1, "high": 2.0}}, "trainer.tau=2.0: must be"),
        ({"trainer.tau": {"low": 0.1}}, "with low, high and perhaps log"),
        ({"trainer.tau": {"low": 0.2, "high": 0.1}}, "numbers low < high"),
        ({"trainer.learning_rate_final": {"low": 0.0, "high": 0.1, "log": True}}, "above 0 where log"),
        ({"agent.features": {"low": 1, "high": 2}}, "the setting is not a single number"),
    ],
)
def test_a_space_that_makes_no_sense_is_refused(tmp_path, content, message):
    pytest.importorskip("optuna", reason="needs the extra tune")
    with pytest.raises(ConfigError) as caught:
        read_space(write_space(tmp_path, content), CONFIG)
    assert message in str(caught.value)


def test_changed_takes_dotted_keys():
    config = changed(CONFIG, {"trainer.batch_size": 4, "training_schedule.weights": [1.0, 3.0]})
    weights = config.training_schedule.curriculum().weights
    assert (config.trainer.batch_size, weights) == (4, (1.0, 3.0))


# The study


def test_a_trial_that_diverges_is_pruned(tmp_path, fake, monkeypatch):
    def diverge(trainer):
        raise DivergedError("loss became infinite or NaN between 0 and 40 env-steps")

    monkeypatch.setattr(fake, "train", diverge)
    study = Search(tmp_path / "study", CONFIG, read_space(write_space(tmp_path), CONFIG))
    line = study.run_trial(["marinenav"])
    assert line.startswith("trial 0: loss became infinite or NaN between 0 and 40 env-steps; it ")
    assert study.done == 1
    assert study.write_best() is None


def test_a_study_keeps_trials_and_the_best_configuration(tmp_path, fake):
    space = read_space(write_space(tmp_path), CONFIG)
    study = Search(tmp_path / "study", CONFIG, space)
    lines = [study.run_trial(["marinenav"]) for _ in range(3)]
    assert study.done == 3
    assert all(line.startswith(f"trial {number}: success 0.") for number, line in enumerate(lines))
    sizes = [run.config.trainer.batch_size for run in fake.made]
    best = study.write_best()
    assert best.value == max(sizes) / 10
    config = load_config(tmp_path / "study" / BEST, [])
    assert config == fake.made[best.number].config
    assert (tmp_path / "study" / "trial_0002" / "seed_0" / "trial_config.json").is_file()


@pytest.mark.parametrize(
    "names",
    [
        ("a?x", "a?y"),
        ("50%a", "50%61", "50a"),
        ("a#b", "a#c"),
        ("{a}", "{SCHEMA_VERSION}"),
        ("a b", "a+b", "\u00e4&=;:@"),
        ("file:a", "[a]"),
    ],
)
def test_every_folder_has_a_storage_of_its_own_whatever_its_name(tmp_path, fake, names):
    space = read_space(write_space(tmp_path), CONFIG)
    for name in names:
        Search(tmp_path / "studies" / name, CONFIG, space).run_trial([])
    assert {path.name for path in (tmp_path / "studies").iterdir()} == set(names)
    for name in names:
        assert (tmp_path / "studies" / name / STORAGE).is_file()
        assert Search(tmp_path / "studies" / name, CONFIG, space).done == 1


def test_a_study_goes_on_from_its_storage(tmp_path, fake):
    space = read_space(write_space(tmp_path), CONFIG)
    Search(tmp_path, CONFIG, space).run_trial([])
    fake.interrupted = True
    with pytest.raises(KeyboardInterrupt):
        Search(tmp_path, CONFIG, space).run_trial([])
    fake.interrupted = False
    again = Search(tmp_path, CONFIG, space)
    other_trial(again)  # as a process that was killed leaves it
    again = Search(tmp_path, CONFIG, space)
    assert again.done == 1
    assert again.run_trial([]).startswith("trial 3: ")
    with pytest.raises(ConfigError, match="must be new, or of the same space"):
        Search(tmp_path, CONFIG, read_space(write_space(tmp_path, {"seed": [1, 2]}), CONFIG))


def other_trial(study, seen=True):
    """A trial that another process runs, or one of a study that is older than signs of life."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # they belong to the study
        trial = study.study.ask()
    if seen:
        trial.set_user_attr("process", "1 on elsewhere")
    return trial


def test_the_last_trials_of_other_processes_are_waited_for(tmp_path, fake, monkeypatch):
    study = Search(tmp_path, CONFIG, read_space(write_space(tmp_path), CONFIG), 2)
    other, said = other_trial(study), []
    assert study.lacks_trials(said.append)
    study.run_trial([])
    assert (study.done, study.running, said) == (1, 1, [])
    failed = pytest.importorskip("optuna").trial.TrialState.FAIL
    fail = functools.partial(study.study.tell, other, state=failed, skip_if_finished=True)
    monkeypatch.setattr("time.sleep", lambda seconds: fail())
    assert study.lacks_trials(said.append)
    assert said == ["waiting for other processes, which run 1 of the last trials"]
    study.run_trial([])
    assert not study.lacks_trials(said.append)


def test_a_trial_that_another_process_has_begun_is_not_made_twice(tmp_path, fake):
    study = Search(tmp_path, CONFIG, read_space(write_space(tmp_path), CONFIG), 1)
    other_trial(study)
    assert study.run_trial([]) == ""
    assert [each.state.name for each in study.study.trials] == ["RUNNING", "FAIL"]
    assert not fake.made


def test_processes_propose_different_trials(tmp_path, fake):
    first, second = (Search(tmp_path, CONFIG, read_space(write_space(tmp_path), CONFIG)) for _ in range(2))
    for each in (first, second, first, second):
        each.run_trial([])
    rates = [each.params["trainer.learning_rate"] for each in first.study.trials]
    assert len(set(rates)) == 4


def test_trials_of_processes_that_ended_fail(tmp_path, fake, monkeypatch):
    monkeypatch.setattr(tuning, "BEAT", 1)
    monkeypatch.setattr(tuning, "GRACE", 1)
    study = Search(tmp_path, CONFIG, read_space(write_space(tmp_path), CONFIG), 1)
    killed, old = other_trial(study), other_trial(study, seen=False)
    study.study._storage.record_heartbeat(killed._trial_id)
    assert study.running == 2
    time.sleep(2.1)
    assert study.lacks_trials(pytest.fail)
    assert study.running == 0
    assert old.number == 1


def test_a_full_disk_is_not_called_a_damaged_study(tmp_path, fake, monkeypatch):
    study = Search(tmp_path, CONFIG, read_space(write_space(tmp_path), CONFIG))
    engine = study.study._storage._backend.engine
    engine.dispose()
    with sqlite3.connect(tmp_path / STORAGE) as base:
        pages = base.execute("PRAGMA page_count").fetchone()[0]

    listen = pytest.importorskip("sqlalchemy").event.listens_for

    @listen(engine, "connect")
    def limit(connection, _):
        connection.execute(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(ConfigError, match=r"cannot be written \(database or disk is full"):
        for _ in range(200):
            study.run_trial([])


def test_without_a_compiler_trials_go_on(tmp_path, fake, monkeypatch, capsys):
    made, train = [], fake.train

    def fail(trainer):
        made.append(trainer.run.config.execution.compile)
        if made[-1]:
            raise torch._dynamo.exc.TorchDynamoException("no pass")
        train(trainer)

    monkeypatch.setattr(fake, "train", fail)
    config = with_execution(CONFIG, compile=True)
    study = Search(tmp_path, config, read_space(write_space(tmp_path), config))
    assert study.run_trial([]).startswith("trial 0: success")
    assert study.run_trial([]).startswith("trial 1: success")
    assert made == [True, False, False]
    assert capsys.readouterr().out == ("without generated code, which is slower: the compiler failed (no pass)\n")


def test_a_study_goes_on_with_settings_that_are_newer_than_it(tmp_path, fake):
    space = read_space(write_space(tmp_path), CONFIG)
    study = Search(tmp_path, CONFIG, space)
    study.run_trial([])
    saved = json.loads(study.study.user_attrs["config"])
    del saved["on_divergence"]
    study.study.set_user_attr("config", json.dumps(saved))
    assert Search(tmp_path, CONFIG, space).done == 1
    saved["total_timesteps"] += 1
    study.study.set_user_attr("config", json.dumps(saved))
    with pytest.raises(ConfigError, match="must be new, or of the same config"):
        Search(tmp_path, CONFIG, space)


def test_settings_that_do_not_go_together_fail_one_trial(tmp_path, fake, monkeypatch):
    space = read_space(write_space(tmp_path), CONFIG)
    study = Search(tmp_path, CONFIG, space)
    monkeypatch.setattr(tuning, "changed", lambda config, chosen: changed(config, {"seed": [-1]}))
    line = study.run_trial([])
    assert line.startswith("trial 0: refused, seed=[-1]: must be")
    assert "it had " in line
    for _ in range(8):
        study.run_trial([])
    with pytest.raises(ConfigError, match=r"seed=\[-1\]: must be"):
        study.run_trial([])  # the tenth in a row
    assert study.done == 0


def test_a_damaged_study_is_refused(tmp_path, fake):
    (tmp_path / "study.db").write_text("no database")
    with pytest.raises(ConfigError, match=r"study\.db: damaged, or no study \(.*\)$"):
        Search(tmp_path, CONFIG, read_space(write_space(tmp_path), CONFIG))


@pytest.mark.parametrize(
    "change", ["delete from study_directions", "update study_directions set direction = 'MINIMIZE'"]
)
def test_a_study_of_another_direction_is_refused(tmp_path, fake, change):
    space = read_space(write_space(tmp_path), CONFIG)
    Search(tmp_path, CONFIG, space)
    with sqlite3.connect(tmp_path / STORAGE) as base:
        base.execute(change)
    with pytest.raises(ConfigError, match="must be a study that maximises one figure"):
        Search(tmp_path, CONFIG, space)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("update trial_params set param_value = x'0001'", "damaged, or no study"),
        ("update trial_params set param_name = 'x' || param_id", "'trial 0'.*it is damaged"),
        ("update trials set number = null", "'trial 0'.*it is damaged"),
        ("delete from trial_params", "'trial 0'.*it is damaged"),
        ("update trial_values set value = 'high'", "'trial 0'.*it is damaged"),
        ("update trial_values set value = 9e999", "'trial 0'.*it is damaged"),
        ("delete from trial_values", "'trial 0'.*it is damaged"),
        ("update trial_intermediate_values set intermediate_value = 'high'", "it is damaged"),
    ],
)
def test_a_study_with_a_damaged_trial_is_refused(tmp_path, fake, change, words):
    space = read_space(write_space(tmp_path), CONFIG)
    Search(tmp_path, CONFIG, space).run_trial([])
    with sqlite3.connect(tmp_path / STORAGE) as base:
        base.execute(change)
    before = (tmp_path / STORAGE).read_bytes()
    with pytest.raises(ConfigError, match=r"study\.db.*" + words):
        Search(tmp_path, CONFIG, space)
    assert (tmp_path / STORAGE).read_bytes() == before


@pytest.mark.parametrize("words", ["table studies already exists", "UNIQUE constraint failed: alembic_version.version"])
def test_two_processes_make_a_study_at_one_moment(tmp_path, fake, monkeypatch, words):
    optuna = pytest.importorskip("optuna", reason="needs the extra tune")
    calls = []

    class Storage(optuna.storages.RDBStorage):
        def __init__(self, *given, **more):
            calls.append(given)
            if len(calls) == 1:
                raise sqlite3.IntegrityError(words)
            super().__init__(*given, **more)

    monkeypatch.setattr(optuna.storages, "RDBStorage", Storage)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    study = Search(tmp_path, CONFIG, read_space(write_space(tmp_path), CONFIG))
    assert len(calls) == 2
    assert study.done == 0


def test_a_database_elsewhere_is_not_opened(tmp_path, fake):
    space, other = read_space(write_space(tmp_path), CONFIG), tmp_path / "other.db"
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / STORAGE).symlink_to(other)
    with pytest.raises(ConfigError, match="leads out of"):
        Search(tmp_path / "study", CONFIG, space)
    assert not other.exists()


def test_every_evaluation_is_reported_once(tmp_path, fake):
    study = Search(tmp_path, CONFIG, read_space(write_space(tmp_path), CONFIG))
    study.run_trial([])
    (trial,) = study.study.trials
    value = fake.made[0].config.trainer.batch_size / 10
    assert trial.intermediate_values == {80: value, 160: value}
    assert trial.value == value


def test_pruned_trials_count_but_are_not_the_best(tmp_path, fake, monkeypatch):
    study = Search(tmp_path, CONFIG, read_space(write_space(tmp_path), CONFIG))
    with monkeypatch.context() as patch:
        patch.setattr("optuna.Trial.should_prune", lambda trial: True)
        assert study.run_trial([]).startswith("trial 0: pruned at success 0.")
    assert list(study.study.trials[0].intermediate_values) == [80]
    assert (study.done, study.write_best()) == (1, None)
    study.run_trial([])
    assert study.write_best().number == 1


class FakeTrial:
    """Prunes after the first report."""

    def __init__(self):
        self.reports = []

    def report(self, value, step):
        self.reports.append((value, step))

    def should_prune(self):
        return len(self.reports) == 1


def test_a_real_trial_reports_every_evaluation_and_stops_when_pruned(tmp_path, tiny):
    run = RunFolder.create(from_dict(TINY, ["save_replay=false"]), 0, [], tmp_path)
    trial = FakeTrial()
    pruning = Pruning(trial)
    trainer = TorchRLTrainer(run, quiet=True, callbacks=[pruning])
    trainer.train()
    assert trial.reports == [(trainer.rows[0]["success_rate"], 80)]
    assert pruning.pruned
    assert trainer.stopped
    assert trainer.env_steps < TINY["total_timesteps"]


def test_a_run_that_is_finished_is_not_pruned(tmp_path, tiny):
    run = RunFolder.create(from_dict(TINY, ["eval_freq=160"]), 0, [], tmp_path)
    trial = FakeTrial()
    pruning = Pruning(trial)
    trainer = TorchRLTrainer(run, quiet=True, callbacks=[pruning])
    trainer.train()
    assert [step for _, step in trial.reports] == [160]
    assert not pruning.pruned
    assert not trainer.stopped
