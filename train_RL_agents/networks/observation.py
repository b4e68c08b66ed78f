"""Observations as inputs of networks: named tensors, and the specification that networks are built for."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env import GROUP
from marinenav_env.sensing.entries import ENTRY_KINDS, Entry
from marinenav_env.sensing.observation import observation_entries
from marinenav_env.support.validation import ConfigError, is_nonnegative_int, is_number, is_printable_text
from train_RL_agents.networks.features import GeometryScales

OBSERVATION_KEY = (GROUP, "observation")
ACTIVE_KEY = "active"
"""Name of the mask [B] of active robots, which networks get in addition to the entries of an observation."""

_MAX_SIZE = 1 << 20
"""Largest size of a dimension of an entry, or of an action, that a file may state."""
Observation = dict[str, Tensor]
"""Observation as its entries by name, tensors [B, *shape of the entry]; B stands for any leading shape."""


@dataclass(frozen=True)
class ObservationSpec:
    """Specification of what an agent observes and of its continuous actions."""

    entries: dict[str, Entry]
    """Descriptions of the entries of the observation by name."""
    radius: float = 0.0
    """Collision radius of the observing vessel (m); 0 in environments without vessels."""
    action_size: int = 2
    """Number D of components of a continuous action."""

    def to_dict(self) -> dict[str, Any]:
        """Return the specification, without the radius, as plain values that ``from_dict`` reads."""
        entries: list[dict[str, Any]] = [
            {"name": e.name, "kind": e.kind, "shape": list(e.shape), "scale": list(e.scale), "mask": e.mask}
            for e in self.entries.values()
        ]
        return {"entries": entries, "action_size": self.action_size}

    @classmethod
    def from_dict(cls, content: Any) -> "ObservationSpec":
        """Return the specification that ``to_dict`` returned as plain values, which are checked; its radius is 0."""
        try:
            entries = [
                Entry(e["name"], e["kind"], tuple(e["shape"]), scale=tuple(e["scale"]), mask=e["mask"])
                for e in content["entries"]
            ]
            size = content["action_size"]
        except (TypeError, KeyError) as error:
            raise ValueError("no specification of an observation") from error
        numbers = [number for entry in entries for number in (*entry.shape, *entry.scale)]
        is_valid = len(entries) > 0 and is_nonnegative_int(size) and all(is_number(number) for number in numbers)
        for entry in entries:
            is_valid &= all(map(is_printable_text, (entry.name, entry.mask))) and entry.kind in ENTRY_KINDS
            is_valid &= all(is_nonnegative_int(number) and 0 < number <= _MAX_SIZE for number in entry.shape)
            is_valid &= all(number > 0.0 for number in entry.scale)
        if not is_valid or size > _MAX_SIZE:
            raise ValueError("no specification of an observation")
        return cls({entry.name: entry for entry in entries}, action_size=size)

    @property
    def scales(self) -> GeometryScales:
        """Return the scales of the encounter geometry; in environments without vessels, the published vessel's."""
        own = self.entries.get("self_state")
        return GeometryScales(*own.scale[1:3]) if own else GeometryScales()  # the scales of the goal's y and of u

    def exclude(self, excluded: tuple[str, ...]) -> "ObservationSpec":
        """Return the specification without the named entries, and the masks and identities that belong to them."""
        kept = {name: entry for name, entry in self.entries.items() if name not in excluded}
        masks = {self.entries[name].mask for name in excluded if name in self.entries} - {""}
        masks -= {entry.mask for entry in kept.values() if entry.has_features}
        kept = {name: entry for name, entry in kept.items() if name not in masks and entry.mask not in masks}
        return replace(self, entries=kept)

    def batch_ones(self, observation: Observation) -> Tensor:
        """Return a tensor of ones [B] with the batch shape, dtype and device of observations [B]."""
        name, entry = next((name, entry) for name, entry in self.entries.items() if entry.has_features)
        return torch.ones_like(observation[name].flatten(-len(entry.shape))[..., 0])


DEFAULT_SPEC = ObservationSpec(observation_entries(), 2.795)
"""Specification of what the vessels of the built-in environment observe with the default settings."""


def to_observation(observation: TensorDictBase) -> Observation:
    """Convert the observation in a TensorDict of an environment, of any batch shape, to a dict of its entries."""
    if isinstance(observation, Tensor):
        raise ConfigError("robots/observation: must be entries by name, not one vector as with flat=True")
    return dict(observation.items())


def repeat_observation(observation: Observation, axis: int, count: int) -> Observation:
    """Return every observation ``count`` times along a new axis, without copies."""
    return {
        name: entry.unsqueeze(axis).expand(*entry.shape[:axis], count, *entry.shape[axis:])
        for name, entry in observation.items()
    }
