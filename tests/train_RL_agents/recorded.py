"""A small recording that the tests of what is drawn share."""

from dataclasses import fields, replace
from functools import cache

import numpy as np
import torch

from marinenav_env import WorldConfig
from marinenav_env.scenarios.episode import Episode
from tests.train_RL_agents.evaluation.running.test_episodes import EPISODES, episode, to_the_goal
from train_RL_agents.evaluation.running.recording import Recording, record
from train_RL_agents.figures.episode_view import EpisodeView
from train_RL_agents.policy_wrapper import QUANTILES_KEY

HEAD_ON_PAIR = 1
"""Index of the episode in which the first two of three vessels meet head-on, and collide."""
CROSSING_PAIR = len(EPISODES) - 1
"""Index of the episode in which two vessels cross."""


def _with_core() -> Episode:
    """One vessel, an obstacle and a vortex."""
    plain = episode([(5, 5)], [(12, 5)], [0.0], [(20, 40, 1.5)])
    return Episode(**{**vars(plain), "cores": [[30.0, 20.0, 9.4]]})


def with_quantiles(step):
    acted = to_the_goal(step)
    mask = acted["robots", "mask"]
    return acted.set(QUANTILES_KEY, torch.linspace(-1.0, 2.0, 8).expand(*mask.shape, 8))


@cache
def small_recording(quantiles: bool = True) -> Recording:
    """The episodes of the tests of evaluation, and one with a current."""
    episodes = [*EPISODES, _with_core()]
    policy = with_quantiles if quantiles else to_the_goal
    groups = [f"group {index + 1}" for index in range(len(episodes))]
    _, recording = record(
        policy,
        episodes,
        WorldConfig(max_steps=30),
        name="To the goal",
        groups=groups,
        continuous=True,
        device=torch.device("cpu"),
    )
    return replace(recording, reward_scale=1.0)


def first_frames(view: EpisodeView, count: int) -> EpisodeView:
    """A view cut short."""
    cut = {
        item.name: getattr(view, item.name)[:count]
        for item in fields(view)
        if getattr(getattr(view, item.name), "shape", (0,))[0] == view.frames
    }
    return replace(view, **cut)


def in_turned_frame(point, origin, direction):
    """A point [2] in the frame at an origin whose x axis is a direction."""
    x, y = np.asarray(point) - origin
    cos, sin = np.asarray(direction) / np.hypot(*direction)
    return cos * x + sin * y, cos * y - sin * x
