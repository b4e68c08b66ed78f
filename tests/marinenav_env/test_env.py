"""The TorchRL environment."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from marinenav_env import GROUP, ConfigError, MarineNavEnv, WorldConfig
from marinenav_env.config import RewardConfig, ScenarioConfig
from marinenav_env.rules.reward import ROLE_TERMS
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.scenario import ScenarioSampler
from tests.marinenav_env.env_helpers import (
    ACTION,
    KINDS,
    LEVELS,
    MASK,
    MIXTURE,
    REWARD,
    SHORT,
    actions_of,
    advance,
    drawn_scenarios,
    episodes,
    equal,
    make,
    play,
    same,
)
from tests.marinenav_env.helpers import CPU


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_envs": 0}, r"^num_envs=0: must be a whole number, at least 1$"),
        ({"dtype": torch.float16}, r"^dtype=torch\.float16: must be torch\.float32 or "),
        ({"scenarios": "/nowhere/at/all.json"}, r"^/nowhere/at/all\.json: cannot be read as "),
        ({"scenarios": []}, r"^scenarios=\[\]: must be a Curriculum, .* one Episode or more"),
        ({"scenarios": 5}, r"^scenarios=5: must be a Curriculum, a scenario file"),
        ({"scenarios": [1, 2]}, r"^scenarios=\[1, 2\]: must be a Curriculum, a scenario file"),
        ({"continuous": "no"}, r"^continuous='no': must be True or False$"),
        ({"num_envs": 4, "noise": RandomSource.from_seed(0, 1, CPU)}, r"^noise='numbers of 1 .*: must be those of num"),
        ({"num_envs": True}, r"^num_envs=True: must be a whole number, at least 1$"),
        ({"num_envs": 4, "total_envs": 2}, r"^total_envs=2: must be a whole number of at least num_envs, 4$"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        MarineNavEnv(**options)


def test_writing_to_a_mask_ends_no_robot():
    env = make()
    first = env.reset()
    second = env.step(first.clone().set(ACTION, actions_of(env, 1)[0]))["next"]
    for td in (first, second, env.step_and_maybe_reset(env.rand_action(env.reset()))[1]):
        td[MASK].fill_(False)
        assert env.state.active.any()


def test_a_batch_has_one_time_step():
    given = episodes(2)
    env = MarineNavEnv(scenarios=given)
    assert (env.config.dt, env.config.substeps) == (0.04, 7)
    with pytest.raises(ConfigError, match=r"^dt, N=\[\(0\.04, 7\), \(0\.05, 7\)\]: must be the same"):
        MarineNavEnv(scenarios=[given[0], replace(given[1], world=WorldConfig(dt=0.05, substeps=7))])


@pytest.mark.parametrize("kind", ["unruly", "episodes", "scenarios"])
def test_the_seed_decides_and_the_global_generators_do_not(kind):
    runs = {}
    for name, seed, world_seed in (("first", 1, 3), ("again", 2, 3), ("other", 1, 4)):
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
        env = make(kind, seed=world_seed)
        runs[name] = play(env, 8)
        env.load_state_dict(env.state_dict())
        env.set_seed(5)
        after = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
        assert torch.equal(before[0], after[0]) and before[1:] == after[1:]
    assert same(runs["first"], runs["again"])
    assert not any(map(equal, runs["first"], runs["other"]))


def test_the_noise_of_an_environment_does_not_depend_on_how_many_there_are():
    scenario = drawn_scenarios()
    few, many = (MarineNavEnv(SHORT, count, scenarios=scenario, seed=3) for count in (2, 4))
    actions = actions_of(many, 3)
    first, _ = advance(few, few.reset(), [each[:2] for each in actions])
    second, _ = advance(many, many.reset(), actions)
    assert same(first, [row[:2] for row in second])


@pytest.mark.parametrize("kind", ["schedule", "sea"])
def test_environments_of_several_processes_have_the_scenarios_of_one_batch(kind):
    """Over more refreshes than the pool has parts, and whatever the seeds of the processes."""
    config = replace(SHORT, max_steps=3)
    whole = make(kind, 8, config=config, seed=3)
    noises = [RandomSource.from_seed(3, 4, CPU, first) for first in (0, 4)]
    given = KINDS[kind]()
    given = replace(given, timesteps=tuple(begin // 2 for begin in given.timesteps))
    parts = [
        MarineNavEnv(config, scenarios=given, num_envs=4, seed=seed, noise=noise)
        for seed, noise in zip((3, 4), noises, strict=True)
    ]
    actions, rows = actions_of(whole, 13), (slice(4), slice(4, 8))
    expected, _ = advance(whole, whole.reset(), actions)
    halves = [
        advance(env, env.reset(), [each[own] for each in actions])[0] for env, own in zip(parts, rows, strict=True)
    ]
    assert same([torch.cat(each) for each in zip(*halves, strict=True)], expected)
    assert same([env.reset_pool.states.to_tensordict() for env in parts], [whole.reset_pool.states.to_tensordict()] * 2)
    levels = torch.cat([env.scenario.level for env in parts])
    assert torch.equal(levels, whole.scenario.level)
    assert not torch.equal(parts[0].scenario.start, parts[1].scenario.start)


@pytest.mark.parametrize("kind", ["mixture", "sea"])
def test_no_generator_is_drawn_from(kind):
    env = make(kind)
    before = env.generator.get_state()
    play(env)
    assert torch.equal(env.generator.get_state(), before)


def test_episodes_are_those_of_a_device_without_free_host_reads(monkeypatch):
    expected = play(make("sea", seed=3))
    monkeypatch.setattr("marinenav_env.runtime.host_reads.FREE_HOST_READ_DEVICES", frozenset())
    assert same(play(make("sea", seed=3)), expected)


@pytest.mark.slow
def test_every_option_of_training_compiles_for_vector_instructions():
    """With enough environments in float32; kernels of fewer, or of float64, are other code."""
    reward = RewardConfig(**{f"{name}_penalty": -1.0 for name in ROLE_TERMS})  # type: ignore[arg-type]
    sensor = replace(SHORT.sensor, duties=True)
    torch.compiler.reset()
    eager, compiled = (
        make("sea", 64, config=replace(SHORT, reward=reward, sensor=sensor), compile_step=flag)
        for flag in (False, True)
    )
    for a, b in zip(play(eager, 2), play(compiled, 2), strict=True):
        for key in (REWARD, (GROUP, "observation", "duties")):
            near = torch.isclose(a["next"][key], b["next"][key], rtol=1e-3, atol=1e-3)
            assert near.float().mean() > 0.99  # rounding decides a few flags
    assert b["next"][key].any()


class Broken(ScenarioSampler):
    """A sampler that fails."""

    def sample(self, level, generator):
        raise KeyError("no level")


def test_errors_of_users_parts_name_them():
    config = ScenarioConfig()
    working, broken = (kind(config, LEVELS, CPU, torch.float32) for kind in (ScenarioSampler, Broken))
    MarineNavEnv(SHORT, scenarios=replace(MIXTURE, sampler=working))
    for sampler in (broken, Broken):
        with pytest.raises(ConfigError, match=r"^Broken: .*KeyError: 'no level', .*test_env.py, line \d+\)$"):
            MarineNavEnv(SHORT, scenarios=replace(MIXTURE, sampler=sampler))
