"""Compliance of vessels in encounters: safety, the rules kept by role, delay.

After Woerner, Benjamin, Novitzky and Leonard, "Quantifying protocol evaluation for autonomous
collision avoidance", Autonomous Robots 43 (2019). An encounter of two vessels begins when one sees
the other and there is a risk of collision (the zones of ``colregs``: ``domain``, ``horizon``); the
roles are those of that moment (see rules.roles) and hold until the vessels have come closest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from marinenav_env.physics.dynamics import wrap_to_pi
from marinenav_env.rules.duties import SUBSTANTIAL_SLOWING, SUBSTANTIAL_TURN
from marinenav_env.rules.roles import (
    GIVE_WAY,
    HEAD_ON,
    OVERTAKEN,
    OVERTAKING,
    ROLES,
    STAND_ON,
    relative_motion,
    roles,
)
from train_RL_agents.evaluation.recording import Recording, present_robots
from train_RL_agents.results.statistics import Estimate, hours_per, ratio_estimate, wilson_interval

ASTERN_SPEED = -0.05
"""Speed ahead below which a vessel counts as going astern (m/s)."""
SHARE_METRICS = ("all_kept", "rules_kept", "substantial", "early", "right_side", "not_ahead", "stood_on")
"""Names of the metrics of compliance that are 0 or 1 for a vessel, so that their means are shares."""


@dataclass(frozen=True)
class Duties:
    """Duties of every vessel (first R) towards every other (second R), and what it did.

    Shapes are [E, R, R], of type bool except for ``role``.
    """

    role: Tensor
    """[E, R, R] int64 role of the first vessel towards the second when their encounter began (see rules.roles); 0: no
    encounter."""
    acted_substantially: Tensor
    """Turned or slowed substantially until the closest approach."""
    acted_early: Tensor
    """Turned or slowed substantially while more than half of the gap was left, or before the other might act itself
    (``colregs.stand_on_until``)."""
    turned_right_side: Tensor
    """The first turn was not to port; head-on: it was to starboard."""
    crossed_ahead: Tensor
    """Passed from one side of the other's course to the other side, ahead of it."""
    stood_on: Tensor
    """Kept course and speed until the risk was over or the vessel had to act."""

    @property
    def keeps_clear(self) -> Tensor:
        """Return whether the first vessel has to keep out of the way of the second, [E, R, R] bool."""
        return (self.role == HEAD_ON) | (self.role == GIVE_WAY) | (self.role == OVERTAKING)

    @property
    def stands_on(self) -> Tensor:
        """Return whether the first vessel has to stand on, and has to keep clear of no vessel, [E, R, R] bool."""
        free = ~self.keeps_clear.any(-1, keepdim=True)
        return ((self.role == STAND_ON) | (self.role == OVERTAKEN)) & free

    @property
    def broken(self) -> Tensor:
        """Return whether the first vessel did not do what its role requires, [E, R, R] bool."""
        side = self.turned_right_side | (self.role == OVERTAKING)
        ahead = self.crossed_ahead & (self.role == GIVE_WAY)
        kept = self.acted_substantially & self.acted_early & side & ~ahead
        return (self.keeps_clear & ~kept) | (self.stands_on & ~self.stood_on)


def find_duties(recording: Recording) -> Duties:
    """Return the duties of every vessel towards every other, and what it did about them.

    Args:
        recording: recording of E encounters, whose rules of the sea define a risk of collision.
    """
    there, radius, rules = present_robots(recording), recording.vessel_radius, recording.rules
    heading = recording.poses[..., 2]
    speed = torch.linalg.vector_norm(recording.velocities[..., :2], dim=-1)
    met = relative_motion(recording.poses.flatten(0, 1), recording.velocities.flatten(0, 1))

    def by_frame(values: Tensor) -> Tensor:
        return values.unflatten(-1, there.shape[:2]).permute(2, 3, 0, 1)

    distance, time, miss, role = map(by_frame, (met.distance, met.tcpa, met.dcpa, roles(met)))
    both = there[..., None] & there[..., None, :] & (role > 0)
    reach = recording.sensor_range[..., None] + recording.detect_radius[:, None]
    close = (time > 0.0) & (time <= rules.horizon) & (miss.abs() < rules.domain)
    risk = both & close & (distance <= reach)
    frame = torch.arange(len(role))[:, None, None, None]
    began = _first_frame(risk)
    closest = torch.where(both & (frame >= began), distance, torch.inf).argmin(0)
    during = risk.any(0) & (frame >= began) & (frame <= closest)

    def at(values: Tensor, number: Tensor) -> Tensor:
        return values.expand(distance.shape).gather(0, number[None].clamp_max(len(distance) - 1))[0]

    off = wrap_to_pi(heading[..., None] - at(heading[..., None], began))
    share = speed[..., None] / at(speed[..., None], began).clamp_min(1e-6)
    turned = during & (off.abs() >= SUBSTANTIAL_TURN)
    acted = turned | (during & (share < 1.0 - SUBSTANTIAL_SLOWING))
    turn = torch.where(turned.any(0), at(off, _first_frame(turned)).sign(), 0.0)
    # Sides refer to the other vessel's course at the beginning, so that turns of that vessel change no side.
    aspect = wrap_to_pi(by_frame(met.aspect) + heading[:, :, None] - at(heading[:, :, None], began))
    ahead = (aspect[1:] * aspect[:-1] <= 0.0) & (aspect[1:].abs() < 0.5 * math.pi)
    ahead = ahead & (both & (frame > began) & (distance <= reach))[1:]
    role = torch.where(risk.any(0), at(role, began), 0)
    free = (frame > began) & ((distance < rules.stand_on_until) | (miss.abs() >= rules.domain))
    holding = during & (frame < _first_frame(free))
    left = holding & ((off.abs() >= SUBSTANTIAL_TURN) | ((share - 1.0).abs() >= SUBSTANTIAL_SLOWING))
    contact = radius[..., None] + radius[:, None]
    soon = torch.minimum(0.5 * (at(distance, began) + contact), torch.tensor(rules.stand_on_until))
    return Duties(
        role=role,
        acted_substantially=acted.any(0),
        acted_early=acted.any(0) & (at(distance, _first_frame(acted)) >= soon),
        turned_right_side=torch.where(role == HEAD_ON, turn > 0.0, turn >= 0.0),
        crossed_ahead=ahead.any(0),
        stood_on=~left.any(0),
    )


def _first_frame(happens: Tensor) -> Tensor:
    """Return the index [...] of the first of T+1 frames in which a mask [T+1, ...] is true; T + 1 if it never is."""
    return torch.where(happens.any(0), happens.to(torch.int8).argmax(0), len(happens))


def safety_scores(recording: Recording) -> Tensor:
    """Return the safety [E, R], from 0 at a contact to 1 where no other vessel came closer than the domain."""
    position, there, radius = recording.poses[..., :2], present_robots(recording), recording.vessel_radius
    distance = torch.linalg.vector_norm(position[..., None, :] - position[..., None, :, :], dim=-1)
    both = there[..., None] & there[..., None, :]
    both = both & ~torch.eye(position.shape[-2], dtype=torch.bool)
    closest = torch.where(both, distance, torch.inf).amin(0)
    contact = radius[..., None] + radius[:, None]
    share = ((closest - contact) / (recording.rules.domain - contact)).clamp(0.0, 1.0)
    return torch.where(closest.isfinite(), share, 1.0).amin(-1)


def steps_and_paths(recording: Recording) -> tuple[Tensor, Tensor, Tensor]:
    """Return the control steps of each vessel, its path (m), and its control steps astern; [E, R] each."""
    step = recording.poses[1:, ..., :2] - recording.poses[:-1, ..., :2]
    moving = present_robots(recording)[1:]
    heading = recording.poses[1:, ..., 2]
    vx, vy = recording.velocities[1:, ..., :2].unbind(-1)
    astern = moving & (heading.cos() * vx + heading.sin() * vy < ASTERN_SPEED)
    path = (torch.linalg.vector_norm(step, dim=-1) * moving).sum(0)
    return moving.sum(0), path, astern.sum(0)


def steps_and_paths_alone(recording: Recording) -> tuple[Tensor, Tensor]:
    """Return the control steps and the path (m) of the single vessel of each episode, [E]; nan if it did not arrive."""
    arrived = recording.arrived.any(0).any(-1)
    steps, path, _ = steps_and_paths(recording)
    return torch.where(arrived, steps.sum(-1), torch.nan), torch.where(arrived, path.sum(-1), torch.nan)


def measure_compliance(recording: Recording, alone: tuple[Tensor, Tensor], scored: Tensor) -> dict[str, Tensor]:
    """Return metrics of compliance of every vessel by name, [E, R] each; nan where a metric does not apply.

    Args:
        recording: recording of E encounters.
        alone: control steps and path (m) of every vessel without the others, [E, R] each; nan where it did not arrive,
            so that it has no delay and no detour.
        scored: [E, R] bool, which vessels are scored.
    """
    did = find_duties(recording)
    clear, crossing = did.keeps_clear, did.role == GIVE_WAY
    sided = crossing | (did.role == HEAD_ON)
    arrived = recording.arrived.any(0)
    steps, path, astern = steps_and_paths(recording)

    def share(kept: Tensor, asked: Tensor) -> Tensor:
        """Return 1 where a vessel kept all its duties, else 0; nan where it has none."""
        kept = (kept | ~asked).all(-1).double()
        return torch.where(asked.any(-1), kept, torch.nan)

    kept = share(~did.broken, clear | did.stands_on)
    metrics = {
        "safety": safety_scores(recording),
        "rules_kept": torch.where(recording.collided.any(0), 0.0 * kept, kept),
        "substantial": share(did.acted_substantially, clear),
        "early": share(did.acted_early, clear),
        "right_side": share(did.turned_right_side, sided),
        "not_ahead": share(~did.crossed_ahead, crossing),
        "stood_on": share(did.stood_on, did.stands_on),
        "delay": torch.where(arrived, (steps - alone[0]) * recording.dt, torch.nan),
        "detour": torch.where(arrived, path / alone[1] - 1.0, torch.nan),
        "astern": astern / steps.clamp_min(1),
    }
    return {name: torch.where(scored, metric.double(), torch.nan) for name, metric in metrics.items()}


def count_duties(recording: Recording, scored: Tensor) -> tuple[Tensor, Tensor]:
    """Return the numbers of kept and of all duties by role, [E, 5] int64 each; a vessel that collides keeps none.

    Args:
        recording: recording of E encounters.
        scored: [E, R] bool, which vessels are scored.
    """
    did = find_duties(recording)
    asked = (did.keeps_clear | did.stands_on) & scored[..., None]
    kept = asked & ~did.broken & ~recording.collided.any(0)[..., None]
    by_role = did.role[..., None] == torch.arange(1, len(ROLES))
    kept, asked = ((flags[..., None] & by_role).sum((1, 2)) for flags in (kept, asked))
    return kept, asked


def broken_duty_rates(recording: Recording, scored: Tensor, rows: Sequence[Tensor]) -> list[dict[str, float | None]]:
    """Return vessel-hours per duty that was not kept, of all roles and by role, for several groups of encounters.

    Args:
        recording: recording of E encounters.
        scored: [E, R] bool, which vessels are scored.
        rows: [E] bool masks of the encounters.

    Returns:
        Dict for each group: the number ``broken_rules``, and ``hours_per_broken_rule`` and ``hours_per_broken_`` with
        each role, with the ends of their intervals; None where no vessel has the role.
    """
    kept, asked = count_duties(recording, scored)
    steps, _, _ = steps_and_paths(recording)
    hours = (steps * scored).sum(-1) * recording.dt / 3600.0
    rates = []
    for mask in rows:
        exposure = float(hours[mask].sum())
        broken, number = (asked - kept)[mask].sum(0).tolist(), asked[mask].sum(0).tolist()
        row: dict[str, float | None] = {"broken_rules": sum(broken)}
        names = ("rule", *(name.replace("-", "_") for name in ROLES[1:]))
        for name, count, total in zip(names, (sum(broken), *broken), (sum(number), *number), strict=True):
            metrics = hours_per(f"broken_{name}", exposure, count)
            row |= metrics if total else dict.fromkeys(metrics)
        rates.append(row)
    return rates


def compliance_summary(measured: dict[str, Tensor], rows: Tensor) -> dict[str, float | None]:
    """Return the mean of every metric with its 95% interval, by name; None if it applies to no vessel.

    Intervals of shares are Wilson's, the others normal; the ends of a mean of one vessel are None.

    ``all_kept`` is the share of encounters in which every vessel that has a duty kept the rules.

    Args:
        measured: metrics of compliance by name, [E, R] each.
        rows: [E] bool mask of the encounters that count.
    """
    values = {name: metric[rows] for name, metric in measured.items()}
    kept = values["rules_kept"]
    everyone = torch.where(kept.isnan().all(-1), torch.nan, (kept != 0.0).all(-1).double())
    result: dict[str, float | None] = {}
    for name, value in {"all_kept": everyone, **values}.items():
        counted = value[~value.isnan()].numpy()
        if not len(counted):
            metrics = Estimate(None, None, None)
        elif name in SHARE_METRICS:
            metrics = Estimate(float(counted.mean()), *wilson_interval(int(counted.sum()), len(counted)))
        else:
            metrics = ratio_estimate(counted, np.ones_like(counted))
        result |= dict(zip((name, f"{name}_low", f"{name}_high"), metrics, strict=True))
    return result
