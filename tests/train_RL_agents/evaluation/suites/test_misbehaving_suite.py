"""Encounters with vessels that misbehave."""

import torch

from marinenav_env import WorldConfig
from marinenav_env.vessels import scaled_world
from train_RL_agents.evaluation.suites.misbehaving_suite import (
    misbehaving_scenarios,
)

WORLD = WorldConfig()


def test_encounters_of_boats_are_those_of_published_vessels_to_scale():
    boat = scaled_world("otter")
    length, pace = boat.scenario.scale, boat.scenario.speed_scale
    assert (length, pace) != (1.0, 1.0)
    for usual, drawn in zip(*(misbehaving_scenarios(world, 14, 0)[1] for world in (WORLD, boat)), strict=True):
        ours, theirs = usual.scenarios, drawn.scenarios
        torch.testing.assert_close(theirs.start, length * ours.start)
        torch.testing.assert_close(theirs.velocity, pace * ours.velocity)
        if ours.onset is not None:
            torch.testing.assert_close(theirs.onset, length / pace * ours.onset)
