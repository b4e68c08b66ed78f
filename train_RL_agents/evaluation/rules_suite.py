"""Encounters of two vessels and how well the rules of the sea are kept in them.

The International Regulations for Preventing Collisions at Sea, 1972: head-on, both turn to
starboard (rule 14); crossing, the vessel that has the other on its own starboard side keeps out of
the way and does not cross ahead (rule 15); an overtaking vessel keeps out of the way (rule 13); the
other vessel stands on (rule 17). Robot 0 is called the own vessel, robot 1 the other one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from marinenav_env.config import VesselConfig
from marinenav_env.physics.dynamics import wrap_to_pi
from marinenav_env.scenarios.scenario import blank_scenarios
from marinenav_env.state import Scenario
from train_RL_agents.evaluation.recording import Recording

CENTRE, RUN = 27.5, 20.0
"""Where courses meet, on both axes of the map (m), and how far beyond it the goals are (m)."""
OFFSET, TURN, SPEED = 1.0, math.radians(2.5), 0.15
"""Largest variation of a start (m), of a course (rad) and of a speed (share)."""
TURNS, SLOWS = math.radians(15.0), 0.3
"""A manoeuvre is substantial when the bow is this far off the first course (rad), or when this
share of the speed reached before is lost; a vessel that stands on changes neither by that."""


@dataclass(frozen=True)
class Encounter:
    """How two vessels meet. The own one comes from the south and heads north."""

    course: float
    """Course of the other vessel (rad, clockwise from north)."""
    speed: tuple[float, float]
    """Speeds at first, own and other (m/s)."""
    distance: tuple[float, float]
    """Distances to the meeting point at first, own and other (m)."""
    gives_way: tuple[bool, bool]
    """Who has to give way, own and other."""
    other_thrust: float | None = None
    """Largest thrust of a side of the other vessel (N); None for that of the own one."""


ENCOUNTERS: dict[str, Encounter] = {
    "head-on": Encounter(math.pi, (2.0, 2.0), (18.0, 18.0), (True, True)),
    "crossing from starboard": Encounter(-math.pi / 2, (2.0, 2.0), (18.0, 18.0), (True, False)),
    "crossing from port": Encounter(math.pi / 2, (2.0, 2.0), (18.0, 18.0), (False, True)),
    "overtaking": Encounter(0.0, (2.0, 0.8), (20.0, 8.0), (True, False), 120.0),
}


def encounter_scenarios(encounter: Encounter, vessel: VesselConfig, episodes: int, seed: int) -> Scenario:
    """Scenarios with the geometry of an encounter, slightly varied, both vessels in motion.

    Args:
        encounter: the geometry.
        vessel: gives the thrust that keeps the first speed.
        episodes: how many.
        seed: of the variations.

    Returns:
        Scenarios of two robots and nothing else, float64 on the CPU.
    """
    options: dict[str, Any] = {"generator": torch.Generator().manual_seed(seed)}
    options["dtype"] = torch.float64

    def varied(by: float, *shape: int) -> Tensor:
        return by * (2.0 * torch.rand(episodes, 2, *shape, **options) - 1.0)

    course = torch.tensor([0.0, encounter.course], dtype=torch.float64).expand(episodes, 2)
    ahead = torch.stack((course.cos(), course.sin()), -1)
    distance = torch.tensor(encounter.distance, dtype=torch.float64)[:, None]
    start = CENTRE - distance * ahead + varied(OFFSET, 2)
    heading = course + varied(TURN)
    speed = torch.tensor(encounter.speed, dtype=torch.float64) * (1.0 + varied(SPEED))
    mask = torch.ones(episodes, 2, dtype=torch.bool)
    return in_motion(start, CENTRE + RUN * ahead, heading, speed, mask, vessel)


def in_motion(
    start: Tensor, goal: Tensor, heading: Tensor, speed: Tensor, mask: Tensor, vessel: VesselConfig
) -> Scenario:
    """Scenarios of vessels in motion, with the thrust that keeps their speed, and nothing else.

    Args:
        start: [P, R, 2] (m).
        goal: [P, R, 2] (m).
        heading: [P, R] (rad).
        speed: [P, R] ahead (m/s).
        mask: [P, R] bool, which vessels there are.
        vessel: gives the thrust.
    """
    episodes, robots = mask.shape
    linear, quadratic = (
        torch.atleast_1d(torch.tensor(value, dtype=speed.dtype))[:robots] for value in (vessel.xU, vessel.xUU)
    )
    drag = -(linear + quadratic * speed) * speed
    drawn = blank_scenarios(episodes, robots, 0, 0, speed.device, speed.dtype)
    drawn.goal, drawn.start, drawn.heading, drawn.robot_mask = goal, start, heading, mask
    still = torch.zeros_like(speed)
    drawn.velocity = torch.stack((speed * heading.cos(), speed * heading.sin(), still), -1)
    drawn.thrust = 0.5 * drag[..., None].expand(-1, -1, 2)
    return drawn


@dataclass(frozen=True)
class Manoeuvres:
    """Outcomes of N encounters; pairs are of the own and of the other vessel."""

    gap: Tensor
    """[N] smallest distance between the hulls' circles (m); below 0 they overlap."""
    turn: Tensor
    """[N, 2] int64: first turn until the closest approach, 1 starboard, -1 port, 0 none."""
    gave_way: Tensor
    """[N, 2] bool: turned or slowed until the closest approach."""
    crossed_ahead: Tensor
    """[N, 2] bool: passed through the other's course ahead of her."""
    collision: Tensor
    """[N] bool."""


def manoeuvres(recording: Recording) -> Manoeuvres:
    """Tell how the vessels behaved until they were closest.

    Args:
        recording: of episodes with two robots each.
    """
    pose, active = recording.poses, recording.active
    position, heading = pose[..., :2], pose[..., 2]
    # The last positions of an episode count, too, although no vessel is active in them.
    alone = ~active.all(-1)
    both = torch.cat((~alone[:1], ~alone[:-1]))
    apart = torch.linalg.vector_norm(position[..., 0, :] - position[..., 1, :], dim=-1)
    apart = torch.where(both, apart, torch.inf)
    closest = apart.argmin(0)
    until = torch.arange(len(pose))[:, None] <= closest

    off = wrap_to_pi(heading - heading[:1])
    turned = (off.abs() >= TURNS) & until[..., None]
    first = turned.to(torch.int8).argmax(0)
    sign = off.gather(0, first[None])[0].sign().to(torch.int64)
    turn = torch.where(turned.any(0), sign, 0)
    speed = torch.linalg.vector_norm(recording.velocities[..., :2], dim=-1)
    slowed = (speed < (1.0 - SLOWS) * speed.cummax(0).values) & until[..., None]

    ahead = torch.stack([_passes_ahead(pose, one, both) for one in (0, 1)], -1)
    return Manoeuvres(
        gap=apart.amin(0) - recording.vessel_radius.sum(-1),
        turn=turn,
        gave_way=(turned | slowed).any(0),
        crossed_ahead=ahead,
        collision=recording.collided.any(-1).any(0),
    )


def _passes_ahead(pose: Tensor, one: int, both: Tensor) -> Tensor:
    """Whether a vessel passes from one side of the other to the other side, ahead of it, [N]."""
    other = 1 - one
    offset = pose[:, :, one, :2] - pose[:, :, other, :2]
    # The side is told by the other's first course: her own turns change no side.
    theta = pose[:1, :, other, 2]
    along = theta.cos() * offset[..., 0] + theta.sin() * offset[..., 1]
    across = theta.cos() * offset[..., 1] - theta.sin() * offset[..., 0]
    passes = (across[1:] * across[:-1] <= 0.0) & both[1:]
    return (passes & (along[1:] > 0.0)).any(0)


def complies(encounter: Encounter, seen: Manoeuvres) -> Tensor:
    """Whether the rules were kept.

    Head-on: both turned to starboard. Else: the give-way vessel gave way and, crossing, did not
    pass ahead of the other. No collision.

    Args:
        encounter: the geometry.
        seen: how N encounters of it went.

    Returns:
        [N] bool.
    """
    obliged = torch.tensor(encounter.gives_way)
    if obliged.all():
        kept = (seen.turn == 1).all(-1)
    else:
        kept = (seen.gave_way | ~obliged).all(-1)
        if encounter.course != 0.0:
            kept &= ~(seen.crossed_ahead & obliged).any(-1)
    return kept & ~seen.collision


def summary(encounter: Encounter, seen: Manoeuvres, rows: Sequence[bool]) -> dict[str, float]:
    """Shares and means over encounters of one kind, by name; see RULES_COLUMNS in tables.

    Args:
        encounter: the geometry.
        seen: how encounters went.
        rows: which of them are of this kind.
    """
    kept = torch.tensor(rows)
    seen = Manoeuvres(*(tensor[kept] for tensor in vars(seen).values()))
    own, other = seen.gave_way.unbind(-1)
    turns = seen.turn[:, torch.tensor(encounter.gives_way)]
    turned = (turns != 0).sum().clamp_min(1)

    def share(flags: Tensor) -> float:
        return float(flags.double().mean())

    return {
        "compliance": share(complies(encounter, seen)),
        "only_own_gave_way": share(own & ~other),
        "only_other_gave_way": share(other & ~own),
        "both_gave_way": share(own & other),
        "nobody_gave_way": share(~own & ~other),
        "starboard_turns": float((turns == 1).sum() / turned),
        "closest_approach": float(seen.gap.clamp_min(0.0).mean()),
    }
