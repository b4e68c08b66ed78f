"""Rewards of the user's, and penalties by role against the oracle; that of a step is compared in test_world.py."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from marinenav_env import ConfigError, Curriculum, Level, MarineNavEnv, WorldConfig
from marinenav_env.config import RewardConfig, SensorConfig
from marinenav_env.env import GROUP
from marinenav_env.rules.reward import RewardInputs, role_terms
from marinenav_env.scenarios.episode import episodes_from_scenarios
from marinenav_env.scenarios.reading import read_scenarios
from marinenav_env.scenarios.scenario_file import write_scenarios
from tests.marinenav_env.env_helpers import full_ahead
from tests.oracle import roles
from tests.own_parts import allow_only

# A reward of the user's ---------------------------------------------------------------------------

LEVELS = Curriculum((Level(3, 0, 2, 20.0), Level(2, 0, 1, 20.0)), pool_size=8, refresh_size=4)


def again(step: RewardInputs) -> Tensor:
    """The published reward, from its parts."""
    rules = step.parameters.rules
    reward = rules.timestep_penalty[:, None] + step.progress
    reward = reward + rules.COLREGs_penalty[:, None] * step.phi
    reward = torch.where(step.arrived, reward + rules.goal_reward[:, None], reward)
    return torch.where(step.collided, reward + rules.collision_penalty[:, None], reward)


def everything(step: RewardInputs) -> Tensor:
    """Something of every field; a constant for robots that are not active, too."""
    goal = step.observation["self_state"][..., :2].square().sum(-1).sqrt()
    moved = (step.after.pose - step.before.pose)[..., :2].square().sum(-1).sqrt()
    late = step.after.steps[:, None] / step.config.max_steps
    alone = (step.active.sum(-1, keepdim=True) == 1).to(goal.dtype)
    return 3.0 + goal + moved + late + alone + step.scenario.goal[..., 0]


def too_wide(step: RewardInputs) -> Tensor:
    return step.progress[..., None]


def double(step: RewardInputs) -> Tensor:
    return step.progress.double()


def faulty(step: RewardInputs) -> Tensor:
    return step.progres


def summed(step: RewardInputs) -> Tensor:
    return step.progress.sum()


def constant(step: RewardInputs) -> float:
    return -0.1


def branching(step: RewardInputs) -> Tensor:
    return step.progress - 50.0 if step.collided.any() else step.progress


number = 3


def config(name: str) -> WorldConfig:
    function = f"{__name__}:{name}" if name else ""
    return WorldConfig(max_steps=6, reward=RewardConfig(function=function))


@pytest.fixture(autouse=True)
def _allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_only(monkeypatch, *(f"{__name__}:{name}" for name in globals()))


@pytest.mark.heavy
def test_a_function_of_the_users_takes_the_place_of_the_reward() -> None:
    worlds = (MarineNavEnv(config(name), 8, scenarios=LEVELS, seed=1) for name in ("", "again"))
    first, second = (full_ahead(env, 12)["next", GROUP, "reward"] for env in worlds)
    torch.testing.assert_close(first, second)
    rows = full_ahead(MarineNavEnv(config("everything"), 8, scenarios=LEVELS, seed=1), 12)
    rewards, active = rows["next", GROUP, "reward"].squeeze(-1), rows[GROUP, "mask"]
    assert (rewards[active] > 3.0).all() and not rewards[~active].any() and (~active).any()


def test_a_reward_is_kept_by_name_and_not_in_scenario_files(tmp_path: Any) -> None:
    env = MarineNavEnv(config("everything"), 2, scenarios=LEVELS, seed=0)
    path = tmp_path / "few.json"
    write_scenarios(path, episodes_from_scenarios(env.scenario, env.config))
    assert "function" not in path.read_text()
    assert read_scenarios(path)[0].world.reward == RewardConfig()
    plain, own = (full_ahead(MarineNavEnv(config(name), scenarios=path, seed=0), 3) for name in ("", "everything"))
    assert not torch.equal(plain["next", GROUP, "reward"], own["next", GROUP, "reward"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("too_wide", r"too_wide: failed in a world \(RuntimeError: The size of tensor a "),
        ("double", r"^robots/reward='\[2, 3\] torch.float64': must be \[2, 3\] torch.float32$"),
        ("faulty", r"faulty: failed in a world \(AttributeError: .*'\w+', .*py, line \d+; RewardInputs has progress, "),
        ("summed", r"summed: gives \[\]; must be a tensor \[E, R\], .* here \[2, 3\]$"),
        ("constant", r"constant: gives float; must be a tensor \[E, R\], .* here \[2, 3\]$"),
        ("branching", r"branching: failed in a world \(TypeError: it reads a value of a tensor, .*py, line \d+\)$"),
        ("number", r"^world.reward.function='.*:number': must be a function of RewardInputs$"),
        ("unknown", "is a part that this program does not load from files"),
    ],
)
def test_what_is_no_reward_is_refused(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        MarineNavEnv(config(name), 2, scenarios=LEVELS, seed=0)


# Penalties by role --------------------------------------------------------------------------------

RANGES = (20.0, 12.0, 5.0, 16.0)
"""Of the sensors (m); the third is shorter than the domain."""
BY_ROLE = RewardConfig(
    give_way_penalty=-1.0,
    stand_on_penalty=-0.5,
    port_turn_penalty=-0.7,
    slowing_penalty=-0.9,
    astern_penalty=-0.3,
    off_course_penalty=-0.2,
)


def sea(envs: int, robots: int, reward: RewardConfig = BY_ROLE) -> RewardInputs:
    """A step of vessels close to each other that turn and change speed."""
    env = MarineNavEnv(
        WorldConfig(reward=reward, sensor=SensorConfig(range=RANGES[:robots])),
        envs,
        scenarios=Curriculum((Level(robots, 0, 0, 0.0),)),
        dtype=torch.float64,
        seed=0,
    )
    env.step(env.rand_step(env.reset()))
    generator = torch.Generator().manual_seed(1)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    before, after = env.state.clone(), env.state.clone()
    after.pose = drawn(envs, robots, 3) * torch.tensor([8.0, 8.0, 2.0])
    after.velocity_ground, after.velocity_water = drawn(2, envs, robots, 3)
    before.pose, before.velocity_water = (
        each + 0.05 * drawn(envs, robots, 3) for each in (after.pose, after.velocity_water)
    )
    active = drawn(envs, robots) > -1.0
    never = torch.zeros_like(active)
    zero = torch.zeros(envs, robots, dtype=torch.float64)
    seen = {"objects_mask": drawn(envs, robots, 3) > 0.8}
    return RewardInputs(zero, zero, never, never, active, before, after, env.scenario, env.constants, seen, env.config)


@pytest.mark.parametrize(
    ("passing", "margin", "steerage"),
    [
        (0.0, 0.0, 0.0),
        (11.0, 0.0, 0.0),
        (12.0, 3.0, 0.0),
        (0.0, 1.0, 0.0),
        (9.0, 20.0, 0.0),
        (11.0, 3.0, 0.5),
        (0.0, 0.0, 1.5),
    ],
)
def test_penalties_by_role_equal_the_oracle(passing: float, margin: float, steerage: float) -> None:
    envs, robots = 60, 4
    distances = {"passing_distance": passing, "passing_margin": margin}
    step = sea(envs, robots, replace(BY_ROLE, **distances, steerage_speed=steerage))
    got, rules = sum(role_terms(step).values()), step.config.colregs
    domain = passing or rules.domain
    seen, turned, slowed, strayed, wide = set(), [], [], [], 0
    for e in range(envs):
        velocities = step.after.velocity_ground[e, :, :2], step.after.velocity_water[e, :, :2]
        rows = torch.cat((step.after.pose[e], *velocities), -1).tolist()
        for one in range(robots):
            if not step.active[e, one]:
                continue
            others = [two for two in range(robots) if two != one and step.active[e, two]]
            reach = RANGES[one] + step.config.vessel.detect_radius  # type: ignore[operator]
            met = [roles.meet_under_way(rows[one], rows[two], steerage) for two in others]
            duty = max((roles.duty(each, reach, rules.horizon, domain, margin) for each in met), default=0.0)
            stands = duty == 0.0 and any(
                roles.stands_on(each, reach, rules.horizon, domain, rules.stand_on_until) for each in met
            )
            before, after = (
                (float(state.pose[e, one, 2]), *state.velocity_water[e, one, :2].tolist())
                for state in (step.before, step.after)
            )
            left = roles.manoeuvre(before, after) if stands else 0.0
            meets = any(roles.meets(each, reach, rules.horizon, domain) for each in met)
            port = roles.to_port(before, after) if meets else 0.0
            keeps = any(roles.keeps_speed(each, reach, rules.horizon, domain) for each in met)
            slower = roles.slowing(before, after) if keeps else 0.0
            if not keeps and roles.slowing(before, after) > 0.0:
                wide += any(roles.keeps_speed(each, reach, rules.horizon, 2.0 * domain) for each in met)
            alone = not step.observation["objects_mask"][e, one].any()
            goal = step.scenario.goal[e, one].tolist()
            across = roles.off_course(rows[one][:5], goal) if alone else 0.0
            expected = -duty - 0.5 * left - 0.7 * port - 0.9 * slower
            expected += -0.3 * roles.astern(after) - 0.2 * across
            assert float(got[e, one]) == pytest.approx(expected, abs=1e-9)
            seen.add((duty > 0.0, stands))
            turned.append(port)
            slowed.append(slower)
            strayed.append(across)
    assert seen == {(True, False), (False, True), (False, False)}
    for each in (turned, slowed, strayed):
        assert 0.0 in each and any(0.0 < value < 1.0 for value in each)
    assert 1.0 in strayed and wide > 0


def test_a_function_of_the_users_takes_no_penalties_by_role() -> None:
    reward = RewardConfig(function=f"{__name__}:again", astern_penalty=-1.0)
    with pytest.raises(ConfigError, match="must be left out with penalties by role"):
        MarineNavEnv(WorldConfig(reward=reward), 2, scenarios=LEVELS, seed=0)
