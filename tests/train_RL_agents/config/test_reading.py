import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from marinenav_env import LEVELS, ConfigError, Level
from tests.refusals import refusal
from train_RL_agents.agents import AGENTS
from train_RL_agents.config.levels import EvalLevel
from train_RL_agents.config.overrides import flatten
from train_RL_agents.config.reading import (
    apply_overrides,
    from_dict,
    iterate_settings,
    load_config,
    read_file_settings,
    restore_config,
    to_dict,
)
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.networks.encoder_config import MemoryConfig

CONFIGS = sorted((Path(__file__).parents[3] / "configs").glob("*.json"))

FIELD_FILE = """{
    "seed": [0, 1, 2],
    "total_timesteps": 6000000,
    "eval_freq": 60000,
    "save_dir": "training_data",
    "training_schedule": {
        "timesteps": [0, 1000000.0],
        "num_robots": [3, 4],
        "num_cores": [0, 4],
        "num_obstacles": [0, 2],
        "min_start_goal_dis": [30.0, 35]
    },
    "eval_schedule": {
        "num_episodes": [5, 6],
        "num_robots": [3, 5],
        "num_cores": [0, 4],
        "num_obstacles": [0, 4],
        "min_start_goal_dis": [30.0, 40.0]
    },
    "agent_type": "DQN",
    "imitation_learning": false,
    "load_model": null
}"""


def refused(values, *overrides):
    message = refusal(from_dict, values, overrides)
    assert len(message) < 400
    return message


def test_settings_of_a_run_of_the_field_are_read(tmp_path):
    """Its folder has them with the time at which it began."""
    path = tmp_path / "trial_config.json"
    given = json.loads(FIELD_FILE)
    path.write_text(json.dumps(given | {"seed": 3, "training_time": "2023-02-08-00-13-06"}))
    config = load_config(path)
    assert config == apply_overrides(from_dict(given), ["seed=3"])
    curriculum = config.training_schedule.curriculum()
    assert curriculum.timesteps == (0, 1_000_000) and type(curriculum.timesteps[1]) is int
    assert curriculum.levels == (Level(3, 0, 0, 30.0), Level(4, 4, 2, 35.0))
    assert config.eval_schedule.num_episodes == (5, 6) and config.load_model == ""
    assert "training_time" not in read_file_settings(path)
    assert "there is no such setting" in refused({}, "training_time=2023-02-08-00-13-06")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_files_load_and_make_the_round_trip(path):
    config = load_config(path)
    assert from_dict(json.loads(json.dumps(to_dict(config)))) == config


def test_a_tilde_is_the_home_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    assert from_dict({"save_dir": "~/runs"}).save_dir == from_dict({}, ["save_dir=~/runs"]).save_dir == "/home/ada/runs"


def test_a_file_adds_to_the_one_that_it_extends(tmp_path):
    """It may lie next to the file or be shipped."""
    (tmp_path / "base.json").write_text('{"extends": "ppo.json", "trainer": {"epochs": 3, "batch_size": 512}}')
    path = tmp_path / "mine.json"
    path.write_text('{"extends": "base.json", "trainer.epochs": 2, "training_schedule": {"levels": "levels/sea"}}')
    shipped, config = load_config(Path("ppo")), load_config(path)
    assert (config.trainer.epochs, config.trainer.batch_size) == (2, 512)
    assert config.eval_schedule == shipped.eval_schedule
    assert config.training_schedule != shipped.training_schedule
    assert {"trainer.batch_size", "eval_schedule.levels"} <= read_file_settings(path).keys()


@pytest.mark.parametrize(
    ("base", "sentence"),
    [
        ("mine.json", "extends='mine.json': must be a file that does not extend this one"),
        ("none.json", "mine.json: extends='none.json': must be a JSON file or one of"),
        (["ppo", "sea"], "must be the name of one configuration"),
    ],
)
def test_what_cannot_be_extended_is_refused(tmp_path, base, sentence):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"extends": base}))
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        load_config(path)


@pytest.mark.parametrize("agent_type", list(AGENTS))
def test_round_trip_of_every_kind_of_value(agent_type):
    values = {
        "agent_type": agent_type,
        "seed": 7,
        "save_dir": "a folder = with, [odd] name",
        "execution": {"compile": False},
        "world.vessel.m": [400.0, 500.5],
        "world": {"vessel": {"length": [5.0]}, "sensor": {"max_objects": [5, 3]}},
        "trainer": {"learning_rate": 1e-7, "batch_size": 2e3},
    }
    config = from_dict(values)
    assert config.seed == (7,)
    assert config.world.vessel.m == (400.0, 500.5)
    assert config.world.vessel.length == (5.0,)
    assert config.trainer.batch_size == 2_000
    assert from_dict(to_dict(config)) == config


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("seed=3", (3,)),
        ("seed=3,4", (3, 4)),
        ("loggers=", ()),
        ("total_timesteps=1e6", 1_000_000),
        ("execution.compile=false", False),
        ("seed=1_000", (1000,)),
        ("save_dir=5", "5"),
        ("save_dir=a=b", "a=b"),
        ('save_dir="my runs"', "my runs"),
        ("agent.embedding=published", "published"),
        ("world.scenario.v_range=1,2.5", (1.0, 2.5)),
    ],
)
def test_values_on_the_command_line(text, expected):
    config = from_dict({}, [text])
    key = text.partition("=")[0]
    value = next(setting.value for setting in iterate_settings(config) if setting.key == key)
    assert value == expected
    assert type(value) is type(expected)


def test_the_command_line_is_laid_over_the_file_and_the_last_word_counts():
    config = from_dict({"trainer": {"batch_size": 64, "tau": 0.5}}, ["trainer.batch_size=32", "trainer.batch_size=16"])
    assert (config.trainer.batch_size, config.trainer.tau) == (16, 0.5)
    words = "agent_type=PPO", "agent.memory.size=8", 'agent={"memory": {"kind": "gru", "size": 16}}'
    assert from_dict({}, words).agent.memory == MemoryConfig("gru", size=16)


def test_a_saved_configuration_is_read_or_said_to_be_older():
    saved = to_dict(from_dict({"agent_type": "IQN", "agent.kappa": 3.0}))
    assert restore_config(saved, "x") == from_dict(saved)
    del saved["execution"]
    with pytest.raises(ConfigError, match=r"^run/x\.json: has settings of a version before 0\.2, which this one does"):
        restore_config(saved | {"device": "cpu"}, "run/x.json")


def test_settings_of_version_0_2_are_found_where_they_are_now():
    saved = to_dict(from_dict({}))
    saved["execution"] |= {"kernel": "compiled", "precision": "bf16", "tf32": True, "fused_optimizer": False}
    for name in ("precision", "tf32", "fused_optimizer"):
        del saved["trainer"][name]
    saved["trainer"]["scale_returns"], saved["loggers"] = False, ["csv", "mlflow"]
    assert restore_config(saved, "x").loggers == ("csv",)
    trainer = restore_config(saved, "x").trainer
    assert (trainer.precision, trainer.tf32, trainer.fused_optimizer) == ("bf16", True, False)
    saved["trainer"]["scale_returns"] = True
    with pytest.raises(ConfigError, match=r"^trainer\.scale_returns=True: there is no such setting"):
        restore_config(saved, "x")


def test_a_program_gives_values():
    values = {
        "seed": np.arange(3)[2],
        "trainer": {"learning_rate": np.float32(0.5)},
        "save_dir": Path("a"),
        "world.vessel.m": np.array([1.0, 2.0]),
        "eval_schedule.levels": [LEVELS[0], {"like": "crossing"}],
    }
    config = load_config(None, values)
    assert (config.seed, config.trainer.learning_rate, config.save_dir) == ((2,), 0.5, "a")
    assert config.world.vessel.m == (1.0, 2.0)
    assert config.eval_schedule.levels == (EvalLevel(3, 0, 0, 30.0), EvalLevel(2, 0, 0, 0.0, encounter=True))
    assert apply_overrides(config, {"trainer.tau": 1}).trainer == replace(config.trainer, tau=1.0)
    for text in ("3", "3k"):  # a text of a program is a text
        with pytest.raises(ConfigError, match=rf"^seed='{text}': must be a list of whole numbers$"):
            load_config(None, {"seed": text})


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"trainer": {"batchsize": 5}},
            "trainer.batchsize=5: there is no such setting; the closest: trainer.batch_size",
        ),
        ({"batch_size": 64}, "batch_size=64: there is no such setting; the closest: trainer.batch_size"),
        ({"qqqqqqqqq": 1}, "qqqqqqqqq=1: there is no such setting; see marinenav train --help"),
        ({"trainer": 5}, "trainer=5: must be an object with settings such as trainer.num_envs"),
        (
            {"world.reward": "mine:f"},
            "world.reward='mine:f': must be an object with settings such as world.reward.function",
        ),
        ({"env.name": "gym:Walker-v4"}, "env.name='gym:Walker-v4': must be marinenav, gymnasium:NAME, "),
        ({"trainer": {"batch_size": "big"}}, "trainer.batch_size='big': must be a whole number"),
        ({"agent": {"embedding": "x"}}, "agent.embedding='x': must be one of late, published"),
        ({"agent_type": "dqnn"}, "agent_type='dqnn': must be one of AC-IQN, "),
        ({"agent": "ppo"}, "agent='ppo': must be an object with settings such as agent."),
        ({"imitation_learning": True}, "teacher='': must be a policy with imitation"),
        ({"teacher": "p.pt"}, "teacher='p.pt': must be a policy with imitation_learning=true"),
        ({"total_timesteps": 0}, "total_timesteps=0: must be"),
        ({"seed": [10**20]}, "seed=[100000000000000000000]: must be"),
        ({"world.sensor.max_objects": 65}, "world.sensor.max_objects=65: must be at least 1 and"),
        ({"trainer": {"gamma": 1.5}}, "trainer.gamma=1.5: must be"),
        ({"world.reward.collision_penalty": 5}, "world.reward.collision_penalty=5.0: must be at most 0"),
        ({"training_schedule": {"num_robots": [0] * 6}}, "training_schedule.levels: level 1: num_robots=0: must be"),
        (
            {"training_schedule": {"num_robots": [3]}},
            "training_schedule.num_robots=(3,): must be 6 long, one for each level; levels of another number",
        ),
        ({"trainer": {"tau": 1}, "trainer.tau": 1}, "trainer.tau=1: must be given once"),
    ],
)
def test_mistakes_in_files(values, expected):
    assert refused(values).startswith(expected)


@pytest.mark.parametrize("name", ["AC-IQN", "ac-iqn", "ac_iqn", "aciqn"])
def test_agents_are_known_in_other_letters(name):
    assert from_dict({"agent_type": name}).agent_type == "AC-IQN"
    assert from_dict({}, [f"agent_type={name}"]).agent_type == "AC-IQN"


@pytest.mark.parametrize("text", ["csv,a.b:C", "[csv, a.b:C]", '"csv","a.b:C"', '["csv","a.b:C"]'])
def test_texts_of_a_list_need_no_quotes(text):
    assert from_dict({}, [f"loggers={text}"]).loggers == ("csv", "a.b:C")
    assert from_dict({}, ["loggers="]).loggers == ()


def test_mistakes_on_the_command_line():
    assert refused({}, "agent=ppo").endswith("; or is it agent_type=ppo?")
    assert refused({}, "trainer.batch_size=big") == ("trainer.batch_size='big': must be a whole number")
    assert refused({}, "world.reward.collision_penalty=5").startswith("world.reward.collision_penalty=5.0: must be at")
    assert refused({}, "words").startswith("'words': must be key=value")
    expected = "agent.actions='gaussian': must be left out: DQN has no such setting, only PPO, A2C"
    assert refused({"agent_type": "DQN"}, "agent.actions=gaussian") == expected


def test_a_file_for_another_agent_is_told_in_a_sentence():
    assert "must be left out: PPO has no such setting, only" in refusal(load_config, Path("dqn"), ["agent_type=PPO"])


def test_a_mistake_in_a_file_is_told_with_another_agent_too(tmp_path):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"agent_type": "DQN", "trainer": {"gamma": 1.5}}))
    with pytest.raises(ConfigError, match=r"^trainer\.gamma=1\.5: must be"):
        load_config(file, ["agent_type=PPO"])


@pytest.mark.parametrize(
    "name, value", [("num_robots", [5] * 6), ("levels", [{"like": "crossing"}]), ("sampler", "mine:Sampler")]
)
def test_levels_beside_a_scenario_file_are_refused(name, value):
    file = {"training_schedule.scenarios": "file.json"}
    key = f"training_schedule.{name}"
    sentence = refused(file | {key: value})
    assert sentence.startswith("training_schedule.sampler=" if name == "sampler" else "training_schedule.levels=")
    assert sentence.endswith("left out: training_schedule.scenarios=file.json takes its place")
    words = [f"{key}={json.dumps(value)}"]
    assert refused(file, *words) == refused({}, *words, "training_schedule.scenarios=file.json")
    whole = flatten({"training_schedule": to_dict(TrainConfig())["training_schedule"]})
    assert from_dict(whole | file) == from_dict(file)  # it states defaults
    # What a file states is replaced on the command line, and no part of the configuration then.
    replaced = from_dict({key: value}, ["training_schedule.scenarios=file.json"])
    assert from_dict(to_dict(replaced)) == replaced == from_dict(file)
