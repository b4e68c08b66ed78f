"""The running scale of returns against a loop over robots in plain Python."""

import statistics

import pytest
import torch

from tests.train_RL_agents.helpers import seeded
from train_RL_agents.learning.statistics import ReturnScale

CPU, GAMMA = torch.device("cpu"), 0.9


def batches(count=4, shape=(3, 5, 2), seed=0):
    """Rewards, ends and activity; an inactive robot has no reward, and its stream has ended."""
    generator, found = seeded(seed), []
    active = torch.ones(shape[0], shape[2], dtype=torch.bool)
    for _ in range(count):
        steps = []
        for _ in range(shape[1]):
            reward = torch.randn(shape[0], shape[2], generator=generator) * active
            ends = torch.rand(shape[0], shape[2], generator=generator) < 0.2
            steps.append((reward, ends | ~active, active))
            begins = torch.rand(shape[0], shape[2], generator=generator) < 0.4
            active = torch.where(active, ~ends, begins)
        found.append(tuple(torch.stack(each, 1) for each in zip(*steps, strict=True)))
    return found


def slow_returns(parts):
    """Discounted returns so far at every active step of every robot."""
    reward, done, active = (torch.cat(each, 1) for each in zip(*parts, strict=True))
    found = []
    for e in range(reward.shape[0]):
        for r in range(reward.shape[2]):
            total = 0.0
            for t in range(reward.shape[1]):
                total = GAMMA * total + float(reward[e, t, r])
                if active[e, t, r]:
                    found.append(total)
                if done[e, t, r]:
                    total = 0.0
    return found


def test_moments_are_those_of_a_slow_loop():
    scale, given = ReturnScale(GAMMA, CPU), batches()
    for number, part in enumerate(given):
        scale.update(*part)
        expected = slow_returns(given[: number + 1])
        count, mean, variance = (float(each) for each in scale.moments)
        assert count == len(expected)
        assert mean == pytest.approx(statistics.fmean(expected), abs=1e-5)
        assert variance == pytest.approx(statistics.pvariance(expected), rel=1e-4)
        scaled = scale.scale_rewards(part[0])
        torch.testing.assert_close(scaled, part[0] / (statistics.pstdev(expected) + 1e-6))


def test_before_any_active_step_rewards_are_left_alone():
    scale, reward = ReturnScale(GAMMA, CPU), torch.tensor([2.0, -3.0])
    torch.testing.assert_close(scale.scale_rewards(reward), reward)
    scale.update(torch.zeros(2, 3, 1), torch.ones(2, 3, 1).bool(), torch.zeros(2, 3, 1).bool())
    torch.testing.assert_close(scale.scale_rewards(reward), reward)
