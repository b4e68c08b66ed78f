"""Environments of every kind, and how tests play them."""

import random
from dataclasses import replace

import torch

from marinenav_env import GROUP, Curriculum, Level, MarineNavEnv, WorldConfig
from marinenav_env.config import ScenarioConfig, SensorConfig
from marinenav_env.scenarios.scenario import ScenarioSampler
from tests.marinenav_env.helpers import CPU, random_episode

LEVELS = (Level(2, 1, 1, 20.0), Level(3, 0, 2, 20.0), Level(1, 0, 0, 20.0))
SMALL = {"pool_size": 12, "refresh_size": 4, "refresh_interval": 3}
MIXTURE = Curriculum(levels=LEVELS, **SMALL)
UNRULY = Curriculum((LEVELS[0], Level(3, 0, 0, 0.0, encounter=True, traffic=0.2, unruly=0.6)), (1.0, 3.0), **SMALL)
SEA = Curriculum(
    (
        LEVELS[0],
        Level(3, 0, 0, 0.0, encounter=True, traffic=0.5),
        replace(LEVELS[1], noise=2.0, vessel_spread=1.5, weather=1.0),
    ),
    **SMALL,
)
SCHEDULE = Curriculum(levels=LEVELS, timesteps=(0, 40, 80), **SMALL)
SHORT = WorldConfig(max_steps=7, sensor=SensorConfig(max_objects=3))
ACTION, MASK, REWARD = (GROUP, "action"), (GROUP, "mask"), (GROUP, "reward")


def episodes(count=5):
    """Episodes of different sizes, every parameter different."""
    rng = random.Random(0)
    sizes = [(3, 2, 1), (1, 0, 0), (2, 1, 2), (3, 0, 0), (2, 2, 0)]
    return [random_episode(rng, *sizes[n % len(sizes)], size=50.0) for n in range(count)]


def drawn_scenarios():
    sampler = ScenarioSampler(ScenarioConfig(), LEVELS, CPU, torch.float32)
    return sampler.sample(torch.arange(6) % 3, torch.Generator().manual_seed(0))


KINDS = {
    "mixture": lambda: MIXTURE,
    "schedule": lambda: SCHEDULE,
    "unruly": lambda: UNRULY,
    "sea": lambda: SEA,
    "episodes": episodes,
    "scenarios": drawn_scenarios,
}


def make(kind="mixture", num_envs=4, **options):
    config = options.pop("config", SHORT)
    return MarineNavEnv(config, num_envs, scenarios=KINDS[kind](), **{"seed": 0} | options)


def actions_of(env, steps, seed=0):
    """Random actions that do not touch the global random state."""
    generator = torch.Generator().manual_seed(seed)
    shape = (steps, env.num_envs, env.num_robots)
    if env.continuous:
        unit = torch.rand(*shape, 2, generator=generator, dtype=env.dtype)
        return list(2.0 * unit - 1.0)
    return list(torch.randint(env.num_discrete_actions, shape, generator=generator))


def advance(env, td, actions):
    """Steps with resets; every step's data, and what comes next."""
    rows = []
    for action in actions:
        td.set(ACTION, action)
        row, td = env.step_and_maybe_reset(td)
        rows.append(row.clone())
    return rows, td


def play(env, steps=20, seed=0):
    return advance(env, env.reset(), actions_of(env, steps, seed))[0]


def full_ahead(env, steps=20):
    """A rollout of robots that go ahead with both thrusters."""

    def policy(td):
        return td.set(ACTION, torch.ones_like(env.state.thrust))

    return env.rollout(steps, policy, break_when_any_done=False)


def equal(first, second):
    """Whether nested tensors are the same bit for bit."""
    a, b = (dict(td.items(True, True)) for td in (first, second))
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def same(first, second):
    return len(first) == len(second) and all(map(equal, first, second))
