"""Rows of rollouts: means over active robots, parts and selections."""

import pytest
import torch

from train_RL_agents.agents.batches import RolloutBatch, weighted_mean

WEIGHT = torch.tensor([1.0, 0.0, 1.0, 1.0])
NUMBERS = torch.tensor([1.0, 100.0, 2.0, 6.0])


def batch(weight=WEIGHT):
    rows = torch.arange(4.0)
    return RolloutBatch(
        {"self_state": rows[:, None]}, rows.long(), {"value": rows}, rows, rows, weight, torch.tensor(0.25)
    )


def test_means_are_over_active_robots():
    assert batch().mean(NUMBERS).item() == pytest.approx(3.0)
    assert weighted_mean(NUMBERS, WEIGHT).item() == 3.0
    alone = torch.tensor([0.0, 0.0, 0.0, 1.0])
    assert batch(alone).mean(NUMBERS).item() == weighted_mean(NUMBERS, alone).item() == 6.0
    assert batch(torch.zeros(4)).mean(NUMBERS).item() == 0.0
    assert weighted_mean(NUMBERS, torch.zeros(4)).item() == 0.0


def test_means_of_parts_add_up_to_that_of_the_batch():
    parts = [slice(0, 1), slice(1, 4)]
    means = [batch().part(rows).mean(NUMBERS[rows]) * batch().part(rows).size for rows in parts]
    assert sum(means).item() / 4 == pytest.approx(3.0)


def test_rows_are_selected_from_everything_that_has_rows():
    taken = batch().take(torch.tensor([3, 0]))
    for each in (
        taken.observation["self_state"][:, 0],
        taken.action,
        taken.extras["value"],
        taken.advantage,
        taken.target,
    ):
        assert each.tolist() == [3, 0]
    assert taken.active.tolist() == [True, True]
    assert batch().active.tolist() == [True, False, True, True]
    assert (taken.size, taken.progress.item()) == (2, 0.25)
