"""Behaviours of robots that no action controls, as lists of a scenario file and as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from marinenav_env.levels import BEHAVIOURS
from marinenav_env.state import Scenario
from marinenav_env.support.validation import require

Columns = tuple[list[str], list[float]]
"""Per robot a behaviour, empty if actions control it, and its onset (s); both lists are empty without behaviours."""


def check_behaviours(key: str, names: Any, count: int) -> None:
    """Refuse values that are not the names of the behaviours of robots, or of which no robot is controlled.

    Args:
        key: name of the values in messages.
        names: the values; an empty list is accepted.
        count: number of robots.

    Raises:
        ConfigError: when they cannot be used.
    """
    are_names = isinstance(names, list) and len(names) in (0, count)
    are_names = are_names and all(name in ("", *BEHAVIOURS) for name in names)
    require(are_names, key, names, f"a list of {count} names, each empty or one of {', '.join(BEHAVIOURS)}")
    require(not names or "" in names, key, names, "empty for at least one robot")


def behaviour_columns(scenario: Scenario) -> Columns:
    """Return behaviours and onsets of the robots of one scenario, batch []."""
    robot, scripted = scenario.robot_mask, scenario.scripted
    if scripted is None or not scripted[robot].any():
        return [], []
    code = torch.zeros_like(robot, dtype=torch.int64) if scenario.behaviour is None else scenario.behaviour
    onset = torch.zeros_like(scenario.heading) if scenario.onset is None else scenario.onset
    pairs = zip(code[robot].tolist(), scripted[robot].tolist(), strict=True)
    return [BEHAVIOURS[index] if flag else "" for index, flag in pairs], onset[robot].tolist()


def stack_behaviours(
    scenarios: Sequence[tuple[list[str], list[float], int]], device: torch.device, dtype: torch.dtype
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the tensors of scenarios, padded to the most robots.

    Args:
        scenarios: behaviours, onsets and number of robots of N scenarios.
        device: device of the tensors.
        dtype: floating-point type of the onsets.

    Returns:
        Scripted robots, behaviours and onsets, all [N, R]; None if no scenario has behaviours.
    """
    if not any(names for names, _, _ in scenarios):
        return None, None, None
    codes, onsets = [], []
    for names, onset, count in scenarios:
        # A robot that actions control has -1.
        codes.append(torch.tensor([BEHAVIOURS.index(name) if name else -1 for name in names or [""] * count]))
        onsets.append(torch.tensor(onset or [0.0] * count, dtype=dtype))
    code = pad_sequence(codes, batch_first=True, padding_value=-1).to(device)
    return code >= 0, code.clamp_min(0), pad_sequence(onsets, batch_first=True).to(device)
