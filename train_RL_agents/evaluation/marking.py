"""Evaluation of policies by marks of seamanship."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from marinenav_env import WorldConfig
from marinenav_env.state import Scenario
from train_RL_agents.evaluation.contenders import ActingOptions, Contender, run_set
from train_RL_agents.evaluation.episodes import Episodes
from train_RL_agents.evaluation.recording import Recording
from train_RL_agents.evaluation.seamanship import marks, sailed, summary, tracks
from train_RL_agents.evaluation.suites import Part, ScenarioSet
from train_RL_agents.evaluation.tally import Progress

Summary = dict[str, float | None]


def run_marked(
    contender: Contender,
    scenario_set: ScenarioSet,
    world: WorldConfig,
    acting: ActingOptions,
    device: torch.device,
    name: str,
    progress: Progress | None = None,
) -> tuple[Episodes, Recording, dict[str, Summary]]:
    """Run a set of encounters, and every vessel of it alone; see ``run_set`` for the arguments.

    Returns:
        The outcomes, the recording, and the marks by group and overall.
    """
    options: dict[str, Any] = {"name": name, "progress": progress}
    episodes, recording = run_set(contender, scenario_set, world, acting, device, **options)
    assert recording is not None
    only_own = scenario_set.parts[0].only_own
    robots = recording.robot_mask.shape[-1]
    columns = []
    for slot in range(1 if only_own else robots):
        _, alone = run_set(contender, _keep_one_vessel(scenario_set, slot), world, acting, device, **options)
        assert alone is not None
        steps, path, _ = sailed(tracks(alone))
        columns.append((steps.sum(-1), path.sum(-1)))
    undisturbed = tuple(_pad_columns(values, robots) for values in zip(*columns, strict=True))
    scored = recording.robot_mask.clone()
    scored[:, len(columns) :] = False
    vessel_marks = marks(recording, (undisturbed[0], undisturbed[1]), scored, recording.rules)
    groups = dict.fromkeys(recording.groups)
    rows = {group: torch.tensor([group == other for other in recording.groups]) for group in groups}
    rows["overall"] = torch.ones(len(recording.groups), dtype=torch.bool)
    return episodes, recording, {group: summary(vessel_marks, mask) for group, mask in rows.items()}


def _keep_one_vessel(scenario_set: ScenarioSet, slot: int) -> ScenarioSet:
    """Return the scenarios with a single vessel: that of the slot, or the last one if there are fewer."""
    parts = []
    for part in scenario_set.parts:
        assert isinstance(part.scenarios, Scenario)
        scenarios = part.scenarios.clone()
        present = scenarios.robot_mask
        kept = (present.sum(-1, keepdim=True) - 1).clamp_max(slot)
        scenarios.robot_mask = torch.arange(present.shape[-1]) == kept
        parts.append(Part(part.world, scenarios, part.only_own and slot == 0))
    return replace(scenario_set, parts=tuple(parts))


def _pad_columns(columns: tuple[Tensor, ...], robots: int) -> Tensor:
    """Return columns [E] as [E, R]; missing columns are 1, and do not count."""
    missing = torch.ones_like(columns[0])
    return torch.stack([*columns, *[missing] * (robots - len(columns))], -1).double()
