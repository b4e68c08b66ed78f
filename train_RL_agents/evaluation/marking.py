"""Evaluation of policies by the marks of seamanship."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from marinenav_env import WorldConfig
from marinenav_env.state import Scenario
from train_RL_agents.evaluation.contenders import ActingOptions, Contender, run_set
from train_RL_agents.evaluation.episodes import Episodes, Progress
from train_RL_agents.evaluation.recording import Recording
from train_RL_agents.evaluation.seamanship import marks, sailed, summary, tracks
from train_RL_agents.evaluation.suites import Part, ScenarioSet

Summary = dict[str, float | None]


def run_marked(
    found: Contender,
    chosen: ScenarioSet,
    world: WorldConfig,
    acting: ActingOptions,
    device: torch.device,
    name: str,
    progress: Progress | None = None,
) -> tuple[Episodes, Recording, dict[str, Summary]]:
    """Run a set of encounters, and every vessel of it alone; see ``run_set`` for the arguments.

    Returns:
        What happened, the recording, and the marks by group and overall.
    """
    options: dict[str, Any] = {"name": name, "progress": progress}
    episodes, recording = run_set(found, chosen, world, acting, device, **options)
    assert recording is not None
    only_own = chosen.parts[0].only_own
    robots = recording.robot_mask.shape[-1]
    columns = []
    for slot in range(1 if only_own else robots):
        _, alone = run_set(found, _alone(chosen, slot), world, acting, device, **options)
        assert alone is not None
        steps, path, _ = sailed(tracks(alone))
        columns.append((steps.sum(-1), path.sum(-1)))
    undisturbed = tuple(_wide(each, robots) for each in zip(*columns, strict=True))
    scored = recording.robot_mask.clone()
    scored[:, len(columns) :] = False
    found_marks = marks(recording, (undisturbed[0], undisturbed[1]), scored, recording.rules)
    groups = dict.fromkeys(recording.groups)
    rows = {each: torch.tensor([each == group for group in recording.groups]) for each in groups}
    rows["overall"] = torch.ones(len(recording.groups), dtype=torch.bool)
    return episodes, recording, {each: summary(found_marks, kept) for each, kept in rows.items()}


def _alone(chosen: ScenarioSet, slot: int) -> ScenarioSet:
    """The same scenarios with one vessel each: that of the slot, or the last there is."""
    parts = []
    for part in chosen.parts:
        assert isinstance(part.scenarios, Scenario)
        scenarios = part.scenarios.clone()
        present = scenarios.robot_mask
        kept = (present.sum(-1, keepdim=True) - 1).clamp_max(slot)
        scenarios.robot_mask = torch.arange(present.shape[-1]) == kept
        parts.append(Part(part.world, scenarios, part.only_own and slot == 0))
    return replace(chosen, parts=tuple(parts))


def _wide(columns: tuple[Tensor, ...], robots: int) -> Tensor:
    """Columns [E] as [E, R]; those that are missing are 1, and count for nothing."""
    blank = torch.ones_like(columns[0])
    return torch.stack([*columns, *[blank] * (robots - len(columns))], -1).double()
