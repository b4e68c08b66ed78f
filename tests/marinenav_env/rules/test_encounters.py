from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from marinenav_env import ConfigError, Curriculum, Level, MarineNavEnv, WorldConfig
from marinenav_env.config import ColregsConfig, RewardConfig
from marinenav_env.rules.encounters import (
    CONFIRMED,
    PAST,
    EncounterState,
    Sight,
    initial_encounters,
    newly_broken_duties,
    update_encounters,
)
from marinenav_env.rules.profiles import PROFILES, profile_settings, with_profile
from marinenav_env.rules.roles import ROLES, relative_motion
from marinenav_env.runtime.layout import env_last
from tests.oracle.encounters import Encounter, follow

STEPS, RANGES, RADIUS = 60, (20.0, 12.0, 16.0), 2.8
PHASES = ("none", "candidate", "confirmed", "past", "fleeting")


def tracks(envs: int, robots: int, seed: int) -> tuple[Tensor, Tensor]:
    """Poses and velocities [T, E, R, 3] of vessels that sail towards each other, turning and slowing at random."""
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    position = 16.0 * drawn(envs, robots, 2)
    inwards = torch.atan2(-position[..., 1], -position[..., 0])
    turns = 0.08 * drawn(STEPS, envs, robots).cumsum(0) * (drawn(envs, robots) > -0.5)
    heading = inwards + 0.1 * drawn(envs, robots) + turns
    pace = 1.5 + 0.5 * drawn(envs, robots) + 0.1 * drawn(STEPS, envs, robots).cumsum(0) * (drawn(envs, robots) > 0.5)
    velocity = pace[..., None] * torch.stack((heading.cos(), heading.sin()), -1)
    moved = position + 0.5 * velocity.cumsum(0)
    zero = torch.zeros(STEPS, envs, robots, 1, dtype=torch.float64)
    return torch.cat((moved, heading[..., None]), -1), torch.cat((velocity, zero), -1)


def folded(poses: Tensor, velocities: Tensor, leaves: Tensor, rules: ColregsConfig) -> list[EncounterState]:
    """States of all encounters after each step, [R, R, E]; vessel 0 of an environment leaves at a step."""
    envs, robots = poses.shape[1:3]
    sight = Sight(torch.full((1, 1), RADIUS), torch.full((1, 1), RADIUS), torch.tensor([RANGES[:robots]]))
    known = poses.new_zeros(envs, robots, robots, len(EncounterState._fields))
    states = []
    for t in range(STEPS):
        active = torch.ones(envs, robots, dtype=torch.bool)
        active[:, 0] = t < leaves
        known = update_encounters(known, poses[t], velocities[t], active, sight, rules, 0.5)
        states.append(EncounterState(*env_last(known)))
    return states


def check_against_the_oracle(envs: int, robots: int, rules: ColregsConfig) -> Counter[str]:
    """Compare every field of every encounter at every step; return how often each phase, role and breach was seen."""
    poses, velocities = tracks(envs, robots, robots)
    leaves = torch.randint(20, 3 * STEPS, (envs,), generator=torch.Generator().manual_seed(1))
    states, seen = folded(poses, velocities, leaves, rules), Counter[str]()
    frames = torch.cat((poses, velocities[..., :2]), -1).transpose(0, 1).tolist()
    names = ("side", "has_manoeuvred", "may_act", "is_late", "on_wrong_side", "crossed_ahead", "has_left", "touched")
    fields = [torch.stack([getattr(state, name) for state in states]) for name in ("phase", "role", *names)]
    fields.append(torch.stack([state.is_broken.double() for state in states]))
    found = torch.stack(fields, -1).permute(3, 1, 2, 0, 4)
    couples = [(one, two) for one in range(robots) for two in range(robots) if one != two]
    for e, (track, mine, left) in enumerate(zip(frames, found.tolist(), leaves.tolist(), strict=True)):
        reference = {(one, two): Encounter(RANGES[one] + RADIUS, 2.0 * RADIUS, rules) for one, two in couples}
        for t in range(STEPS):
            follow(reference, [frame if t < left or vessel else None for vessel, frame in enumerate(track[t])])
            for (one, two), each in reference.items():
                phase, role, *values, broken = mine[one][two][t]
                assert PHASES[int(phase)] == each.phase, (e, t, one, two)
                assert bool(broken) == each.broken, (e, t, one, two)
                if each.phase == "none":
                    continue
                now = each.now
                may_act = 2 if now.released else int(now.free)
                expected = now.side, now.acted, may_act, now.late, now.wrong, now.ahead, now.left, now.touched
                assert ROLES[int(role)] == now.role and tuple(values) == tuple(map(float, expected)), (e, t, one, two)
                if each.phase in ("past", "fleeting"):
                    seen[each.phase] += 1
                    seen[f"{now.role} {each.broken}"] += 1
    return seen


def assert_all_seen(seen: Counter[str], confirms: bool = True) -> None:
    assert seen["past"] > 100 and (seen["fleeting"] > 100) == confirms, seen
    for role in ROLES[1:]:
        assert seen[f"{role} True"] >= 3 and seen[f"{role} False"] >= 3, seen


@pytest.mark.heavy
@pytest.mark.parametrize("profile", PROFILES)
def test_encounters_equal_the_oracle(profile: str) -> None:
    rules = with_profile(ColregsConfig(), profile)
    seen = check_against_the_oracle(400, 2, rules) + check_against_the_oracle(100, 3, rules)
    assert_all_seen(seen, rules.confirm > 0.0)


@pytest.mark.slow
def test_ten_thousand_encounters_equal_the_oracle() -> None:
    rules = ColregsConfig()
    assert_all_seen(check_against_the_oracle(8_500, 2, rules) + check_against_the_oracle(500, 3, rules))


def test_a_duty_is_broken_once() -> None:
    before = torch.zeros(2, 3, 3, len(EncounterState._fields))
    phase, touched = (EncounterState._fields.index(name) for name in ("phase", "touched"))
    before[..., phase] = CONFIRMED
    after = before.clone()
    after[1, 2, 0, touched] = 1.0  # robot 0 towards robot 2
    assert newly_broken_duties(before, after).nonzero().tolist() == [[0, 1]]
    assert not newly_broken_duties(after, after).any()
    ended = after.clone()
    ended[..., phase] = PAST
    assert not newly_broken_duties(after, ended).any()
    assert newly_broken_duties(ended, after).nonzero().tolist() == [[0, 1]], "of a new encounter"


def two_vessels(turns: Tensor, penalty: float) -> Tensor:
    """Rewards [T, E] of vessels that meet one which keeps course and speed, and turn by so much of the thrust [E]."""
    reward = RewardConfig(timestep_penalty=0.0, COLREGs_penalty=0.0, broken_duty_penalty=penalty)
    level = replace(Level(2, 0, 0, 0.0, encounter=True, traffic=1.0), speed_spread=0.3)
    drawn = Curriculum((level,), pool_size=600)
    env = MarineNavEnv(
        WorldConfig(reward=reward, max_steps=60), len(turns), scenarios=drawn, episode_statistics=True, seed=0
    )
    td = env.reset()
    action = torch.stack((turns, -turns), -1)[:, None].expand(-1, 2, -1)
    rewards = []
    for _ in range(30):
        td = env.step(td.set(("robots", "action"), action))["next"]
        rewards.append(td["robots", "reward"][:, 0].clone())
    return torch.stack(rewards)


@pytest.mark.heavy
def test_a_turn_to_starboard_breaks_fewer_duties_than_one_to_port_or_none() -> None:
    turns = torch.tensor([1.0, -1.0, 0.0]).repeat_interleave(200)
    penalties = two_vessels(turns, -7.0) - two_vessels(turns, -1e-9)
    assert {round(value, 3) for value in penalties.unique().tolist()} == {-7.0, 0.0}
    starboard, *others = (penalties < -1.0).any(0).view(3, 200).float().mean(-1).tolist()
    assert starboard < 0.6 * min(others), (starboard, others)


@pytest.mark.heavy
def test_new_episodes_begin_with_the_encounters_of_their_first_frame() -> None:
    level = replace(Level(2, 0, 0, 0.0, encounter=True, traffic=1.0), speed_spread=0.3)
    config = WorldConfig(reward=RewardConfig(broken_duty_penalty=-1.0), max_steps=25)
    env = MarineNavEnv(config, 50, scenarios=Curriculum((level,), pool_size=256), seed=0)
    td, had, at_once, began = env.reset(), 0, 0, 0
    for _ in range(60):
        td.set(("robots", "action"), 2.0 * torch.rand(50, 2, 2) - 1.0)
        row, td = env.step_and_maybe_reset(td)
        encounters, done = env.state.encounters, row["next", "done"].squeeze(-1)
        assert encounters is not None
        world = env.world_state.now
        none, sight = initial_encounters(world.scenario), Sight.from_parameters(env.constants)
        where = world.state.pose, world.state.velocity_ground, world.scenario.robot_mask
        first = update_encounters(none, *where, sight, config.colregs, config.control_step)
        torch.testing.assert_close(encounters[done], first[done])
        at_once += int((encounters[done][..., 0] > 0.0).sum())
        had, began = had + int((encounters[..., 0] > 0.0).sum()), began + int(done.sum())
    assert had > 500 and at_once > 50 and began >= 100


def test_the_penalty_needs_states_with_encounters() -> None:
    env = MarineNavEnv(WorldConfig(reward=RewardConfig(broken_duty_penalty=-1.0)), 2, seed=0)
    td, world = env.reset(), env.world_state
    world.now.state.encounters = None
    env.world_state = world
    with pytest.raises(ConfigError, match=r"broken_duty_penalty=-1\.0: must be 0 for states without encounters"):
        env.step(td.set(("robots", "action"), torch.zeros(2, env.num_robots, 2)))


def test_profiles_are_scaled_by_length_and_time() -> None:
    usual, large = profile_settings("tum"), profile_settings("tum", 2.0, 3.0)
    factors = {name: large[name] / value for name, value in usual.items() if value}
    assert {name for name, factor in factors.items() if factor == 2.0} == {"domain"}
    assert {name for name, factor in factors.items() if factor == pytest.approx(3.0)} == {
        *("horizon", "confirm", "act_within", "clear_time")
    }
    assert profile_settings("default") == {name: getattr(ColregsConfig(), name) for name in usual}
    assert profile_settings("other") == {}


@pytest.mark.parametrize("drift", [0.0, 1e-17, -1e-17, 1e-9, -1e-9])
def test_vessels_at_rest_do_not_approach_each_other(drift: float) -> None:
    """What is left of their speeds is rounding: its sign would decide whether there is a risk of collision."""
    pose = torch.tensor([[[0.0, 0.0, 0.0], [20.0, 3.0, 1.5]]], dtype=torch.float64)
    velocity = torch.tensor([[[0.0, 0.0, 0.0], [0.0, drift, 0.0]]], dtype=torch.float64)
    seen = relative_motion(pose, velocity)
    assert torch.equal(seen.tcpa, torch.zeros_like(seen.tcpa))
