"""A reward of a user's own that is not finite in the fourth control step of an episode."""

import math

import torch
from torch import Tensor

from marinenav_env.rules.reward import RewardInputs


def becomes_nan(step: RewardInputs) -> Tensor:
    """Progress, and NaN in that step."""
    return torch.where(step.after.steps[:, None] == 4, math.nan, step.progress)
