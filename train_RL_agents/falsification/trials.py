"""Runs of encounters, with one batch for each world that a population needs."""

from __future__ import annotations

import torch
from torch import Tensor

from marinenav_env import WorldConfig
from train_RL_agents.evaluation.judging.avoidance import (
    find_unavoidable_in_set,
    first_detection_step,
    first_misbehaviour_step,
)
from train_RL_agents.evaluation.judging.policies import ActingOptions, EvaluatedPolicy, run_set
from train_RL_agents.evaluation.judging.seamanship import judge
from train_RL_agents.evaluation.running.recording import Recording, present_robots
from train_RL_agents.evaluation.suites.suites import Part, ScenarioSet
from train_RL_agents.falsification.encounters import Encounters, encounter_batches
from train_RL_agents.falsification.searches import TARGETS, Trials

SET_NAME = "falsify"
"""Name of the scenario sets that encounters are run in."""
MIN_OVERLAP = 1e-6
"""Smallest overlap of the hulls in a collision (m)."""


def run_encounters(
    evaluated: EvaluatedPolicy,
    encounters: Encounters,
    world: WorldConfig,
    seed: int,
    device: torch.device,
    target: str = TARGETS[0],
) -> Trials:
    """Run encounters once, and return their outcomes in the same order; failures are those of a target."""
    placed, acting = [*encounter_batches(encounters, world)], ActingOptions()
    chosen = ScenarioSet(SET_NAME, (), tuple(Part(batch.world, batch.scenarios) for batch in placed), seed)
    _, recording = run_set(evaluated, chosen, world, acting, device, evaluated.label)
    assert recording is not None
    collision = recording.collided[:, :, 0].any(0)
    gap, hit = smallest_clearance(recording)
    unavoidable = find_unavoidable_in_set(
        chosen, recording, collision, first_misbehaviour_step(recording), world, acting, device
    )
    at_sight = find_unavoidable_in_set(
        chosen, recording, unavoidable, first_detection_step(recording), world, acting, device
    )
    gap = torch.where(collision, gap.clamp_max(-MIN_OVERLAP), gap)
    order = torch.cat([batch.rows for batch in placed]).argsort()
    judged, unconfirmed = judge(recording), torch.zeros_like(collision)
    unconfirmed[judged.episode[judged.is_unseen_contact & (judged.own == 0)]] = True
    failed = dict(zip(TARGETS, (collision & ~unavoidable, unconfirmed), strict=True))[target]
    return Trials(gap, collision, unavoidable, at_sight, hit, unconfirmed, failed).rows(order)


def smallest_clearance(recording: Recording) -> tuple[Tensor, Tensor]:
    """Return the smallest gap between the hulls of the own vessel and another, and that vessel's index.

    A vessel counts up to the frame in which it collides or arrives.
    """
    position, radius = recording.poses[..., :2], recording.vessel_radius
    gap = (position[:, :, 1:] - position[:, :, :1]).norm(dim=-1) - radius[:, 1:] - radius[:, :1]
    there = present_robots(recording)
    gap = torch.where(there[:, :, 1:] & there[:, :, :1], gap, torch.inf).amin(0)
    return gap.min(-1)
