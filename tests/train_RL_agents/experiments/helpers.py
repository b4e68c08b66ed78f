"""Encounters of tests."""

import torch

from marinenav_env.levels import DRAWN_BEHAVIOURS
from train_RL_agents.evaluation.suites.passing_encounters import KIND_NAMES, NUM_PARAMETERS, Encounters
from train_RL_agents.experiments.searches import SearchSpace


def drawn(episodes=400, **space):
    return SearchSpace(**space).draw(episodes, torch.Generator().manual_seed(0))


def encounter(kind="head-on", behaviour="keep", *values):
    """One encounter of two vessels; parameters that are not given are in the middle."""
    unit = torch.full((1, 1, NUM_PARAMETERS), 0.5, dtype=torch.float64)
    unit[0, 0, : len(values)] = torch.tensor(values, dtype=torch.float64)
    cell = KIND_NAMES.index(kind) * len(DRAWN_BEHAVIOURS) + DRAWN_BEHAVIOURS.index(behaviour)
    return Encounters(torch.tensor([1]), torch.tensor([[cell]]), unit)
