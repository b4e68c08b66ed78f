"""Compliance with the rules of the sea in encounters of two vessels; see rules_suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from marinenav_env.physics.dynamics import wrap_to_pi
from marinenav_env.rules.duties import SUBSTANTIAL_SLOWING, SUBSTANTIAL_TURN
from train_RL_agents.evaluation.recording import Recording, present_robots
from train_RL_agents.evaluation.rules_suite import Encounter


@dataclass(frozen=True)
class EncounterOutcomes:
    """Behaviour of the vessels in N encounters of two; pairs are of the own and the other vessel."""

    gap: Tensor
    """[N] smallest distance between the discs of the hulls (m); negative if they overlap."""
    turn: Tensor
    """[N, 2] int64 first turn until the closest approach: 1 starboard, -1 port, 0 none."""
    gave_way: Tensor
    """[N, 2] bool: true if the vessel turned or slowed until the closest approach."""
    crossed_ahead: Tensor
    """[N, 2] bool: true if the vessel crossed the other's course ahead of it."""
    collision: Tensor
    """[N] bool: true if a vessel collided."""


def encounter_outcomes(recording: Recording) -> EncounterOutcomes:
    """Return turns, slowing, crossings, gaps and collisions in N recorded episodes of two robots."""
    pose, both = recording.poses, present_robots(recording).all(-1)
    position, heading = pose[..., :2], pose[..., 2]
    distance = torch.linalg.vector_norm(position[..., 0, :] - position[..., 1, :], dim=-1)
    distance = torch.where(both, distance, torch.inf)
    closest = distance.argmin(0)
    until_closest = torch.arange(len(pose))[:, None] <= closest

    deviation = wrap_to_pi(heading - heading[:1])
    turned = (deviation.abs() >= SUBSTANTIAL_TURN) & until_closest[..., None]
    first_turn = turned.to(torch.int8).argmax(0)
    sign = deviation.gather(0, first_turn[None])[0].sign().to(torch.int64)
    turn = torch.where(turned.any(0), sign, 0)
    speed = torch.linalg.vector_norm(recording.velocities[..., :2], dim=-1)
    slowed = (speed < (1.0 - SUBSTANTIAL_SLOWING) * speed.cummax(0).values) & until_closest[..., None]

    ahead = torch.stack([_passes_ahead(pose, vessel, both) for vessel in (0, 1)], -1)
    return EncounterOutcomes(
        gap=distance.amin(0) - recording.vessel_radius.sum(-1),
        turn=turn,
        gave_way=(turned | slowed).any(0),
        crossed_ahead=ahead,
        collision=recording.collided.any(-1).any(0),
    )


def _passes_ahead(pose: Tensor, vessel: int, both: Tensor) -> Tensor:
    """Return whether a vessel (0 or 1) passes from one side of the other to the other side, ahead of it, [N] bool."""
    other = 1 - vessel
    offset = pose[:, :, vessel, :2] - pose[:, :, other, :2]
    # Sides refer to the initial course of the other vessel, so that turns of that vessel change no side.
    theta = pose[:1, :, other, 2]
    along = theta.cos() * offset[..., 0] + theta.sin() * offset[..., 1]
    across = theta.cos() * offset[..., 1] - theta.sin() * offset[..., 0]
    passes = (across[1:] * across[:-1] <= 0.0) & both[1:]
    return (passes & (along[1:] > 0.0)).any(0)


def complies(encounter: Encounter, result: EncounterOutcomes) -> Tensor:
    """Return whether encounters complied with the rules, [N] bool.

    Head-on: both turned to starboard. Otherwise: the give-way vessel gave way and, if crossing, did not pass ahead of
    the other. In both cases, there was no collision.
    """
    obliged = torch.tensor(encounter.gives_way)
    if obliged.all():
        is_compliant = (result.turn == 1).all(-1)
    else:
        is_compliant = (result.gave_way | ~obliged).all(-1)
        if encounter.course != 0.0:
            is_compliant &= ~(result.crossed_ahead & obliged).any(-1)
    return is_compliant & ~result.collision


def compliance_metrics(encounter: Encounter, result: EncounterOutcomes, rows: Sequence[bool]) -> dict[str, float]:
    """Return shares and means over encounters of one kind by name; see RULES_COLUMNS in tables.

    Args:
        encounter: geometry of the encounters.
        result: outcomes of encounters of all kinds.
        rows: flag of each encounter, true for those of this kind.
    """
    mask = torch.tensor(rows)
    result = EncounterOutcomes(*(tensor[mask] for tensor in vars(result).values()))
    own, other = result.gave_way.unbind(-1)
    turns = result.turn[:, torch.tensor(encounter.gives_way)]
    turned = (turns != 0).sum().clamp_min(1)

    def share(flags: Tensor) -> float:
        return float(flags.double().mean())

    return {
        "compliance": share(complies(encounter, result)),
        "only_own_gave_way": share(own & ~other),
        "only_other_gave_way": share(other & ~own),
        "both_gave_way": share(own & other),
        "nobody_gave_way": share(~own & ~other),
        "starboard_turns": float((turns == 1).sum() / turned),
        "closest_approach": float(result.gap.clamp_min(0.0).mean()),
    }
