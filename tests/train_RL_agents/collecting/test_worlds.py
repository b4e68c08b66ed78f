"""The training world of a configuration."""

import json
import re
from pathlib import Path

import pytest
import torch

from marinenav_env import ConfigError, write_scenarios
from marinenav_env.config import RewardConfig, SensorConfig
from tests.marinenav_env.helpers import simple_episode
from tests.train_RL_agents.fake_gpu import GPU, fake_gpu
from tests.train_RL_agents.learners import agent_of
from tests.train_RL_agents.tiny_runs import small_pool
from train_RL_agents.config.reading import (
    apply_overrides,
    from_dict,
    load_config,
    restore_config,
    to_dict,
)
from train_RL_agents.config.schema import TRAINING_REWARD_NAMES, TrainingReward
from train_RL_agents.environments.marinenav import BuiltInEnvironment
from train_RL_agents.environments.worlds import training_scenarios, training_world

DATA = Path(__file__).parents[2] / "data"
WORDS = [
    "training.reward.collision_penalty=-7",
    "world.max_steps=9",
    "trainer.num_envs=3",
    "trainer.learning_starts=0",
    "execution.compile=false",
]


def test_collisions_cost_what_the_trainer_says_while_training():
    config = from_dict({}, WORDS)
    world = training_world(config)
    assert world.reward.collision_penalty == -7.0
    assert config.world.reward.collision_penalty != -7.0
    assert world.max_steps == 9


def test_episodes_of_one_world_are_changed_once(tmp_path):
    write_scenarios(tmp_path / "two.json", 2 * [simple_episode([(0, 0, 0)], [(9, 9)])])
    config = from_dict({}, [*WORDS, f"training_schedule.scenarios={tmp_path / 'two.json'}"])
    with pytest.warns(UserWarning, match=r"training.reward.collision_penalty=-7.0 replaces the penalty"):
        first, second = (each.world for each in training_scenarios(config))
    assert first is second
    assert first.reward.collision_penalty == -7.0


@pytest.mark.filterwarnings("ignore:.* goals farther than vessels get")  # episodes are short here
def test_situations_of_other_programs_are_trained_on_with_the_world_of_the_run():
    words = [f"training_schedule.scenarios={DATA / 'dnv_generated.json'}", "world.vessel.m=410"]
    (episode,) = training_scenarios(from_dict({}, [*WORDS, *words]))
    assert len(episode.start) == 3 and episode.world.vessel.m == 410.0
    assert episode.world.reward.collision_penalty == -7.0


def test_a_world_has_all_environments_and_the_actions_of_the_agent():
    config = from_dict({}, [*WORDS, "trainer.learning_starts=1000"])
    for name in ("DQN", "AC-IQN"):
        agent = agent_of(name)
        env = BuiltInEnvironment(config).make_envs(agent, torch.device("cpu"), 4)
        assert env.num_envs == 3
        assert env.continuous == agent.continuous
        again = BuiltInEnvironment(config).make_envs(agent, torch.device("cpu"), 4)
        assert torch.equal(env.scenario.goal, again.scenario.goal)
        other = BuiltInEnvironment(config).make_envs(agent, torch.device("cpu"), 5)
        assert not torch.equal(env.scenario.goal, other.scenario.goal)


@pytest.mark.parametrize(
    ("words", "captured"),
    [
        ((), False),
        (("trainer.collector=processes",), True),
        (("trainer.collector=processes", "execution.capture=false"), False),
    ],
)
@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
def test_its_step_is_captured_where_no_graph_collector_is(words, captured):
    config = from_dict({}, [*WORDS, *words])
    with small_pool(), fake_gpu():
        env = BuiltInEnvironment(config).make_envs(agent_of("DQN"), GPU, 0)
    assert env.captures_step == captured


@pytest.mark.filterwarnings("ignore:.* replaces the penalty")
def test_a_file_with_more_object_slots_names_the_setting_for_them(tmp_path):
    path, sensor = tmp_path / "eight.json", SensorConfig(max_objects=8)
    write_scenarios(path, [simple_episode([(1, 1, 0)], [(9, 9)], sensor=sensor)])
    config = from_dict({}, [*WORDS, f"training_schedule.scenarios={path}"])
    with pytest.raises(
        ConfigError, match=r"objects_state=\[8, 5\]: must be .* world.sensor.max_objects=8 fits the file"
    ):
        BuiltInEnvironment(config).make_envs(agent_of("DQN"), torch.device("cpu"), 4)


def test_an_odd_scenario_file_is_counted_or_refused(tmp_path):
    write_scenarios(tmp_path / "odd.json", [simple_episode([(-5, 0, 0)], [(9, 9)])])
    words = [*WORDS, f"training_schedule.scenarios={tmp_path / 'odd.json'}"]
    with pytest.warns(UserWarning, match=r"odd.json: 1 episodes with 1 starts off the map"):
        training_scenarios(from_dict({}, words))
    with pytest.raises(ConfigError, match=r"odd.json: 1 episodes with 1 starts off the map"):
        training_scenarios(from_dict({}, [*words, "training_schedule.strict=true"]))


# Stated rewards -----------------------------------------------------------------------------------


def trained(words=(), path=None):
    return training_world(load_config(path, [*WORDS[1:], *words])).reward


@pytest.mark.parametrize("name", TRAINING_REWARD_NAMES)
def test_a_reward_that_is_stated_for_the_world_is_trained_on(tmp_path, name):
    value = 7.0 if name.startswith(("passing", "steerage")) else -7.0
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"world": {"reward": {name: value}}}))
    assert getattr(trained(path=file), name) == value
    assert getattr(trained([f"world.reward.{name}={value}"]), name) == value
    # That of training is not the world's, in which policies are evaluated.
    config = load_config(None, [f"training.reward.{name}={value}"])
    assert getattr(training_world(config).reward, name) == value
    assert getattr(config.world.reward, name) == getattr(RewardConfig, name)


@pytest.mark.parametrize("name", TRAINING_REWARD_NAMES)
def test_rewards_that_contradict_are_refused(tmp_path, name):
    value = 7.0 if name.startswith(("passing", "steerage")) else -7.0
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"training.reward": {name: 2 * value}}))
    word = f"world.reward.{name}={value}"
    own = f"training.reward.{name}={2 * value}"
    message = f"{own}: must be {value}, as {word.partition('=')[0]} has it, or left"
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_config(file, [word])
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_config(None, [word, own])
    assert getattr(trained([word, f"training.reward.{name}={value}"]), name) == value


def test_the_default_is_trained_on_where_it_is_stated(tmp_path):
    (tmp_path / "ppo.json").write_text('{"training.reward.collision_penalty": -100}')
    assert trained(["world.reward.collision_penalty=-5"]).collision_penalty == -5.0
    assert trained().collision_penalty == TrainingReward.collision_penalty == -50.0
    # Not in an argument beside what contradicts it; a whole configuration that was saved has both.
    both = ["world.reward.collision_penalty=-5", "training.reward.collision_penalty=-50"]
    with pytest.raises(ConfigError, match=r"training.reward.collision_penalty=-50.0: must be -5.0, as worl"):
        trained(both)
    with pytest.raises(ConfigError, match=r"training.reward.collision_penalty=-100.0: must be -5.0, as wor"):
        load_config(tmp_path / "ppo.json", both[:1])
    settings = {"world": {"reward": {"collision_penalty": -5.0}}}
    whole = from_dict(settings | {"training.reward.collision_penalty": -50.0})
    assert training_world(whole).reward.collision_penalty == -50.0
    world = ["world.reward.collision_penalty=-500", "training.reward.collision_penalty=null"]
    assert trained(world).collision_penalty == -500.0


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["world.reward.collision_penalty=-500"],
        ["training.reward.collision_penalty=-7"],
        ["training.reward.collision_penalty=null"],
        ["training_schedule.scenarios=FILE"],
    ],
)
def test_a_saved_configuration_trains_on_the_same_rewards(tmp_path, words):
    config = load_config(None, words)
    saved = to_dict(config)
    assert restore_config(saved, "x") == apply_overrides(config, ["log_freq=30000", "log_freq=20000"]) == config
    (tmp_path / "trial_config.json").write_text(json.dumps(saved))
    assert load_config(tmp_path / "trial_config.json") == config


def test_a_search_tries_rewards_of_the_world_while_training():
    tried = apply_overrides(load_config(None), {"world.reward.give_way_penalty": -2})
    assert training_world(tried).reward.give_way_penalty == -2.0


def scenario_file(path, **stated):
    write_scenarios(path, [simple_episode([(0, 0, 0)], [(9, 9)])])
    content = json.loads(path.read_text())
    del content[0]["env"]["collision_penalty"]
    content[0]["env"] |= stated
    path.write_text(json.dumps(content))
    return f"training_schedule.scenarios={path}"


def penalty_of_file(*words):
    (episode,) = training_scenarios(load_config(None, [*WORDS[1:], *words]))
    return episode.world.reward.collision_penalty


def test_the_penalty_of_a_scenario_file_is_trained_on(tmp_path):
    file = scenario_file(tmp_path / "file.json", collision_penalty=-300.0)
    assert penalty_of_file(file) == -300.0
    for word in ("training.reward.collision_penalty=-7", "world.reward.collision_penalty=-7"):
        with pytest.warns(UserWarning, match=r"training.reward.collision_penalty=-7.0 replaces"):
            assert penalty_of_file(file, word) == -7.0
    with pytest.warns(UserWarning, match="replaces the penalty"):
        penalty_of_file(file, "training.reward.collision_penalty=-50")  # the default, but stated
    assert penalty_of_file(file, "training.reward.collision_penalty=-300") == -300.0
    assert penalty_of_file(file, "training.reward.collision_penalty=null") == -300.0


def test_a_scenario_file_without_a_penalty_is_trained_on_with_the_default(tmp_path):
    file = scenario_file(tmp_path / "file.json")
    assert penalty_of_file(file) == -50.0
    assert penalty_of_file(file, "training.reward.collision_penalty=-7") == -7.0
    assert penalty_of_file(file, "world.reward.collision_penalty=-5") == -5.0


@pytest.mark.parametrize("name", TRAINING_REWARD_NAMES[1:])
def test_a_scenario_file_has_no_penalties_by_role(tmp_path, name):
    file = scenario_file(tmp_path / "file.json", **{name: 1.0})
    with pytest.warns(UserWarning, match=f"left out unknown keys .*env.{name}"):
        penalty_of_file(file)


@pytest.mark.parametrize(
    "name",
    [
        "sensor.range=3",
        "vessel.m=500",
        "dt=0.1",
        "vessel.left_thrust_change=-1,0,1",
    ],
)
def test_stated_settings_that_a_scenario_file_replaces_are_named(tmp_path, name):
    file = scenario_file(tmp_path / "file.json")
    with pytest.warns(UserWarning, match=rf"on with world.{name.partition('=')[0]} of the file"):
        penalty_of_file(file, f"world.{name}")


@pytest.mark.parametrize("name", ["goal_reward=77.0", "timestep_penalty=-7.0"])
def test_stated_rewards_that_a_scenario_file_replaces_are_refused(tmp_path, name):
    file = scenario_file(tmp_path / "file.json")
    message = rf"^world\.reward\.{name}: must be left out beside training_schedule.scenarios"
    with pytest.raises(ConfigError, match=message):
        penalty_of_file(file, f"world.reward.{name}")


def test_settings_that_a_scenario_file_has_too_are_not_warned_of(tmp_path, recwarn):
    write_scenarios(tmp_path / "file.json", [simple_episode([(0, 0, 0)], [(9, 9)])])
    file = f"training_schedule.scenarios={tmp_path / 'file.json'}"
    penalty_of_file(file, "world.max_steps=7", "world.scenario.draws=7", "world.weather.missed=0.5")
    content = json.loads((tmp_path / "file.json").read_text())
    content[0]["robots"]["perception"]["range"] = [3.0]
    (tmp_path / "file.json").write_text(json.dumps(content))
    penalty_of_file(file, "world.sensor.range=3")
    penalty_of_file(file, "world.sensor.range=3,4")
    assert not recwarn.list
