"""Scenarios that have all that their levels ask for, and levels that are refused."""

import re

import pytest
import torch

from marinenav_env import LEVELS, ConfigError, Curriculum, Level, MarineNavEnv, WorldConfig
from marinenav_env.config import ScenarioConfig
from marinenav_env.interfaces.numpy_worlds import NumpyWorlds
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios import complete as complete_module
from marinenav_env.scenarios.complete import CompleteSampler, object_counts, required_attempts, required_draws
from marinenav_env.scenarios.scenario import ScenarioSampler
from tests.marinenav_env.helpers import CPU

FEW_DRAWS = ScenarioConfig(draws=25)
TIGHT = (Level(4, 2, 2, 30.0), Level(2, 0, 0, 20.0))
ASKED = torch.tensor([[4, 2, 2], [2, 0, 0]])
"""Counts of them; with so few draws some scenarios of the first lack robots."""
WITH_CORES = (*LEVELS[:3], Level(6, 8, 8, 40.0), Level(3, 2, 2, 30.0, encounter=True))


def drawn(kind, config, levels, count, by_counter):
    sampler = kind(config, levels, CPU, torch.float32)
    seeded = RandomSource.from_seed(3, count, CPU) if by_counter else torch.Generator().manual_seed(3)
    return sampler.sample(torch.arange(count) % len(levels), seeded)


def same_rows(first, second):
    """Which scenarios are the same bit for bit, [P] bool."""
    rows = torch.ones(len(first), dtype=torch.bool)
    for name, tensor in first.items():
        rows &= (tensor == second.get(name)).flatten(1).all(-1) if tensor.ndim > 1 else True
    return rows


@pytest.mark.parametrize("by_counter", [False, True])
def test_what_the_published_loops_complete_stays_bit_for_bit(by_counter):
    published, actual = (
        drawn(kind, ScenarioConfig(), WITH_CORES, 80, by_counter) for kind in (ScenarioSampler, CompleteSampler)
    )
    assert same_rows(published, actual).all()


@pytest.mark.parametrize("by_counter", [False, True])
def test_the_few_that_lack_something_are_drawn_again(by_counter):
    published, actual = (drawn(kind, FEW_DRAWS, TIGHT, 300, by_counter) for kind in (ScenarioSampler, CompleteSampler))
    requested = ASKED[actual.level]
    lacking = (object_counts(published) < requested).any(-1)
    assert 0 < lacking.sum() < 75  # less than half of the first level
    assert torch.equal(object_counts(actual), requested)
    assert torch.equal(same_rows(published, actual), ~lacking)
    again = actual.start[lacking].flatten(1)
    assert len(again.unique(dim=0)) == len(again)


@pytest.mark.usefixtures("reads_cost_time")
def test_elsewhere_they_are_drawn_again_as_often_as_is_needed_for_most(monkeypatch):
    actual = drawn(CompleteSampler, FEW_DRAWS, TIGHT, 300, True)
    assert required_attempts(FEW_DRAWS, TIGHT) > 1 == required_attempts(ScenarioConfig(), WITH_CORES)
    monkeypatch.undo()
    expected = drawn(CompleteSampler, FEW_DRAWS, TIGHT, 300, True)
    assert torch.equal(object_counts(actual), ASKED[actual.level])
    assert same_rows(actual, expected).sum() > 0.95 * 300


@pytest.mark.usefixtures("reads_cost_time")
@pytest.mark.parametrize(("levels", "attempts"), [(TIGHT[:1], 1), (TIGHT, None)])
def test_elsewhere_a_small_refresh_leaves_only_complete_ones(levels, attempts, monkeypatch):
    """A scenario without a complete one beside it is left out, and its entry stays as it was."""
    if attempts is not None:
        monkeypatch.setattr(complete_module, "required_attempts", lambda *given: attempts)
    curriculum = Curriculum(levels, pool_size=6, refresh_size=1)
    world = WorldConfig(scenario=FEW_DRAWS)
    env = MarineNavEnv(world, num_envs=2, scenarios=curriculum, seed=0)
    pool = env.reset_pool
    scenarios, unchanged = pool.states.scenario, 0
    for number in range(30):
        pool.advance(None)
        before, begin = scenarios.clone(), torch.tensor(number % 6)
        pool.replace(begin)
        same = same_rows(before, scenarios)
        unchanged += int(same[begin])
        assert same.sum() == 5 + same[begin]
        assert torch.equal(object_counts(scenarios), ASKED[scenarios.level])
        assert torch.equal(pool.states.state.pose[..., :2], scenarios.start)
    assert pool.kept.item() == unchanged
    other = MarineNavEnv(world, num_envs=2, scenarios=curriculum, seed=1)
    other.load_state_dict(env.state_dict())
    assert other.reset_pool.kept == unchanged
    assert unchanged <= 0.1 * 30 if attempts is None else unchanged > 0


@pytest.mark.parametrize(
    ("level", "sentence"),
    [
        (Level(5, 0, 200, 40.0), "num_obstacles=200: too many for the map of 55 x 55 m (clear_r=10, min_start_goal_"),
        (Level(2, 0, 0, 72.0), "num_robots=2: too many for the map of 55 x 55 m"),
    ],
    ids=["obstacles", "a distance that the map does not have"],
)
def test_a_level_without_room_is_refused(level, sentence, monkeypatch):
    monkeypatch.setattr(complete_module, "MAX_DRAWS", 1000)
    with pytest.raises(ConfigError, match=re.escape(f"level 2: {sentence}")):
        CompleteSampler(ScenarioConfig(), (LEVELS[0], level), CPU, torch.float32)


def test_large_fleets_are_given_the_draws_they_need():
    config, level = ScenarioConfig(draws=100), Level(60, 0, 4, 40.0, map_size=190.0)
    assert required_draws(config, (level,)) > 100
    many = drawn(CompleteSampler, config, (level,), 2, True)
    assert object_counts(many).tolist() == [[60, 0, 4]] * 2


def test_every_episode_of_a_world_is_complete_and_another_one():
    worlds, starts = NumpyWorlds(WorldConfig(scenario=FEW_DRAWS), Curriculum(TIGHT[:1]), True, False, None), []
    for seed in (0, *[None] * 20, 0, None):
        worlds.reset(seed)
        assert worlds.env.scenario.robot_mask.all() and worlds.env.scenario.obstacle_mask.all()
        starts.append(worlds.env.scenario.start[0, 0].tolist())
    assert len(set(map(tuple, starts))) == 21 and starts[21:] == starts[:2]
