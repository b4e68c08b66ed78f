"""Searches for encounters with a small clearance: at random, or by the cross-entropy method, in a space of encounters.

A search proposes encounters (``ask``) and gets their outcomes (``tell``), whole populations at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from marinenav_env.levels import DRAWN_BEHAVIOURS
from marinenav_env.stepping.behaviours import INSTANT_BEHAVIOURS
from marinenav_env.support.validation import require
from train_RL_agents.evaluation.suites.encounter_suites import COURSES_BY_KIND
from train_RL_agents.evaluation.suites.passing_encounters import (
    COURSE,
    KIND_NAMES,
    LEAD,
    NUM_PARAMETERS,
    PACE,
    PASSING_SIDE,
    Encounters,
)

MAX_VESSELS = 6
PARTS_PER_RANGE = 4
"""Number of equal parts of a continuous parameter's range; failures within one part count as the same."""
Rows = TypeVar("Rows", bound=tuple[Any, ...])
ELITE_SIZE = 20
"""Number of encounters, those with the smallest clearance, around which new ones are drawn while fewer failures than
this are known."""
KERNEL_STD = 0.06
"""Standard deviation of the continuous parameters, each in [0, 1], around an encounter of the elite."""
MUTATION_PROBABILITY = 0.03
"""Probability that the behaviour of a vessel is replaced by a random one."""
RANDOM_SHARE = 0.05
"""Share of the encounters after the first population that are random."""
FAILURE_SHARE_POWER = 4
"""Exponent of the share of failures in the weight of encounters that count as the same (see signatures)."""
OTHER_COLLISION_SCORE = 10.0
"""Score of a collision that is no failure in place of its clearance (m); it is large, so that the search, which prefers
small scores, does not look for more of them."""
TARGETS = ("avoidable", "candidates")
"""Kinds of collisions that are searched for: those that a manoeuvre would have avoided, and those in encounters that
stayed candidates until the contact."""


def concatenate_batches(several: Sequence[Rows]) -> Rows:
    """Concatenate several batches of Encounters, or of Trials."""
    return type(several[0])(*(torch.cat(tensors) for tensors in zip(*several, strict=True)))


@dataclass(frozen=True)
class SearchSpace:
    """Range of the encounters that a search may choose."""

    vessels: int = 3
    """Largest number of vessels, the own one included."""
    behaviours: tuple[str, ...] = DRAWN_BEHAVIOURS
    """Possible behaviours of the other vessels, from levels.DRAWN_BEHAVIOURS."""

    def __post_init__(self) -> None:
        require(2 <= self.vessels <= MAX_VESSELS, "--vessels", self.vessels, f"from 2 to {MAX_VESSELS}")
        are_known = len(self.behaviours) > 0 and {*self.behaviours} <= {*DRAWN_BEHAVIOURS}
        require(are_known, "--behaviours", " ".join(self.behaviours), f"one or more of {', '.join(DRAWN_BEHAVIOURS)}")

    @property
    def num_others(self) -> int:
        """Return the largest number V of other vessels."""
        return self.vessels - 1

    def draw(self, episodes: int, generator: torch.Generator) -> Encounters:
        """Return ``episodes`` random encounters: every parameter is drawn uniformly and independently."""
        shape = (episodes, self.num_others)
        # Weights of the cells, which are 0 for behaviours that are not allowed.
        allowed = torch.tensor([float(name in self.behaviours) for name in DRAWN_BEHAVIOURS]).repeat(
            len(COURSES_BY_KIND)
        )
        return Encounters(
            torch.randint(1, self.vessels, shape[:1], generator=generator),
            torch.multinomial(allowed.double(), episodes * self.num_others, True, generator=generator).view(shape),
            torch.rand(*shape, NUM_PARAMETERS, generator=generator, dtype=torch.float64),
        )


def signatures(encounters: Encounters, hit: Tensor) -> Tensor:
    """Return signatures [P, 7], which are equal for encounters that count as the same.

    A signature is the number of vessels, kind and behaviour of the vessel that is hit, and the quarters of the ranges
    of its course, passing distance, speed and time from the onset.
    """
    row = torch.arange(len(hit))
    quarter = (PARTS_PER_RANGE * encounters.unit[row, hit]).to(torch.int64).clamp_max(PARTS_PER_RANGE - 1)
    behaviour = encounters.behaviour[row, hit]
    lead = torch.where(torch.isin(behaviour, INSTANT_BEHAVIOURS), 0, quarter[:, LEAD])
    columns = (
        encounters.num_others,
        encounters.kind[row, hit],
        behaviour,
        quarter[:, COURSE],
        quarter[:, PASSING_SIDE],
    )
    return torch.stack((*columns, quarter[:, PACE], lead), -1)


def describe_encounters(encounters: Encounters, hit: Tensor) -> list[str]:
    """Return a description of each encounter: kind and behaviour of the vessel that is hit, and number of vessels."""
    row = torch.arange(len(hit))
    columns = (encounters.kind[row, hit], encounters.behaviour[row, hit], encounters.num_others)
    return [
        f"{KIND_NAMES[kind]}, {DRAWN_BEHAVIOURS[code]}, {count + 1} vessels"
        for kind, code, count in zip(*(column.tolist() for column in columns), strict=True)
    ]


class Trials(NamedTuple):
    """Outcomes of P encounters, each of which was run once."""

    clearance: Tensor
    """[P] smallest distance between the hull of the own vessel and another (m), negative if they collided."""
    collision: Tensor
    """[P] bool: the own vessel collided."""
    unavoidable: Tensor
    """[P] bool: the own vessel collided, and no manoeuvre from the moment on at which it could see the misbehaviour
    avoids that; see evaluation.avoidance."""
    unavoidable_at_sight: Tensor
    """[P] bool: likewise no manoeuvre from the moment on at which it first sees a vessel avoids that."""
    hit: Tensor
    """[P] int64 index, among the vessels other than the own one, of the vessel that came closest."""
    unconfirmed: Tensor
    """[P] bool: the own vessel collided in an encounter that was not confirmed until then, see rules.encounters."""
    failed: Tensor
    """[P] bool: the own vessel had a collision of the kind that is searched for, a failure."""

    def rows(self, chosen: Tensor) -> Trials:
        """Return the outcomes of some of the P encounters, chosen by their indices [N] or by a bool mask [P]."""
        return Trials(*(tensor[chosen] for tensor in self))


class RandomSearch:
    """Search that proposes random encounters."""

    def __init__(self, space: SearchSpace, seed: int) -> None:
        self._space, self._generator = space, torch.Generator().manual_seed(seed)

    def ask(self, episodes: int) -> Encounters:
        """Return ``episodes`` random encounters to run."""
        return self._space.draw(episodes, self._generator)

    def tell(self, encounters: Encounters, trials: Trials) -> None:
        """Receive the outcomes of the encounters that ``ask`` returned last, from which this search learns nothing."""


class CrossEntropy(RandomSearch):
    """Cross-entropy method (Rubinstein 1999) with a kernel density estimate of the elite.

    The elite are all failures and, if these are few, the encounters with the smallest clearance. Encounters are drawn
    around one of the elite: continuous parameters from normal distributions, reflected at the ends of the ranges, and
    with a small probability another behaviour. All encounters with the same signature (see signatures)
    together weigh as much as the share of them that fail, to the power of FAILURE_SHARE_POWER, however many fail, so
    that the same failure is not found a thousand times. The first population is random, and so is a share of the later
    ones.
    """

    def __init__(self, space: SearchSpace, seed: int) -> None:
        super().__init__(space, seed)
        self._seen: list[tuple[Encounters, Trials]] = []

    def ask(self, episodes: int) -> Encounters:
        """Return ``episodes`` encounters to run, drawn around those of the elite; the first population is random."""
        drawn, generator = super().ask(episodes), self._generator
        if not self._seen:
            return drawn
        encounters = concatenate_batches([asked for asked, _ in self._seen])
        centre = encounters.rows(torch.multinomial(self._weights(encounters), episodes, True, generator=generator))
        normal = centre.unit + KERNEL_STD * torch.randn(centre.unit.shape, generator=generator, dtype=torch.float64)
        reflected = (1.0 - (1.0 - normal.abs()).abs()).clamp(0.0, 1.0)
        changes = torch.rand(centre.cell.shape, generator=generator) < MUTATION_PROBABILITY
        cell = centre.kind * len(DRAWN_BEHAVIOURS) + torch.where(changes, drawn.behaviour, centre.behaviour)
        is_random = torch.rand(episodes, generator=generator) < RANDOM_SHARE
        return Encounters(
            torch.where(is_random, drawn.num_others, centre.num_others),
            torch.where(is_random[:, None], drawn.cell, cell),
            torch.where(is_random[:, None, None], drawn.unit, reflected),
        )

    def tell(self, encounters: Encounters, trials: Trials) -> None:
        """Store the outcomes of the encounters that ``ask`` returned last."""
        self._seen.append((encounters, trials))

    def _weights(self, encounters: Encounters) -> Tensor:
        """Return the unnormalized probabilities [P] with which encounters are drawn around each one seen so far."""
        trials = concatenate_batches([seen for _, seen in self._seen])
        failed = trials.failed.double()
        _, group, total = signatures(encounters, trials.hit).unique(dim=0, return_inverse=True, return_counts=True)
        failures = torch.zeros(len(total), dtype=failed.dtype).index_add(0, group, failed)
        weights = failed * ((failures / total) ** FAILURE_SHARE_POWER / failures.clamp_min(1.0))[group]
        if failed.sum() < ELITE_SIZE:
            score = torch.where(trials.collision & ~trials.failed, OTHER_COLLISION_SCORE, trials.clearance)
            weights[score.topk(min(ELITE_SIZE, len(score)), largest=False).indices] = 1.0
        return weights


SEARCH_METHODS: dict[str, type[RandomSearch]] = {"cross-entropy": CrossEntropy, "random": RandomSearch}
