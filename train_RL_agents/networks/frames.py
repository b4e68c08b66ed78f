"""Memory of the latest observations of a robot (frames, Mnih et al. 2015), with objects followed by their numbers.

A memory is a plain row of numbers: the last k - 1 observations, the latest first. Networks get them as further entries.
Whatever they did not observe then, such as an object that was not in sight, is as it is in the next later observation.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from marinenav_env.sensing.entries import Entry
from train_RL_agents.networks.encoder_config import SELF_STATE, EncoderConfig
from train_RL_agents.networks.features import limit_goal_distance
from train_RL_agents.networks.memory import MEMORY
from train_RL_agents.networks.observation import Observation, ObservationSpec

PAST = "past_"
"""Beginning of the name of an entry with earlier observations of an entry."""


class FrameStack:
    """Stack of the last k observations of what a specification describes, as networks with these settings see them."""

    def __init__(self, config: EncoderConfig, spec: ObservationSpec) -> None:
        self._entries = spec.exclude(config.excluded).entries
        self.number, self._reach = config.memory.number, config.goal_reach
        """Number k of observations, with the present one."""
        self._sizes = [math.prod(entry.shape) for entry in self._entries.values()]
        self._identities = {entry.mask: name for name, entry in self._entries.items() if entry.kind == "identity"}
        self.width = sum(self._sizes) + 1
        """Number W of columns of one observation; the last one is 1, and 0 before the first observation."""
        self.size = (self.number - 1) * self.width
        """Number H of columns of a memory."""
        past = (self._past_entry(entry) for entry in self._entries.values() if entry.has_features)
        self.spec = replace(spec, entries=spec.entries | {entry.name: entry for entry in past})
        """Specification of the results of ``stack``."""

    def _past_entry(self, entry: Entry) -> Entry:
        """Return the description of the earlier observations of an entry, [K, F] or [N] in one row each."""
        scale = torch.tensor(entry.scale or (1.0,)).expand(entry.shape)
        if entry.kind == "objects":
            rows, width = entry.shape[0], (self.number - 1) * (entry.shape[-1] + 1)
            row = (*scale[0].tolist(), 1.0)
            return Entry(PAST + entry.name, entry.kind, (rows, width), scale=row * (self.number - 1), mask=entry.mask)
        numbers = tuple(scale.flatten().tolist()) * (self.number - 1)
        return Entry(PAST + entry.name, entry.kind, (len(numbers),), scale=numbers)

    def pack(self, observation: Observation) -> Tensor:
        """Return observations as rows [..., W]."""
        parts = []
        for name, entry in self._entries.items():
            value = observation[name]
            if name == SELF_STATE and self._reach:
                value = limit_goal_distance(value, self._reach)
            parts.append(value.flatten(-len(entry.shape)))
        floating = next(part.dtype for part in parts if part.is_floating_point())
        parts = [part.to(floating) for part in parts]
        return torch.cat((*parts, torch.ones_like(parts[0][..., :1])), -1)

    def unpack(self, row: Tensor) -> Observation:
        """Return the observations in rows [..., W], masks as bool."""
        parts = zip(self._entries.values(), row[..., :-1].split(self._sizes, -1), strict=True)
        values = {entry.name: part.unflatten(-1, entry.shape) for entry, part in parts}
        return {name: value > 0.5 if self._entries[name].kind == "mask" else value for name, value in values.items()}

    def push(self, observation: Observation) -> Tensor:
        """Return the memory [..., H] after observations that include the one before them."""
        return torch.cat((self.pack(observation), observation[MEMORY][..., : self.size - self.width]), -1)

    def stack(self, observation: Observation) -> Observation:
        """Return observations with the earlier ones, which are in their memory, as further entries."""
        features = [name for name, entry in self._entries.items() if entry.has_features]
        if PAST + features[0] in observation:
            return observation
        later = dict(observation)
        past: dict[str, list[Tensor]] = {name: [] for name in features}
        for row in observation[MEMORY].unflatten(-1, (self.number - 1, self.width)).unbind(-2):
            then = self.unpack(row)
            for name in features:
                entry = self._entries[name]
                value, seen = self._follow(entry, observation, then, row[..., -1:])
                later[name] = seen * value + (1.0 - seen) * later[name]
                is_set = entry.kind == "objects"
                past[name].append(
                    torch.cat((later[name], seen), -1) if is_set else later[name].flatten(-len(entry.shape))
                )
        return {**observation, **{PAST + name: torch.cat(values, -1) for name, values in past.items()}}

    def _follow(self, entry: Entry, now: Observation, then: Observation, present: Tensor) -> tuple[Tensor, Tensor]:
        """Return an earlier entry with the rows of the objects that are in the slots now, and 1 where it was observed.

        ``present`` [..., 1] is 1 where there is an earlier observation; without numbers of objects, slots are the same.
        """
        value = then[entry.name]
        for _ in entry.shape[1:]:
            present = present[..., None]
        if entry.mask in self._identities:
            name = self._identities[entry.mask]
            number = now[name][..., None]
            same = (number == then[name][..., None, :]).to(value.dtype) * (number > 0.0).to(value.dtype)
            return same @ value, same.sum(-1, keepdim=True)
        if entry.kind == "objects":
            rows = then[entry.mask][..., None].to(value.dtype) if entry.mask else torch.ones_like(value[..., :1])
            return value, rows * present
        return value, present


def make_frames(config: EncoderConfig, spec: ObservationSpec) -> FrameStack | None:
    """Return the stack of frames of a policy that remembers some, else None."""
    return FrameStack(config, spec) if config.memory.kind == "frames" else None
