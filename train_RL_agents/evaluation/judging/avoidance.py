"""Safety among vessels that misbehave, with unavoidable collisions counted separately.

A collision is unavoidable if no open-loop manoeuvre of the own vessel (DENSE_LIST) prevents it. All are tried in the
same world, with the others behaving or steered as before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from marinenav_env import WorldConfig
from marinenav_env.state import Scenario
from marinenav_env.stepping.behaviours import INSTANT_BEHAVIOURS
from marinenav_env.support.validation import require
from marinenav_env.vessels import value_for_robot
from train_RL_agents.boat.manoeuvres import DENSE_LIST, EscapeManoeuvres, escape_manoeuvres
from train_RL_agents.boat.shield import SIDE_COMMANDS
from train_RL_agents.evaluation.judging.policies import (
    ActingOptions,
    EvaluatedPolicy,
    combine_with_others,
    steering_policy,
)
from train_RL_agents.evaluation.running import episodes as evaluation
from train_RL_agents.evaluation.running.others import ACTION_KEY
from train_RL_agents.evaluation.running.recording import Recording
from train_RL_agents.evaluation.suites.sets import Part, ScenarioSet
from train_RL_agents.utils.statistics import Estimate, poisson_interval, share_estimate

FIRST_BLOCK_SIZE = 8
"""Number of manoeuvres that are tried first; each further block is twice as large, and is tried only for collisions
that no manoeuvre has avoided so far."""
STEPS_AFTER_COLLISION = 30
"""Control steps that are simulated after the latest original collision; a manoeuvre must not collide in them either."""


def all_manoeuvres() -> EscapeManoeuvres:
    """Return the manoeuvres that are tried, shuffled, so that a block has some of every type."""
    order = torch.randperm(len(DENSE_LIST), generator=torch.Generator().manual_seed(0)).tolist()
    return escape_manoeuvres(torch, torch.tensor(SIDE_COMMANDS), [DENSE_LIST[number] for number in order])


class OpenLoopPolicy:
    """Policy that repeats commands [T, E, 2] of robot 0, and makes one of E manoeuvres from the steps [E] on."""

    def __init__(self, commands: Tensor, begin: Tensor, manoeuvres: EscapeManoeuvres) -> None:
        self._commands, self._begin, self._manoeuvres = commands, begin, manoeuvres
        self._number = 0

    def __call__(self, step: Any) -> Any:
        """Write continuous actions [E, R, 2] for all robots, which are zero except for robot 0."""
        since = self._number - self._begin
        first, second, switch, _ = self._manoeuvres  # none ends without thrust
        made = torch.where((since < switch)[:, None], first, second)
        recorded = self._commands[min(self._number, len(self._commands) - 1)]
        self._number += 1
        action = made.new_zeros(*step.get((*ACTION_KEY[:1], "mask")).shape, 2)
        action[:, 0] = torch.where((since < 0)[:, None], recorded, made)
        return step.set(ACTION_KEY, action)


def _find_unavoidable(
    part: Part, commands: Tensor, begin: Tensor, others: EvaluatedPolicy | None, base: WorldConfig, device: torch.device
) -> Tensor:
    """Return which collisions of C scenarios no manoeuvre from steps [C] on, after commands [T, C, 2], avoids."""
    assert isinstance(part.scenarios, Scenario)
    manoeuvres, left, begun = all_manoeuvres(), torch.arange(len(part.scenarios)), 0
    while begun < len(manoeuvres.first_steps) and len(left):
        block = manoeuvres.subset(begun, 2 * begun + FIRST_BLOCK_SIZE)
        size = len(block.first_steps)
        begun += size
        each = left.repeat_interleave(size)
        tried = EscapeManoeuvres(*(tensor.repeat(len(left), *[1] * (tensor.ndim - 1)).to(device) for tensor in block))
        policy: Any = OpenLoopPolicy(commands[:, each].to(device), begin[each].to(device), tried)
        if others is not None:
            policy = combine_with_others(policy, others, base)
        ended = evaluation.run_episodes(
            policy, part.scenarios[each], part.world, continuous=True, device=device, drop_ended=False
        )
        left = left[ended.collision.view(-1, size).all(-1)]
    unavoidable = torch.zeros(len(part.scenarios), dtype=torch.bool)
    unavoidable[left] = True
    return unavoidable


def first_detection_step(recording: Recording) -> Tensor:
    """Return the first step [E] in which the own vessel observes an object, 0 if there is none."""
    return recording.objects_mask[:, :, 0].any(-1).to(torch.int8).argmax(0)


def first_misbehaviour_step(recording: Recording) -> Tensor:
    """Return the first step [E] in which the own vessel could observe that the vessel it hits misbehaves.

    This is one step after the onset, but not before any vessel is in sight; it is the step of the first sight if the
    collision comes before the onset, or the behaviour begins with the episode.
    """
    sight, episodes = first_detection_step(recording), torch.arange(len(recording.steps))
    if recording.behaviour is None or recording.onset is None:
        return sight
    position = recording.poses[recording.steps, episodes, :, :2]
    distance = (position[:, 1:] - position[:, :1]).norm(dim=-1)
    other = 1 + torch.where(recording.robot_mask[:, 1:], distance, torch.inf).argmin(-1)
    onset = (recording.onset[episodes, other] / recording.dt).ceil().to(torch.int64) + 1
    code = recording.behaviour[episodes, other]
    begins_later = ~torch.isin(code, INSTANT_BEHAVIOURS) & (onset < recording.steps)
    return torch.where(begins_later, torch.maximum(sight, onset), sight)


def collision_masks(
    chosen: ScenarioSet, recording: Recording, world: WorldConfig, acting: ActingOptions, device: torch.device
) -> dict[str, Tensor]:
    """Return which of a set's recorded episodes had a collision, and which were unavoidable, [E] bool each, by name.

    The masks are ``collision``, ``unavoidable`` (no manoeuvre avoids it once the misbehaviour can be observed), and
    ``unavoidable_at_sight`` (no manoeuvre avoids it even from the first sight of an object on).
    """
    collision = recording.collided[:, :, 0].any(0)
    begins = {
        "unavoidable": first_misbehaviour_step(recording),
        "unavoidable_at_sight": first_detection_step(recording),
    }
    unavoidable = {
        name: find_unavoidable_in_set(chosen, recording, collision, begin, world, acting, device)
        for name, begin in begins.items()
    }
    return {"collision": collision, **unavoidable}


def find_unavoidable_in_set(
    chosen: ScenarioSet,
    recording: Recording,
    examined: Tensor,
    begin: Tensor,
    world: WorldConfig,
    acting: ActingOptions,
    device: torch.device,
) -> Tensor:
    """Return which recorded collisions of a set no manoeuvre from steps [E] on would have avoided, [E] bool.

    The result is false for episodes that are not in the mask ``examined`` [E].
    """
    unavoidable, first = torch.zeros_like(examined), 0
    for part in chosen.parts:
        assert isinstance(part.scenarios, Scenario)
        rows = first + torch.arange(len(part.scenarios))
        rows = rows[examined[rows]]
        if len(rows):
            commands = recording.actions[:, rows, 0] / value_for_robot(part.world.vessel.max_thrust_rate, 0)
            # The recorded commands are repeated as continuous actions.
            fastest = float(commands.abs().max())
            allowed = "at most 1 where it is to be found which collisions are unavoidable"
            require(fastest <= 1.0 + 1e-6, "thrust change / world.vessel.max_thrust_rate", fastest, allowed)
            most = min(part.world.max_steps, int(recording.steps[rows].max()) + STEPS_AFTER_COLLISION)
            collided = replace(part, world=replace(part.world, max_steps=most), scenarios=part.scenarios[rows - first])
            others = steering_policy(part, acting, device)
            unavoidable[rows] = _find_unavoidable(collided, commands, begin[rows], others, world, device)
        first += len(part.scenarios)
    return unavoidable


def safety_metrics(found: dict[str, Tensor], rows: Tensor) -> dict[str, float | None]:
    """Return metrics of safety by name, the first two with Wilson intervals (``_low`` and ``_high``).

    They are those of the episodes in the mask ``rows`` [E], from the masks of ``collision_masks``; None if none counts.
    """
    total = int(rows.sum())
    collisions, unavoidable, at_sight = (
        int((found[name] & rows).sum()) for name in ("collision", "unavoidable", "unavoidable_at_sight")
    )
    metrics: dict[str, float | None] = {}
    for name, count in (("no_collision", total), ("avoided", total - unavoidable)):
        metrics |= share_estimate(total - collisions, count).entries(name)
    return metrics | {"unavoidable": unavoidable / total, "unavoidable_at_sight": at_sight / total}


CAUSATION_FACTORS = {
    "head-on": 4.9e-5, "overtaking": 1.1e-4, "overtaken": 1.1e-4,
    "crossing from starboard": 1.3e-4, "crossing from port": 1.3e-4,
}  # fmt: skip
"""Collisions per candidate of ships with crews by kind of encounter: the defaults of IALA's IWRAP Mk II (Friis-Hansen,
"Basic modelling principles for prediction of collision and grounding frequencies", Technical University of Denmark,
2008), after Fujii and Mizuki, "Design of VTS systems for water with bridges", 1998."""


def candidate_metrics(collided: Tensor, unavoidable: Tensor, rows: Tensor, group: str) -> dict[str, float | None]:
    """Return metrics of candidates by name, the rates with exact Poisson intervals (``_low``, ``_high``).

    They are of a group, the candidates in the mask ``rows`` [E]; masks [E] say where the own vessel collided, and where
    no manoeuvre would have avoided that.
    """
    total = int(rows.sum())
    counts = {"per_candidate": int((collided & rows).sum())}
    counts["avoidable_per_candidate"] = counts["per_candidate"] - int((unavoidable & rows).sum())
    metrics: dict[str, float | None] = {"collisions": counts["per_candidate"]}
    for name, count in counts.items():
        metrics |= Estimate(*(number / total for number in (count, *poisson_interval(count)))).entries(name)
    return metrics | {"ships_with_crews": CAUSATION_FACTORS.get(group)}
