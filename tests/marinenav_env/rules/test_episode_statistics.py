"""Statistics of episodes, against sums over their steps in plain Python."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torchrl.envs.utils import check_env_specs

from marinenav_env import GROUP, MarineNavEnv
from marinenav_env.config import RewardConfig
from tests.marinenav_env.env_helpers import ACTION, SHORT, actions_of, make
from tests.own_parts import allow_only

OWN = ("return", "length", "success", "collision")
PUBLISHED = tuple(f"reward/{name}" for name in ("timestep", "progress", "COLREGs", "collision", "goal"))
BY_ROLE = RewardConfig(give_way_penalty=-1.0, astern_penalty=-0.2, off_course_penalty=-0.3)
CLOSE = replace(SHORT, vessel=replace(SHORT.vessel, goal_distance=30.0, radius=8.0))
"""Robots arrive, collide and run out of time within a few steps."""


def make_env(kind: str, **options: Any) -> MarineNavEnv:
    options = {"config": CLOSE, "episode_statistics": True, "seed": 2} | options
    return make(kind, dtype=torch.float64, **options)


def play(env: MarineNavEnv, steps: int = 24) -> list[tuple[Any, Any, Any]]:
    """Steps, each with the outcome of the world and the weights of its reward."""
    td, found = env.reset(), []
    for action in actions_of(env, steps):
        rules = env.constants.rules.expand(env.num_envs).clone()
        row, td = env.step_and_maybe_reset(td.set(ACTION, action))
        found.append((row, env.outcome, rules))
    return found


def expected_statistics(env: MarineNavEnv, steps: list[tuple[Any, Any, Any]]) -> list[Any]:
    """``return``, length, flags and the terms that follow from events, [E] for each step."""
    count = env.num_envs
    sums: list[dict[str, float]] = [{} for _ in range(count)]
    ended: list[dict[int, bool]] = [{} for _ in range(count)]
    robots: list[list[int]] = [[] for _ in range(count)]
    found = []
    for row, outcome, every in steps:
        found.append([])
        for e in range(count):
            active = [r for r, there in enumerate(row[GROUP, "mask"][e].tolist()) if there]
            if not sums[e]:
                # All that actions control are active at the start of an episode.
                robots[e], ended[e] = active, {}
                sums[e] = dict.fromkeys(("return", "length", *PUBLISHED), 0.0)
            share, own, rules = 1.0 / len(robots[e]), sums[e], every[e]
            own["length"] += 1
            for r in active:
                collided, arrived = bool(outcome.collided[e, r]), bool(outcome.arrived[e, r])
                own["return"] += share * float(row["next", GROUP, "reward"][e, r])
                own["reward/timestep"] += share * float(rules.timestep_penalty)
                own["reward/COLREGs"] += share * float(rules.COLREGs_penalty) * float(outcome.phi[e, r])
                own["reward/collision"] += share * float(rules.collision_penalty) * collided
                own["reward/goal"] += share * float(rules.goal_reward) * arrived
                if collided or arrived:
                    ended[e][r] = arrived
            own["success"] = float(len(ended[e]) == len(robots[e]) and all(ended[e].values()))
            own["collision"] = float(not all(ended[e].values()))
            found[-1].append(dict(own))
            if row["next", "done"][e]:
                sums[e] = {}
    return found


@pytest.mark.parametrize("kind", ["mixture", "unruly", "episodes"])
def test_statistics_are_sums_over_the_steps_of_an_episode(kind: str) -> None:
    env = make_env(kind)
    assert env.statistics == (*OWN, *PUBLISHED)
    steps = play(env)
    names, events = env.statistics, dict.fromkeys(("success", "collision", "done"), 0.0)
    for (row, *_), wanted in zip(steps, expected_statistics(env, steps), strict=True):
        for e, expected in enumerate(wanted):
            got = dict(zip(names, row["next", "episode_statistics"][e].tolist(), strict=True))
            for name, value in expected.items():
                if name != "reward/progress":
                    assert got[name] == pytest.approx(value, abs=1e-9), (name, e)
            assert sum(got[name] for name in PUBLISHED) == pytest.approx(got["return"], abs=1e-9)
            if row["next", "done"][e]:
                events["done"] += 1
                for name in ("success", "collision"):
                    events[name] += got[name]
    assert events["done"] >= 4
    if kind == "mixture":
        assert events["success"] > 0 and events["collision"] > 0, events


def test_terms_by_role_are_there_where_they_have_a_weight() -> None:
    env = make_env("mixture", config=replace(CLOSE, reward=BY_ROLE))
    names = (*PUBLISHED, "reward/give_way", "reward/astern", "reward/off_course")
    assert env.statistics == (*OWN, *names)
    last = play(env)[-1][0]["next", "episode_statistics"]
    total, terms = last[:, 0], last[:, len(OWN) :]
    assert torch.allclose(terms.sum(-1), total, atol=1e-9)
    assert (terms[:, -3:] < 0.0).any()


def test_of_a_reward_of_the_users_there_is_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    reward = RewardConfig(function="tests.own_parts:published_reward")
    allow_only(monkeypatch, reward.function)
    own, usual = make_env("mixture", config=replace(CLOSE, reward=reward)), make_env("mixture")
    assert own.statistics == OWN
    for (row, *_), (other, *_) in zip(play(own), play(usual), strict=True):
        key = ("next", "episode_statistics")
        assert torch.equal(row[key], other[key][:, : len(OWN)])


@pytest.mark.parametrize("flat", [True, False])
def test_they_are_in_the_specification(flat: bool) -> None:
    env = make_env("mixture", flat=flat)
    check_env_specs(env)
    assert env.observation_spec["episode_statistics"].shape == (4, len(env.statistics))
