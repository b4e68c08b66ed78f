"""Artificial potential fields by hand."""

import pytest
import torch

from tests.train_RL_agents.observed import observations
from train_RL_agents.baselines.apf import repulsion_velocities, seconds_to_pass


def test_repulsion_grows_as_the_gap_shrinks():
    near, far = (repulsion_velocities(observations((distance, 0.0, 2.0, 0.0, 1.0)), 2.8)[0, 0, 0]
                 for distance in (7.0, 12.0))  # fmt: skip
    assert near[0] < far[0] < 0.0  # away
    assert near[1] > far[1] > 0.0  # and to starboard
    assert not repulsion_velocities(observations((19.0, 0.0, 2.0, 0.0, 1.0)), 2.8).any()


def test_seconds_to_pass():
    position = torch.tensor([[10.0, 5.0], [10.0, 5.0], [-10.0, 0.0], [4.0, 0.0]])
    relative = torch.tensor([[-2.0, 0.0], [-10.0, 0.0], [-2.0, 0.0], [0.0, 0.0]])
    assert seconds_to_pass(position, relative, 3.0).tolist() == pytest.approx([3.0, 1.0, 0.0, 0.0])
