"""The observation entry ``duties`` against the oracle, and as part of the world."""

import itertools
import math
from collections import Counter, defaultdict
from dataclasses import replace

import pytest
import torch

from marinenav_env import GROUP, ConfigError, Curriculum, Level, MarineNavEnv, WorldConfig
from marinenav_env.config import ColregsConfig, SensorConfig
from marinenav_env.rules.profiles import PROFILES, with_profile
from marinenav_env.sensing.duties import DUTIES, DUTY_COLUMNS
from marinenav_env.sensing.observation import observation_entries
from tests.marinenav_env.env_helpers import make
from tests.oracle.duties import NOTHING, ROLES, duty_row
from tests.oracle.encounters import Encounter, follow

EXACT = SensorConfig(max_objects=4, pos_std=0.0, vel_std=0.0, r_mean_ratio=1.0, duties=True)
"""A sensor without noise, so that it is known which object is in which slot."""
LEVELS = (
    replace(Level(3, 0, 0, 0.0, encounter=True, traffic=0.3), speed_spread=0.5, time_spread=1.0),
    Level(3, 0, 2, 20.0),
)
STEPS = 50


def sailing(rules, envs=24, steps=STEPS, **options):
    """Observations [steps + 1] of encounters in which vessels turn and slow at random, with their environment."""
    config = WorldConfig(sensor=EXACT, colregs=rules, max_steps=steps + 1)
    curriculum = Curriculum(LEVELS, pool_size=envs, refresh_size=envs)
    env = MarineNavEnv(config, envs, scenarios=curriculum, dtype=torch.float64, seed=2, **options)
    td, generator = env.reset(), torch.Generator().manual_seed(0)
    yield td, env
    held = torch.zeros(envs, env.num_robots, 2, dtype=torch.float64)
    for step in range(steps):
        if step % 8 == 0:
            held = 0.4 * torch.randn(held.shape, generator=generator, dtype=torch.float64)
        td = env.step(td.set((GROUP, "action"), held))["next"]
        yield td, env


def slots_of(frames, radius, own, obstacles):
    """Indices of the other vessels in the slots of one, nearest hull first; None for an obstacle."""
    x, y = frames[own][:2]
    discs = [(n, *frame[:2], radius) for n, frame in enumerate(frames) if n != own and frame is not None]
    discs += [(None, *obstacle) for obstacle in obstacles]
    gaps = [(math.hypot(ox - x, oy - y) - size, number) for number, ox, oy, size in discs]
    near = [pair for pair in gaps if pair[0] <= EXACT.range]
    return [number for _, number in sorted(near, key=lambda pair: pair[0])[: EXACT.max_objects]]


@pytest.mark.heavy
@pytest.mark.parametrize(
    "profile", [pytest.param(name, marks=[pytest.mark.slow] * (name != "default")) for name in PROFILES]
)
def test_rows_equal_the_oracle_slot_by_slot(profile):
    rules, seen, known = with_profile(ColregsConfig(), profile), Counter(), defaultdict(dict)
    before = None
    for t, (td, env) in enumerate(sailing(rules)):
        state, scenario, vessel = env.state, env.scenario, env.config.vessel
        present = scenario.robot_mask if before is None else before
        rows, mask = (td[GROUP, "observation", name] for name in (DUTIES, "objects_mask"))
        for e in range(len(present)):
            moved = torch.cat((state.pose[e], state.velocity_ground[e, :, :2]), -1).tolist()
            frames = [frame if there else None for frame, there in zip(moved, present[e].tolist(), strict=True)]
            discs = zip(scenario.obstacle_position[e].tolist(), scenario.obstacle_radius[e].tolist(), strict=True)
            there = scenario.obstacle_mask[e].tolist()
            obstacles = [(*place, size) for (place, size), exists in zip(discs, there, strict=True) if exists]
            robots = range(len(frames))
            for pair in itertools.permutations(robots, 2):
                contact, reach = 2.0 * vessel.radius, EXACT.range + vessel.detect_radius
                known[e].setdefault(pair, Encounter(reach, contact, rules, env.config.control_step))
            follow(known[e], frames)
            for own in robots:
                if frames[own] is None:
                    assert not rows[e, own].any()
                    continue
                slots = slots_of(frames, vessel.detect_radius, own, obstacles)
                assert mask[e, own].tolist() == [True] * len(slots) + [False] * (EXACT.max_objects - len(slots))
                expected = [
                    NOTHING if other is None else duty_row(known[e][own, other], frames[own], frames[other], rules)
                    for other in slots
                ]
                expected += [NOTHING] * (EXACT.max_objects - len(slots))
                found = rows[e, own].tolist()
                assert found == [pytest.approx(row, abs=1e-9) for row in expected], (t, e, own)
                seen.update({"obstacle": slots.count(None), "empty": EXACT.max_objects - len(slots)})
                for row in expected:
                    seen.update([name for name, number in zip((*ROLES, *DUTY_COLUMNS[5:]), row, strict=True) if number])
        before = env.state.active.clone()
    expected_columns = {*ROLES, *DUTY_COLUMNS[5:], "obstacle", "empty"}
    assert expected_columns <= {name for name, count in seen.items() if count > 8}, seen


def test_it_is_off_unless_asked_for():
    assert DUTIES not in observation_entries() and make().state.encounters is None
    config = WorldConfig(sensor=SensorConfig(duties=True, max_objects=3))
    assert config.follows_encounters and not WorldConfig().follows_encounters
    entry = observation_entries(config)[DUTIES]
    assert (entry.kind, entry.shape, entry.mask) == ("objects", (3, len(DUTY_COLUMNS)), "objects_mask")
    env = make(config=config)
    assert [*env.reset()[GROUP, "observation"].keys()] == ["self_state", "objects_state", "objects_mask", DUTIES]


def test_nothing_else_that_is_observed_changes():
    plain, with_duties = (make("sea", config=WorldConfig(sensor=SensorConfig(duties=flag))) for flag in (False, True))
    one, other = plain.reset(), with_duties.reset()
    for _ in range(5):
        for name in ("self_state", "objects_state", "objects_mask"):
            assert torch.equal(one[GROUP, "observation", name], other[GROUP, "observation", name])
        action = torch.ones(4, plain.num_robots, 2)
        one, other = (
            env.step(td.set((GROUP, "action"), action))["next"] for env, td in ((plain, one), (with_duties, other))
        )


def test_it_follows_from_the_state_and_the_action_alone():
    """Whatever was drawn: the sensor has no noise here, so that objects keep their slots."""
    for _, env in sailing(ColregsConfig(), envs=8, steps=12):
        world = env.world_state
    action = torch.zeros(8, env.num_robots, 2, dtype=torch.float64)
    seen = [env.world.step(world, action, env.next_noise_source()).observation[DUTIES] for _ in range(2)]
    assert seen[0].any() and torch.equal(*seen)


def test_it_needs_states_with_encounters():
    env = make(config=WorldConfig(sensor=SensorConfig(duties=True)))
    td, world = env.reset(), env.world_state
    world.now.state.encounters = None
    env.world_state = world
    with pytest.raises(ConfigError, match=r"world\.sensor\.duties=True: must be false for states without encounters"):
        env.step(td.set((GROUP, "action"), torch.zeros(4, env.num_robots, 2)))
