"""Encounters that a search chooses from, see passing_encounters, and which of them count as the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

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
