"""Search for failures of a policy: metrics of the search, and scenarios in which the policy fails again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marinenav_env import Episode, WorldConfig
from marinenav_env.levels import DRAWN_BEHAVIOURS
from marinenav_env.scenarios.episode import episodes_from_scenarios
from marinenav_env.vessels import largest_value
from train_RL_agents.config.schema import MAX_SEED
from train_RL_agents.evaluation.judging.avoidance import collision_masks
from train_RL_agents.evaluation.judging.policies import ActingOptions, EvaluatedPolicy, run_set
from train_RL_agents.evaluation.judging.seamanship import judge
from train_RL_agents.evaluation.running.recording import Recording, present_robots
from train_RL_agents.evaluation.suites.encounter_suites import COURSES_BY_KIND
from train_RL_agents.evaluation.suites.passing_encounters import Encounters, encounter_batches
from train_RL_agents.evaluation.suites.sets import Part, ScenarioSet
from train_RL_agents.experiments.searches import (
    SEARCH_METHODS,
    TARGETS,
    SearchSpace,
    Trials,
    concatenate_batches,
    describe_encounters,
    signatures,
)
from train_RL_agents.utils.statistics import Estimate, share_estimate

POPULATION_SIZE = 200
"""Number of encounters in a population, which are run together."""
SET_NAME = "falsify"
MIN_OVERLAP = 1e-6
"""Smallest overlap of the hulls in a collision (m)."""

Progress = Callable[[str, int, int], None]
"""Callback that receives the method and the numbers of episodes and of failures so far."""
Run = Callable[[Encounters, int], Trials]
"""Function that runs encounters with a seed of the measurement noise."""


# Searches ---------------------------------------------------------------------------------------


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
    gap, hit = smallest_clearance(recording)
    found = collision_masks(chosen, recording, world, acting, device)
    unavoidable = found["unavoidable"]
    at_sight = unavoidable & found["unavoidable_at_sight"]
    collision = found["collision"]
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
    there = present_robots(recording.active)
    gap = torch.where(there[:, :, 1:] & there[:, :, :1], gap, torch.inf).amin(0)
    return gap.min(-1)


@dataclass(frozen=True)
class SearchResult:
    """All encounters of a search with their outcomes."""

    method: str
    encounters: Encounters
    trials: Trials
    seconds: float
    """Wall time of the search (s)."""

    @property
    def rate(self) -> Estimate:
        """Return the failures per 1,000 episodes, with Wilson's interval.

        For the cross-entropy method the interval does not include how much seeds differ, because later encounters
        depend on earlier outcomes.
        """
        return Estimate(
            *(1000.0 * value for value in share_estimate(int(self.trials.failed.sum()), len(self.trials.failed)))
        )

    @property
    def distinct(self) -> Tensor:
        """Return the ascending indices of the first failure of every signature (see searches.signatures)."""
        (rows,) = self.trials.failed.nonzero(as_tuple=True)
        return rows[_first_of_each_group(signatures(self.encounters.rows(rows), self.trials.hit[rows]))]

    def metrics(self) -> dict[str, Any]:
        """Return the metrics of the search by name, as plain values that JSON can hold."""
        failed = self.trials.failed
        rows = failed.nonzero(as_tuple=True)[0]
        vessel = self.trials.hit[rows]
        kinds, codes = (column[rows, vessel].tolist() for column in (self.encounters.kind, self.encounters.behaviour))
        return {
            "episodes": len(failed),
            "collisions": int(self.trials.collision.sum()),
            "unavoidable": int(self.trials.unavoidable.sum()),
            "unavoidable_at_sight": int(self.trials.unavoidable_at_sight.sum()),
            "unconfirmed": int(self.trials.unconfirmed.sum()),
            "failures": int(failed.sum()),
            **self.rate.entries("per_1000"),
            "distinct": len(self.distinct),
            "seconds": round(self.seconds, 1),
            "by_kind": dict(Counter([*COURSES_BY_KIND][kind] for kind in kinds)),
            "by_behaviour": dict(Counter(DRAWN_BEHAVIOURS[code] for code in codes)),
        }


def _first_of_each_group(signature: Tensor) -> Tensor:
    """Return the index of the first row of each group of equal rows [P, N], ascending."""
    _, first = np.unique(signature.numpy(), axis=0, return_index=True)
    return torch.from_numpy(np.sort(first))


def run_search(
    method: str,
    run: Run,
    space: SearchSpace,
    episodes: int,
    seed: int,
    progress: Progress | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> SearchResult | None:
    """Search for failures of a policy; return None if the search is stopped before its first population."""
    searching, began = SEARCH_METHODS[method](space, seed), time.perf_counter()
    encounters, trials = list[Encounters](), list[Trials]()
    number = failures = 0
    while number < episodes and not is_stopped():
        asked = searching.ask(min(POPULATION_SIZE, episodes - number))
        # Seeds follow each other, so that every population has its own noise.
        outcomes = run(asked, (seed + len(encounters) + 1) % MAX_SEED)
        searching.tell(asked, outcomes)
        encounters.append(asked)
        trials.append(outcomes)
        number, failures = number + len(asked.num_others), failures + int(outcomes.failed.sum())
        if progress is not None:
            progress(method, number, failures)
    if not encounters:
        return None
    return SearchResult(
        method, concatenate_batches(encounters), concatenate_batches(trials), time.perf_counter() - began
    )


Failures = list[tuple[Episode, str]]
"""Encounters with a failure as episodes of a scenario file, with their descriptions."""


def distinct_failures(results: Sequence[SearchResult], world: WorldConfig, seed: int) -> Failures:
    """Return the first encounter of every signature among the failures that searches found.

    Encounters in which vessels would touch each other at the start are left out.
    """
    chosen = concatenate_batches([result.encounters.rows(result.trials.failed) for result in results])
    hit = torch.cat([result.trials.hit[result.trials.failed] for result in results])
    first = _first_of_each_group(signatures(chosen, hit))
    chosen, hit = chosen.rows(first), hit[first]
    labels, apart = describe_encounters(chosen, hit), 2.0 * largest_value(world.vessel.radius)
    episodes: dict[int, Episode] = {}
    for batch in encounter_batches(chosen, world) if len(hit) else ():
        start, mask = batch.scenarios.start, batch.scenarios.robot_mask
        pairs = mask[:, :, None] & mask[:, None] & ~torch.eye(mask.shape[1], dtype=torch.bool)
        is_apart = ((torch.cdist(start, start) > apart) | ~pairs).all(-1).all(-1)
        converted = episodes_from_scenarios(batch.scenarios[is_apart], batch.world, seed)
        episodes |= dict(zip(batch.rows[is_apart].tolist(), converted, strict=True))
    return [(episodes[row], labels[row]) for row in sorted(episodes)]


def run_failures(
    evaluated: EvaluatedPolicy, failures: Failures, world: WorldConfig, seed: int, device: torch.device
) -> tuple[Tensor, Recording]:
    """Run episodes as ``evaluate --scenarios`` does, and return which of them collide, [N] bool, with the recording."""
    episodes, labels = zip(*failures, strict=True)
    chosen = ScenarioSet(SET_NAME, (), (Part(world, episodes),), seed)
    _, recording = run_set(evaluated, chosen, world, ActingOptions(), device, evaluated.label)
    assert recording is not None
    return recording.collided[:, :, 0].any(0), replace(recording, groups=labels)


def select_reproducible(
    evaluated: EvaluatedPolicy, failures: Failures, world: WorldConfig, seed: int, device: torch.device
) -> tuple[Failures, Recording | None]:
    """Return episodes for a scenario file that all fail at their places in it, and their recording (None if empty).

    The measurement noise of an episode depends on its place in the file. Episodes that do not fail at their places are
    left out, and the last ones take these places.
    """
    order = torch.arange(len(failures))
    while len(order):
        chosen = [failures[row] for row in order.tolist()]
        failed, recording = run_failures(evaluated, chosen, world, seed, device)
        if failed.all():
            return chosen, recording
        count = int(failed.sum())
        kept, place_of = order[:count].clone(), torch.arange(len(order))
        kept[~failed[:count]] = order[failed & (place_of >= count)]
        order = kept
    return [], None
