"""The training world of a configuration."""

from dataclasses import replace

import pytest
import torch

from marinenav_env import ConfigError, write_scenarios
from tests.marinenav_env.helpers import simple_episode
from tests.train_RL_agents.fake_gpu import GPU, fake_gpu
from tests.train_RL_agents.learners import agent_of
from tests.train_RL_agents.tiny_runs import small_pool
from train_RL_agents.collecting.worlds import make_world, training_scenarios, training_world
from train_RL_agents.config.reading import from_dict

WORDS = ["trainer.collision_penalty=-7", "world.max_steps=9", "trainer.num_envs=3",
         "trainer.learning_starts=0", "compile=false"]  # fmt: skip


def test_collisions_cost_what_the_trainer_says_while_training():
    config = from_dict({}, WORDS)
    world = training_world(config)
    assert world.reward.collision_penalty == -7.0
    assert config.world.reward.collision_penalty != -7.0
    assert world.max_steps == 9


def test_episodes_of_one_world_are_changed_once(tmp_path):
    write_scenarios(tmp_path / "two.json", 2 * [simple_episode([(0, 0, 0)], [(9, 9)])])
    config = from_dict({}, [*WORDS, f"training_schedule.scenarios={tmp_path / 'two.json'}"])
    first, second = (each.world for each in training_scenarios(config))
    assert first is second
    assert first.reward.collision_penalty == -7.0


def test_the_rules_by_role_are_the_trainers_too():
    names = (
        "give_way_penalty",
        "stand_on_penalty",
        "astern_penalty",
        "port_turn_penalty",
        "off_course_penalty",
        "slowing_penalty",
    )
    words = [f"trainer.{name}={-number}" for number, name in enumerate(names, start=1)]
    words += ["trainer.passing_distance=11", "trainer.passing_margin=3"]
    words += ["trainer.steerage_speed=0.5"]
    config = from_dict({}, [*WORDS, *words])
    world = training_world(config)
    assert [getattr(world.reward, name) for name in names] == [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]
    assert not any(getattr(config.world.reward, name) for name in names)
    assert (world.reward.passing_distance, config.world.reward.passing_distance) == (11.0, 0.0)
    assert (world.reward.passing_margin, config.world.reward.passing_margin) == (3.0, 0.0)
    assert (world.reward.steerage_speed, config.world.reward.steerage_speed) == (0.5, 0.0)
    assert training_world(from_dict({}, WORDS)).reward == replace(
        config.world.reward, collision_penalty=-7.0
    )


def test_a_world_has_all_environments_and_the_actions_of_the_agent():
    config = from_dict({}, [*WORDS, "trainer.learning_starts=1000"])
    for name in ("DQN", "AC-IQN"):
        agent = agent_of(name)
        env = make_world(config, agent, torch.device("cpu"), 4)
        assert env.num_envs == 3
        assert env.continuous == agent.continuous
        again = make_world(config, agent, torch.device("cpu"), 4)
        assert torch.equal(env.scenario.goal, again.scenario.goal)
        other = make_world(config, agent, torch.device("cpu"), 5)
        assert not torch.equal(env.scenario.goal, other.scenario.goal)


@pytest.mark.parametrize(("words", "captured"), [
    ((), False), (("trainer.collector=processes",), True),
    (("trainer.collector=processes", "capture=false"), False),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
def test_its_step_is_captured_where_no_graph_collector_is(words, captured):
    config = from_dict({}, [*WORDS, *words])
    with small_pool(), fake_gpu():
        env = make_world(config, agent_of("DQN"), GPU, 0)
    assert (env._captured is not None) == captured


def test_an_odd_scenario_file_is_counted_or_refused(tmp_path):
    write_scenarios(tmp_path / "odd.json", [simple_episode([(-5, 0, 0)], [(9, 9)])])
    words = [*WORDS, f"training_schedule.scenarios={tmp_path / 'odd.json'}"]
    with pytest.warns(UserWarning, match=r"odd.json: 1 episodes with 1 starts off the map"):
        training_scenarios(from_dict({}, words))
    with pytest.raises(ConfigError, match=r"odd.json: 1 episodes with 1 starts off the map"):
        training_scenarios(from_dict({}, [*words, "training_schedule.strict=true"]))
