"""Endings of robots and episodes, exhaustively against the oracle."""

import itertools

import pytest
import torch

from marinenav_env.rules.endings import compute_endings
from tests.oracle import reward as oracle

FATES = ("sails", "collided", "arrived", "absent")


@pytest.mark.parametrize("evaluation", [False, True])
@pytest.mark.parametrize("steps", [9, 10, 11])
def test_equals_the_oracle(steps: int, evaluation: bool) -> None:
    fates = [list(row) for row in itertools.product(FATES, repeat=3) if set(row) != {"absent"}]

    def having(name: str) -> torch.Tensor:
        return torch.tensor([[fate == name for fate in row] for row in fates])

    got = compute_endings(
        having("collided"), having("arrived"), ~having("absent"), torch.full((len(fates),), steps), 10, evaluation
    )
    for e, row in enumerate(fates):
        present = [fate for fate in row if fate != "absent"]
        each = [oracle.endings(f == "collided", f == "arrived", steps, 10) for f in present]
        collisions = [fate == "collided" for fate in present]
        terminated = oracle.episode_over([x.terminated for x in each], collisions, evaluation)
        over = oracle.episode_over([x.terminated or x.truncated for x in each], collisions, evaluation)
        assert bool(got["episode_terminated"][e]) == terminated, row
        assert bool(got["episode_done"][e]) == over, row
        for r, fate in enumerate(row):
            ended = fate != "sails"
            assert bool(got["terminated"][e, r]) == ended
            assert bool(got["truncated"][e, r]) == (over and not ended)
