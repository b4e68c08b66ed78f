from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from marinenav_env import ConfigError, Curriculum, Level, MarineNavEnv, WorldConfig
from marinenav_env.config import ColregsConfig, RewardConfig, SensorConfig
from marinenav_env.rules.duties import DutyState, initial_duties, newly_broken_duties, update_duties
from marinenav_env.runtime.layout import env_last
from tests.oracle.duties import Encounter

ENVS, ROBOTS, STEPS, RANGES = 100, 4, 60, (20.0, 12.0, 20.0, 16.0)


def world(**reward: float) -> WorldConfig:
    return WorldConfig(reward=RewardConfig(**reward), sensor=SensorConfig(range=RANGES))  # type: ignore[arg-type]


def tracks() -> tuple[Tensor, Tensor]:
    """Poses and velocities [T, E, R, 3] of vessels that sail towards each other, turning and slowing at random."""
    generator = torch.Generator().manual_seed(2)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    position = 16.0 * drawn(ENVS, ROBOTS, 2)
    inwards = torch.atan2(-position[..., 1], -position[..., 0])
    heading = (
        inwards + 0.1 * drawn(ENVS, ROBOTS) + 0.08 * drawn(STEPS, ENVS, ROBOTS).cumsum(0) * (drawn(ENVS, ROBOTS) > -1.0)
    )
    pace = 1.5 + 0.5 * drawn(ENVS, ROBOTS) + 0.1 * drawn(STEPS, ENVS, ROBOTS).cumsum(0) * (drawn(ENVS, ROBOTS) > 0.5)
    velocity = pace[..., None] * torch.stack((heading.cos(), heading.sin()), -1)
    moved = position + 0.5 * velocity.cumsum(0)
    zero = torch.zeros(STEPS, ENVS, ROBOTS, 1, dtype=torch.float64)
    return torch.cat((moved, heading[..., None]), -1), torch.cat((velocity, zero), -1)


@pytest.mark.heavy
@pytest.mark.parametrize("until", [10.0, 6.0])
def test_duties_equal_the_oracle(until: float) -> None:
    env = MarineNavEnv(world(), ENVS, scenarios=Curriculum((Level(ROBOTS, 0, 0, 0.0),)), dtype=torch.float64, seed=0)
    (poses, velocities), state, rules = tracks(), env.state.clone(), ColregsConfig(stand_on_until=until)
    radius = float(env.config.vessel.radius)  # type: ignore[arg-type]
    known, leaves = initial_duties(env.scenario), torch.full((ENVS, ROBOTS), STEPS)
    leaves[:, 3] = 30  # has arrived by then
    theirs = {
        (e, one, two): Encounter(RANGES[one] + radius, 2.0 * radius)
        for e in range(ENVS)
        for one in range(ROBOTS)
        for two in range(ROBOTS)
        if one != two
    }
    roles: Counter[str] = Counter()
    for t in range(STEPS):
        state.pose, state.velocity_ground = poses[t], velocities[t]
        active = t < leaves
        known = update_duties(known, state, active, env.constants, rules)
        frames = torch.cat((poses[t], velocities[t, ..., :2]), -1).tolist()
        there = [key for key in theirs if active[key[0], key[1]] and active[key[0], key[2]]]
        for e, one, two in there:
            theirs[e, one, two].see(frames[e][one], frames[e][two], until=until)
        for e, one, two in there:
            others = [theirs[e, one, other] for other in range(ROBOTS) if other != one]
            theirs[e, one, two].judge(not any(each.keeps_clear for each in others))
        found = DutyState(*env_last(known))
        for (e, one, two), each in theirs.items():
            values = [float(field[one, two, e]) for field in found]
            expected = each.side, each.acted, each.free, each.broken
            assert tuple(values[7:]) == tuple(map(float, expected)), (t, e, one, two, each.role)
    for each in theirs.values():
        roles[f"{each.role} {each.broken}"] += 1
    for name in ("head-on", "give-way", "stand-on", "overtaking", "overtaken"):
        assert roles[f"{name} True"] >= 3 and roles[f"{name} False"] >= 3, roles
    assert roles["none False"] >= 5


def test_a_duty_is_broken_once() -> None:
    before = torch.zeros(2, 3, 3, len(DutyState._fields))
    after = before.clone()
    after[1, 2, 0, -1] = 1.0  # robot 0 towards robot 2
    assert newly_broken_duties(before, after).nonzero().tolist() == [[0, 1]]
    assert not newly_broken_duties(after, after).any()


def two_vessels(turns_to: float, penalty: float = -7.0) -> Tensor:
    """Rewards [T, E] of vessels that meet one which keeps course and speed, and turn by so much of the thrust."""
    reward = RewardConfig(timestep_penalty=0.0, COLREGs_penalty=0.0, broken_duty_penalty=penalty)
    level = replace(Level(2, 0, 0, 0.0, encounter=True, traffic=1.0), speed_spread=0.3)
    config = WorldConfig(reward=reward, max_steps=60)
    env = MarineNavEnv(config, 400, scenarios=Curriculum((level,)), episode_statistics=True, seed=0)
    td = env.reset()
    action = torch.zeros(400, 2, 2)
    action[..., 0], action[..., 1] = turns_to, -turns_to
    rewards = []
    for _ in range(30):
        td = env.step(td.set(("robots", "action"), action))["next"]
        rewards.append(td["robots", "reward"][:, 0].clone())
    return torch.stack(rewards)


@pytest.mark.heavy
def test_a_turn_to_starboard_breaks_fewer_duties_than_one_to_port_or_none() -> None:
    shares = []
    for side in (1.0, -1.0, 0.0):
        penalties = two_vessels(side) - two_vessels(side, -1e-9)
        assert {round(value, 3) for value in penalties.unique().tolist()} == {-7.0, 0.0}
        shares.append(float((penalties < -1.0).any(0).float().mean()))
    assert shares[0] < 0.4 and min(shares[1:]) > 0.55


@pytest.mark.heavy
def test_new_episodes_begin_with_the_duties_of_their_first_frame() -> None:
    level = replace(Level(2, 0, 0, 0.0, encounter=True, traffic=1.0), speed_spread=0.3)
    config = WorldConfig(reward=RewardConfig(broken_duty_penalty=-1.0), max_steps=25)
    env = MarineNavEnv(config, 50, scenarios=Curriculum((level,)), seed=0)
    td, had, at_once, began = env.reset(), 0, 0, 0
    for _ in range(60):
        td.set(("robots", "action"), 2.0 * torch.rand(50, 2, 2) - 1.0)
        row, td = env.step_and_maybe_reset(td)
        duties, done = env.state.duties, row["next", "done"].squeeze(-1)
        assert duties is not None
        world = env.world_state.now
        none = initial_duties(world.scenario)
        first = update_duties(none, world.state, world.scenario.robot_mask, env.constants, config.colregs)
        torch.testing.assert_close(duties[done], first[done])
        at_once += int((duties[done][..., 0] > 0.0).sum())
        had, began = had + int((duties[..., 0] > 0.0).sum()), began + int(done.sum())
    assert had > 500 and at_once > 50 and began >= 100


def test_the_penalty_needs_states_with_duties() -> None:
    env = MarineNavEnv(WorldConfig(reward=RewardConfig(broken_duty_penalty=-1.0)), 2, seed=0)
    td, world = env.reset(), env.world_state
    world.now.state.duties = None
    env.world_state = world
    with pytest.raises(ConfigError, match=r"broken_duty_penalty=-1\.0: must be 0 for states without duties"):
        env.step(td.set(("robots", "action"), torch.zeros(2, env.num_robots, 2)))
