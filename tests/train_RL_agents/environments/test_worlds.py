"""The training world of a configuration."""

import json
import re
from pathlib import Path

import pytest

from marinenav_env import ConfigError, write_scenarios
from marinenav_env.config import RewardConfig
from tests.marinenav_env.helpers import simple_episode
from tests.train_RL_agents.fake_gpu import GPU, fake_gpu
from tests.train_RL_agents.helpers import agent_of
from tests.train_RL_agents.tiny_runs import small_pool, tiny_settings
from train_RL_agents.config.reading import from_dict, load_config
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


@pytest.mark.filterwarnings("ignore:.* goals farther than vessels get")  # episodes are short here
def test_situations_of_other_programs_are_trained_on_with_the_world_of_the_run():
    words = [f"training_schedule.scenarios={DATA / 'dnv_generated.json'}", "world.vessel.m=410"]
    (episode,) = training_scenarios(from_dict({}, [*WORDS, *words]))
    assert len(episode.start) == 3 and episode.world.vessel.m == 410.0
    assert episode.world.reward.collision_penalty == -7.0


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
    config = from_dict(tiny_settings("DQN"), words)
    with small_pool(8, 8), fake_gpu():
        env = BuiltInEnvironment(config).make_envs(agent_of("DQN"), GPU, 0)
    assert env.captures_step == captured


def test_an_odd_scenario_file_is_counted_or_refused(tmp_path):
    write_scenarios(tmp_path / "odd.json", [simple_episode([(-5, 0, 0)], [(9, 9)])])
    words = [*WORDS, f"training_schedule.scenarios={tmp_path / 'odd.json'}"]
    with pytest.warns(UserWarning, match=r"odd.json: 1 episodes with 1 starts off the map"):
        training_scenarios(from_dict({}, words))
    with pytest.raises(ConfigError, match=r"odd.json: 1 episodes with 1 starts off the map"):
        training_scenarios(from_dict({}, [*words, "training_schedule.strict=true"]))


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


@pytest.mark.parametrize("name", TRAINING_REWARD_NAMES[:2])
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


@pytest.mark.parametrize("name", ["sensor.range=3", "vessel.left_thrust_change=-1,0,1"])
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
