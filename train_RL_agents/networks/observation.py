"""Observations as inputs of networks: named tensors, with a specification from the world."""

from __future__ import annotations

from dataclasses import dataclass

from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env import GROUP, WorldConfig
from marinenav_env.sensing.entries import Entry
from marinenav_env.sensing.observation import observation_entries

OBSERVATION = (GROUP, "observation")
"""Key of the observation in the world's TensorDict."""
ACTIVE = "active"
"""Name of the mask of active robots beside the entries."""

Observation = dict[str, Tensor]
"""Entries by name, each [B, *shape of the entry]; B stands for any leading shape."""


@dataclass(frozen=True)
class ObservationSpec:
    """Specification of a robot's observation."""

    entries: dict[str, Entry]
    """Descriptions of the entries by name."""
    radius: float
    """Collision radius of the observing vessel (m)."""

    @classmethod
    def of(cls, world: WorldConfig) -> ObservationSpec:
        """Return the specification of a world; with several vessel sizes the largest radius is used."""
        radius = world.vessel.radius
        largest = max(radius) if isinstance(radius, tuple) else radius
        # Rounded to millimetres, as policies were trained with 2.795 m for the published vessel.
        return cls(observation_entries(world), round(largest, 3))

    def without(self, excluded: tuple[str, ...]) -> ObservationSpec:
        """Return the specification without some entries and the masks that belong to them."""
        masks = {self.entries[name].mask for name in excluded if name in self.entries}
        kept = {name: entry for name, entry in self.entries.items() if name not in excluded and name not in masks}
        return ObservationSpec(kept, self.radius)


def observation_of(observation: TensorDictBase) -> Observation:
    """Return the entries of the world's observation, of any batch shape."""
    return dict(observation.items())


def repeat(observation: Observation, axis: int, count: int) -> Observation:
    """Return every observation ``count`` times along a new axis, without copies.

    Args:
        observation: entries with more than ``axis`` leading dimensions.
        axis: position of the new dimension.
        count: size of the new dimension.
    """
    return {
        name: entry.unsqueeze(axis).expand(*entry.shape[:axis], count, *entry.shape[axis:])
        for name, entry in observation.items()
    }
