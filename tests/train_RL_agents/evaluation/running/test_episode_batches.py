"""Evaluation in the environments of a training world against the same in one batch."""

from dataclasses import replace
from functools import cache, partial

import pytest
import torch

from marinenav_env import LEVELS, Curriculum, Level, MarineNavEnv, WorldConfig
from marinenav_env.config import RewardConfig, SensorConfig, WeatherConfig
from marinenav_env.scenarios.episode import episodes_from_scenarios
from tests.train_RL_agents.tiny_runs import CPU, tiny_settings
from train_RL_agents.config.building import make_agent
from train_RL_agents.config.reading import from_dict
from train_RL_agents.evaluation.running import episodes
from train_RL_agents.evaluation.running.episodes import (
    EpisodeRunner,
    can_share_code,
    draw_scenarios,
    make_evaluation_env,
    run_episodes,
)
from train_RL_agents.policy_wrapper import MEMORY_KEY, PolicyWrapper

WORLD = WorldConfig(max_steps=40, dt=0.25, substeps=2)
slow = partial(pytest.param, marks=pytest.mark.slow)
TRAINING = replace(WORLD, reward=RewardConfig(collision_penalty=-50.0))
SCENARIOS = draw_scenarios(WORLD, LEVELS[:4], (2, 2, 2, 3), 0)


def agent_of(name, **settings):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return make_agent(from_dict(tiny_settings(name) | settings), WORLD.vessel.num_actions, CPU)


def training_env(agent, num_envs, **options):
    levels = Curriculum(LEVELS[:4], pool_size=16, refresh_size=16)
    return MarineNavEnv(
        TRAINING, num_envs, scenarios=levels, continuous=agent.continuous, seed=9, episode_statistics=True, **options
    )


def world_of(agent, config=WORLD, scenarios=SCENARIOS):
    return make_evaluation_env(scenarios, config, continuous=agent.continuous, device=CPU, seed=3)


def batched(agent, env, config=WORLD):
    return EpisodeRunner(PolicyWrapper(agent), world_of(agent, config), 3, env)


@cache
def expected_of(name):
    """The episodes of an agent in one batch."""
    return in_one_batch(agent_of(name)).state_dict()


def in_one_batch(agent, **options):
    return run_episodes(
        PolicyWrapper(agent), SCENARIOS, WORLD, continuous=agent.continuous, device=CPU, seed=3, **options
    )


@pytest.mark.parametrize("name", ["AC-IQN", "PPO"])
@pytest.mark.parametrize("num_envs", [9, slow(16)])
def test_batches_of_any_size_give_the_same_episodes(name, num_envs):
    agent = agent_of(name)
    env = training_env(agent, num_envs)
    before = env.state_dict()
    evaluation = batched(agent, env)
    expected = expected_of(name)
    first, second = (evaluation.run().state_dict() for _ in range(2))
    torch.testing.assert_close(first, expected, rtol=1e-5, atol=1e-4)
    first["collision"].logical_not_()  # results of one run share no memory with those of the next
    torch.testing.assert_close(second, expected, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(env.state_dict(), before, rtol=0.0, atol=0.0)


def test_memory_goes_with_the_episode(monkeypatch):
    agent = agent_of("PPO", agent={"memory": {"kind": "gru", "size": 8}})
    expected = in_one_batch(agent, drop_ended=False).state_dict()

    def forgetful(step):
        return PolicyWrapper(agent)(step.exclude(MEMORY_KEY))

    forgotten = run_episodes(forgetful, SCENARIOS, WORLD, continuous=False, device=CPU, seed=3).state_dict()
    assert not torch.equal(forgotten["energy"], expected["energy"])
    monkeypatch.setattr(episodes, "MIN_BATCH_SIZE", 2)
    for found in (in_one_batch(agent), batched(agent, training_env(agent, 16)).run()):
        torch.testing.assert_close(found.state_dict(), expected, rtol=1e-5, atol=1e-4)


OTHERS = {
    "obstacles": Level(6, 6, 6), "weather": Level(5, 4, 4, weather=1.0),
    "spread": Level(5, 4, 4, vessel_spread=2.0),
    "traffic": Level(5, 0, 0, encounter=True, traffic=1.0),
}  # fmt: skip


@pytest.mark.parametrize("kind", [slow("obstacles"), "weather", slow("spread"), "traffic"])
def test_training_scenarios_may_be_of_another_kind(kind):
    """More or fewer slots and parts: an evaluation starts no episodes of theirs."""
    agent = agent_of("PPO")
    robots = SCENARIOS.robot_mask.shape[-1]
    levels = Curriculum((replace(OTHERS[kind], num_robots=robots),), pool_size=16, refresh_size=16)
    env = MarineNavEnv(TRAINING, 9, scenarios=levels, continuous=agent.continuous, seed=9, episode_statistics=True)
    own = world_of(agent)
    assert can_share_code(env, own)
    found = EpisodeRunner(PolicyWrapper(agent), own, 3, env).run().state_dict()
    torch.testing.assert_close(found, expected_of("PPO"), rtol=1e-5, atol=1e-4)


def test_progress_counts_ended_episodes():
    agent, reported, running = agent_of("DQN"), [], []
    env = training_env(agent, 16)
    step = env.world.step

    def watched(world, *given):
        running.append(int(world.now.state.active[:9].any(-1).sum()))
        return step(world, *given)

    env.world.step = watched
    batched(agent, env).run(progress=lambda *given: reported.append(given))
    assert reported == [(0, 9), (9 - running[25], 9)]


def env_of(config=WORLD, levels=LEVELS[:4], num_envs=9, **options):
    options.setdefault("scenarios", Curriculum(levels, pool_size=16, refresh_size=16))
    return MarineNavEnv(config, num_envs, seed=0, **options)


@pytest.mark.parametrize(
    ("training", "same"),
    [
        (TRAINING, True),
        (replace(WORLD, reward=RewardConfig(goal_reward=1.0, timestep_penalty=0.0)), True),
        (replace(WORLD, reward=RewardConfig(give_way_penalty=-1.0)), False),
        (replace(WORLD, sensor=SensorConfig(range=10.0)), False),
        (replace(WORLD, max_steps=41), False),
        (replace(WORLD, ends_at_first_collision=True), False),
    ],
)
def test_only_weights_of_the_reward_may_differ(training, same):
    assert can_share_code(env_of(training), world_of(agent_of("AC-IQN"))) is same
    ends = replace(WORLD, ends_at_first_collision=True)
    assert not same or can_share_code(env_of(training), world_of(agent_of("AC-IQN"), ends))
    assert not can_share_code(env_of(training, (Level(6, 0, 0, 30.0),)), world_of(agent_of("AC-IQN")))
    assert not can_share_code(env_of(training, num_envs=8), world_of(agent_of("AC-IQN")))


def test_scenarios_with_other_noise_have_code_of_their_own():
    evaluation = world_of(agent_of("AC-IQN"))
    for kappa, same in ((1.0, True), (0.5, False)):
        sensor = SensorConfig(r_kappa=kappa)
        episodes = episodes_from_scenarios(SCENARIOS, replace(WORLD, sensor=sensor), 0)
        assert can_share_code(env_of(scenarios=episodes), evaluation) is same
    # Episodes without weather have that of the world.
    stormy = replace(WORLD, weather=WeatherConfig(missed=0.5))
    assert can_share_code(
        env_of(stormy, scenarios=episodes_from_scenarios(SCENARIOS, WORLD, 0)), world_of(agent_of("AC-IQN"), stormy)
    )


def test_the_policy_sees_whole_fleets_in_evaluation_mode():
    agent, shapes = agent_of("DQN"), set()
    act = agent.act

    def seen(observation, risk=None):
        shapes.add(observation["self_state"].shape[1:])
        assert not agent.training
        return act(observation, risk).to(torch.int32)

    agent.act = seen
    agent.train()
    batched(agent, training_env(agent, 16)).run()
    assert shapes == {(5, 7)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["AC-IQN", "PPO"])
def test_code_of_the_training_serves_the_evaluation(name):
    torch.compiler.reset()
    agent = agent_of(name)
    env = training_env(agent, 16, compile_step=True)
    explores = PolicyWrapper(agent, 16, torch.Generator().manual_seed(0))
    step = env.reset()
    with torch.no_grad():  # as collectors do
        for _ in range(2):
            step = env.step_and_maybe_reset(explores(step))[1]
    evaluation = batched(agent, env)
    with torch._dynamo.config.patch(error_on_recompile=True):
        found = evaluation.run().state_dict()
    torch.testing.assert_close(found, in_one_batch(agent).state_dict(), rtol=1e-4, atol=1e-4)
