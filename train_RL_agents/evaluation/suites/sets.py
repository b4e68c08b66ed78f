"""Sets of scenarios that policies are evaluated on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from marinenav_env import Episode, WorldConfig
from marinenav_env.state import Scenario

Scoring = Literal["episodes", "encounters", "misbehaviour", "candidates"]
"""Results that a suite scores policies by: episodes alone, the role of every vessel (see seamanship), avoidable
collisions, or collisions per candidate."""


@dataclass(frozen=True)
class Part:
    """Scenarios of a ScenarioSet that are run together as one batch, and how they are run."""

    world: WorldConfig
    """Settings of the world in which the scenarios are run; Episode objects have vessels and weather of their own."""
    scenarios: Scenario | Sequence[Episode]
    """N scenarios; the ``level`` of scenario tensors is the index of their group in ScenarioSet.groups."""
    only_own: bool = False
    """True if the policy controls only robot 0; the others keep course and speed, or are steered by another policy."""
    levels: tuple[int, ...] | None = None
    """Index in ScenarioSet.groups of the group of each of N Episode objects; None: they form one group, or
    ``scenarios`` are tensors."""
    situations: tuple[int, ...] | None = None
    """Number of the traffic situation that each of the N scenarios repeats with other noise; None: all differ."""
    others: str = ""
    """Name of the policy or baseline that steers all vessels but robot 0 if ``only_own``; empty: they keep course and
    speed."""
    seed: int | None = None
    """Seed of the measurement noise; None: that of the ScenarioSet."""


@dataclass(frozen=True)
class ScenarioSet:
    """Scenarios that policies are evaluated on."""

    name: str
    """Name of the suite; ``levels`` or ``scenarios`` if drawn from levels or read from a file."""
    groups: tuple[str, ...]
    """Names of the groups of scenarios by which results are reported."""
    parts: tuple[Part, ...]
    """Scenarios, in parts that are each run as one batch."""
    seed: int
    """Seed of scenario sampling and measurement noise."""
    scoring: Scoring = "episodes"
    """Results that score policies."""

    def __len__(self) -> int:
        return sum(len(part.scenarios) for part in self.parts)

    @property
    def situations(self) -> tuple[int, ...]:
        """Return the number of the situation that each episode repeats; empty if all episodes differ."""
        keys = [(index, number) for index, part in enumerate(self.parts) for number in part.situations or ()]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        return tuple(numbers[key] for key in keys)
