"""Endings of robots and episodes in the environment."""

import pytest
import torch
from torchrl.envs.utils import step_mdp

from marinenav_env import GROUP, MarineNavEnv, WorldConfig
from tests.marinenav_env.env_helpers import ACTION, MASK, REWARD
from tests.marinenav_env.helpers import simple_episode

FORWARD, STILL = [1.0, 1.0], [0.0, 0.0]


def fleet(**settings):
    """Robot 0 arrives soon, robot 1 hits an obstacle later, robot 2 goes nowhere."""
    given = simple_episode(
        poses=[(5.0, 5.0, 0.0), (5.0, 40.0, 0.0), (25.0, 5.0, 0.0)],
        goals=[(9.0, 5.0), (50.0, 40.0), (50.0, 50.0)],
        obstacles=[(14.0, 40.0, 1.0)],
    )
    return MarineNavEnv(WorldConfig(**settings), scenarios=[given], seed=0)


def run(env, steps, actions):
    """Steps without resets."""
    td, rows = env.reset(), []
    for _ in range(steps):
        td.set(ACTION, torch.tensor([actions]))
        row = env.step(td)
        rows.append(row.clone())
        td = step_mdp(row)
    return rows


def flags(row):
    after = row["next"]
    return {
        name: [after[name].flatten().tolist(), after[GROUP, name].flatten().tolist()]
        for name in ("done", "terminated", "truncated")
    }


def ends(rows):
    """The step in which each robot that ends does so."""
    found = {}
    for t, row in enumerate(rows):
        for r in row["next", GROUP, "terminated"].flatten().nonzero().flatten().tolist():
            found.setdefault(r, t)
    return found


def test_done_is_latched_until_the_episode_is_over_and_a_time_out_truncates():
    rows = run(fleet(max_steps=30), 30, [FORWARD, FORWARD, STILL])
    when = ends(rows)
    assert set(when) == {0, 1} and when[0] < when[1] < 29
    for t, row in enumerate(rows):
        terminated = [t >= when[0], t >= when[1], False]
        last = t == 29
        assert flags(row) == {
            "done": [[last], [terminated[0] or last, terminated[1] or last, last]],
            "terminated": [[False], terminated],
            "truncated": [[last], [False, False, last]],
        }
        # The mask is about the coming step, the root's about this one.
        assert row["next", MASK].flatten().tolist() == [not end for end in terminated]
        was_active = [not (t > when[0]), not (t > when[1]), True]
        assert row[MASK].flatten().tolist() == was_active
        assert row["next", REWARD].flatten().bool().tolist() == was_active
    # A time-out has no terminal reward, and the observation to bootstrap from is real.
    assert rows[29]["next", REWARD].flatten().tolist() == pytest.approx([0.0, 0.0, -0.1], abs=1e-6)
    assert rows[29]["next", GROUP, "observation", "self_state"].any(-1).flatten().tolist() == [False, False, True]


@pytest.mark.parametrize("evaluation", [False, True])
def test_the_first_collision_ends_an_evaluation_episode(evaluation):
    env = fleet(ends_at_first_collision=evaluation)
    rows = run(env, 20, [FORWARD, FORWARD, STILL])
    arrival, collision = (ends(rows)[r] for r in (0, 1))
    assert flags(rows[arrival])["done"] == [[False], [True, False, False]]
    assert flags(rows[collision]) == {
        "done": [[evaluation], [True, True, evaluation]],
        "terminated": [[evaluation], [True, True, False]],
        "truncated": [[False], [False, False, evaluation]],
    }
