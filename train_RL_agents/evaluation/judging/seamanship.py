"""Compliance of vessels in encounters: safety, the rules kept by role, delay.

After Woerner, Benjamin, Novitzky and Leonard, "Quantifying protocol evaluation for autonomous
collision avoidance", Autonomous Robots 43 (2019). What an encounter is, who has which
duty in it, and whether it is kept, is decided by marinenav_env.rules.encounters alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from marinenav_env.config import ColregsConfig
from marinenav_env.rules.encounters import CONFIRMED, NONE, EncounterState, Sight, update_encounters
from marinenav_env.rules.roles import GIVE_WAY, HEAD_ON, ROLES
from marinenav_env.runtime.layout import env_last
from train_RL_agents.evaluation.running.recording import Recording, hiding_shores, present_robots
from train_RL_agents.utils.statistics import hours_per, ratio_estimate, share_estimate

ASTERN_SPEED = -0.05
"""Speed ahead below which a vessel counts as going astern (m/s)."""
SHARE_METRICS = ("all_kept", "rules_kept", "substantial", "early", "right_side", "not_ahead", "stood_on")
"""Names of the metrics of compliance that are 0 or 1 for a vessel, so that their means are shares."""


BREACHES = ("contact", "no manoeuvre in time", "wrong side", "crossed ahead", "did not stand on")
"""Ways to break a duty, in words."""


@dataclass(frozen=True)
class JudgedEncounters:
    """N encounters, each seen from one of its two vessels; all tensors [N]."""

    episode: Tensor
    """Index of the episode."""
    own: Tensor
    """Index of the vessel whose duty is judged."""
    other: Tensor
    """Index of the vessel that it meets."""
    state: EncounterState
    """State in the step in which the encounter, or its recording, ended."""

    @property
    def is_fleeting(self) -> Tensor:
        """Return whether the risk, or the recording, ended before the encounter was confirmed."""
        return ~self.state.counts

    @property
    def is_unseen_contact(self) -> Tensor:
        """Return whether the hulls touched before the encounter was confirmed: in the step that confirmed it."""
        return (self.state.touched > 0.0) & (self.state.age == 0.0)

    @property
    def is_kept(self) -> Tensor:
        """Return whether the vessel has a duty and kept it."""
        return self.state.has_duty & ~self.state.is_broken

    def breaches(self) -> Tensor:
        """Return the way in which the vessel broke its duty first of BREACHES, as an index; -1 if it kept it."""
        state = self.state
        ahead = (state.crossed_ahead > 0.0) & (state.role == GIVE_WAY)
        flags = (state.touched, state.is_late, state.on_wrong_side, ahead, state.has_left)
        first = torch.stack([flag > 0.0 for flag in flags]).to(torch.int8).argmax(0)
        return torch.where(state.is_broken, first, -1)


def judge(recording: Recording, rules: ColregsConfig | None = None) -> JudgedEncounters:
    """Return all encounters in a recording, with the duties of both vessels and whether these were kept.

    The definitions ``rules`` of encounters and duties are by default those of the recorded world.
    """
    there, rules = present_robots(recording.active), rules or recording.rules
    sight = Sight(recording.vessel_radius, recording.detect_radius, recording.sensor_range, hiding_shores(recording))
    envs, robots = there.shape[1:]
    encounters = recording.poses.new_zeros(envs, robots, robots, len(EncounterState._fields))
    places, states = [], []
    for frame in range(len(there)):
        pose, velocity = recording.poses[frame], recording.velocities[frame]
        encounters = update_encounters(encounters, pose, velocity, there[frame], sight, rules, recording.dt)
        fields = env_last(encounters)
        phase = EncounterState(*fields).phase
        ended = phase > (CONFIRMED if frame < len(there) - 1 else NONE)
        places.append(ended.nonzero())
        states.append(fields[:, ended])
    own, other, episode = torch.cat(places).unbind(-1)
    return JudgedEncounters(episode, own, other, EncounterState(*torch.cat(states, -1)))


def safety_scores(recording: Recording) -> Tensor:
    """Return the safety [E, R], from 0 at a contact to 1 where no other vessel came closer than the domain."""
    position, there, radius = recording.poses[..., :2], present_robots(recording.active), recording.vessel_radius
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
    moving = present_robots(recording.active)[1:]
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


def measure_compliance(
    judged: JudgedEncounters, recording: Recording, alone: tuple[Tensor, Tensor], scored: Tensor
) -> dict[str, Tensor]:
    """Return metrics of compliance of every scored vessel by name, [E, R] each; nan where a metric does not apply.

    ``alone`` are control steps and path (m) of every vessel without the others, [E, R] each; nan where it did not
    arrive, so that it has no delay and no detour.
    """
    state = judged.state
    clear = state.has_duty & state.keeps_clear
    crossing = clear & (state.role == GIVE_WAY)
    sided = crossing | (clear & (state.role == HEAD_ON))
    arrived = recording.arrived.any(0)
    steps, path, astern = steps_and_paths(recording)

    def any_of(flags: Tensor) -> Tensor:
        """Return whether any encounter of a vessel has a flag, [E, R] bool."""
        found = torch.zeros(scored.shape, dtype=torch.bool)
        found[judged.episode[flags], judged.own[flags]] = True
        return found

    def share(kept: Tensor, asked: Tensor) -> Tensor:
        """Return 1 where a vessel kept all its duties, else 0; nan where it has none."""
        return torch.where(any_of(asked), (~any_of(asked & ~kept)).double(), torch.nan)

    metrics = {
        "safety": safety_scores(recording),
        "rules_kept": share(judged.is_kept, state.has_duty),
        "substantial": share(state.has_manoeuvred > 0.0, clear),
        "early": share(state.is_late == 0.0, clear),
        "right_side": share(state.on_wrong_side == 0.0, sided),
        "not_ahead": share(state.crossed_ahead == 0.0, crossing),
        "stood_on": share(state.has_left == 0.0, state.has_duty & ~clear),
        "delay": torch.where(arrived, (steps - alone[0]) * recording.dt, torch.nan),
        "detour": torch.where(arrived, path / alone[1] - 1.0, torch.nan),
        "astern": astern / steps.clamp_min(1),
    }
    return {name: torch.where(scored, metric.double(), torch.nan) for name, metric in metrics.items()}


def count_duties(judged: JudgedEncounters, scored: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the numbers of kept and of all duties of scored vessels by role, [E, 5], and of fleeting risks, [E]."""
    counts = scored[judged.episode, judged.own]
    role = judged.state.role.to(torch.int64)

    def number(flags: Tensor) -> Tensor:
        """Return the number of encounters with a flag by episode and role, [E, 6]."""
        totals = torch.zeros(len(scored), len(ROLES), dtype=torch.int64)
        return totals.index_put_((judged.episode, role), (flags & counts).to(torch.int64), accumulate=True)

    kept, asked = number(judged.is_kept)[:, 1:], number(judged.state.has_duty)[:, 1:]
    return kept, asked, number(judged.is_fleeting).sum(-1)


def broken_duty_rates(
    judged: JudgedEncounters, recording: Recording, scored: Tensor, rows: Sequence[Tensor]
) -> list[dict[str, float | None]]:
    """Return vessel-hours per duty that was not kept, of all roles and by role, for several groups of encounters.

    The groups are masks [E], the scored vessels a mask [E, R]. Each group has the numbers ``broken_duties`` and
    ``fleeting``; ``hours_per_broken_duty``, and ``hours_per_broken_`` with each role, with the ends of their intervals,
    None where no vessel has the role.
    """
    kept, asked, fleeting = count_duties(judged, scored)
    steps, _, _ = steps_and_paths(recording)
    hours = (steps * scored).sum(-1) * recording.dt / 3600.0
    rates = []
    for mask in rows:
        exposure = float(hours[mask].sum())
        broken, number = (asked - kept)[mask].sum(0).tolist(), asked[mask].sum(0).tolist()
        row: dict[str, float | None] = {"broken_duties": sum(broken), "fleeting": int(fleeting[mask].sum())}
        names = ("duty", *(name.replace("-", "_") for name in ROLES[1:]))
        for name, count, total in zip(names, (sum(broken), *broken), (sum(number), *number), strict=True):
            metrics = hours_per(f"broken_{name}", exposure, count)
            row |= metrics if total else dict.fromkeys(metrics)
        rates.append(row)
    return rates


def compliance_summary(measured: dict[str, Tensor], rows: Tensor) -> dict[str, float | None]:
    """Return the mean of every metric [E, R] with its 95% interval, by name; None if it applies to no vessel.

    The encounters in the mask ``rows`` [E] count. Intervals of shares are Wilson's, the others normal; the ends of a
    mean of one vessel are None. ``all_kept`` is the share of encounters in which every vessel that has a duty kept the
    rules.
    """
    values = {name: metric[rows] for name, metric in measured.items()}
    kept = values["rules_kept"]
    everyone = torch.where(kept.isnan().all(-1), torch.nan, (kept != 0.0).all(-1).double())
    result: dict[str, float | None] = {}
    for name, value in {"all_kept": everyone, **values}.items():
        counted = value[~value.isnan()].numpy()
        if name in SHARE_METRICS or not len(counted):
            estimate = share_estimate(int(counted.sum()), len(counted))
        else:
            estimate = ratio_estimate(counted, np.ones_like(counted))
        result |= estimate.entries(name)
    return result
