"""Straight to the goal."""

from dataclasses import replace

import pytest
import torch

from marinenav_env import Level, WorldConfig
from train_RL_agents.baselines.straight import Straight
from train_RL_agents.evaluation.episodes import draw_scenarios, run_episodes


@pytest.mark.heavy
def test_currents_are_compensated():
    world = replace(WorldConfig(), max_steps=120)
    drawn = draw_scenarios(world, (Level(1, 8, 0, 30.0),), (8,), 3)
    found = run_episodes(Straight(world), drawn, world, continuous=True, device=torch.device("cpu"))
    assert found.success.sum() >= 7
