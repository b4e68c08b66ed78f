"""Encoders of observations, built from the specification of the entries.

The vessel's own state and the objects have the layers of the published networks. Any further entry
is encoded by the encoder of its kind, or by a user's own (``agent.entry_encoders``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from marinenav_env.sensing.entries import Entry
from marinenav_env.support import plugins
from marinenav_env.support.validation import (
    NOT_EMPTY,
    NonNegative,
    at_least,
    at_most,
    check_fields,
    require,
)
from train_RL_agents.networks.features import (
    OBJECT_FEATURES,
    SELF_FEATURES,
    Features,
    encounter_geometry,
    goal_geometry,
    goal_within,
    widths,
)
from train_RL_agents.networks.layers import hidden, rectified_maximum
from train_RL_agents.networks.normalization import RunningNorm
from train_RL_agents.networks.observation import Observation, ObservationSpec

SELF, OBJECTS = "self_state", "objects_state"
Size = Annotated[int, at_least(1), at_most(4096)]
Sizes = Annotated[tuple[int, ...], NOT_EMPTY, at_least(1), at_most(4096)]
"""Units of a layer."""


@dataclass(frozen=True)
class EncoderConfig:
    """Settings of the networks' encoders and hidden layers."""

    features: Features = "geometric"
    """What encoders are given: raw observations, scaled ones, or scaled ones and the geometry of
    the encounters."""
    encoder: Literal["concat", "max", "attention"] = "concat"
    """How the encoded objects are joined: concatenated slot by slot, as published, by their
    maximum, or by attention; the latter two take any number of objects in any order."""
    goal_reach: NonNegative = 0.0
    """A goal farther away than this is taken to be this far, in its direction (m); 0: as it is."""
    self_width: Size = 56
    """Units of the encoder of the vessel's own state, and of further vectors."""
    object_width: Size = 40
    """Units of the encoder of each object."""
    scan_width: Size = 64
    """Units of the encoder of a range scan."""
    hidden_sizes: Sizes = (128, 128)
    """Units of each hidden layer."""
    excluded: tuple[str, ...] = ()
    """Entries of the observation that the networks are not given, such as objects_state."""
    entry_encoders: tuple[str, ...] = ()
    """Own encoders of entries, each as ``entry=package.module:Class``; that of self_state
    is used beside the built-in one."""

    def __post_init__(self) -> None:
        check_fields(self, "agent")
        require(SELF not in self.excluded, "agent.excluded", self.excluded, f"without {SELF}")
        for each in self.entry_encoders:
            require("=" in each, "agent.entry_encoders", each, "entry=package.module:Class")


class EntryEncoder(nn.Module):
    """Encodes one entry; the base class of users' own encoders.

    Args:
        entry: what is encoded.
        config: sizes.
    """

    width: int
    """Number of features."""

    def __init__(self, entry: Entry, config: EncoderConfig) -> None:
        super().__init__()
        self.entry = entry
        self.scale: Tensor
        # One over the typical magnitude, to multiply with.
        self.register_buffer("scale", 1.0 / torch.tensor(entry.scale or (1.0,)), persistent=False)

    def forward(self, observation: Observation) -> Tensor:
        """Features [B, width] of observations [B]."""
        raise NotImplementedError

    def scaled(self, observation: Observation) -> Tensor:
        """The entry [B, ...], divided by its typical magnitude."""
        return observation[self.entry.name] * self.scale


class VectorEncoder(EntryEncoder):
    """A linear layer with ReLU."""

    def __init__(self, entry: Entry, config: EncoderConfig) -> None:
        super().__init__(entry, config)
        self.width = config.self_width
        self.layers = nn.Sequential(nn.Linear(math.prod(entry.shape), self.width), nn.ReLU())

    def forward(self, observation: Observation) -> Tensor:
        """See EntryEncoder."""
        features: Tensor = self.layers(_flat(self.scaled(observation), self.entry))
        return features


class ScanEncoder(EntryEncoder):
    """Two layers on the closeness 1 - d / scale of each beam; 0 where nothing is in range."""

    def __init__(self, entry: Entry, config: EncoderConfig) -> None:
        super().__init__(entry, config)
        self.width = config.scan_width
        sizes = (math.prod(entry.shape), 2 * self.width, self.width)
        layers = [nn.Linear(*pair) for pair in pairwise(sizes)]
        self.layers = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU())

    def forward(self, observation: Observation) -> Tensor:
        """See EntryEncoder."""
        features: Tensor = self.layers(_flat(1.0 - self.scaled(observation), self.entry))
        return features


class SetEncoder(EntryEncoder):
    """Objects of a further sensor: a shared layer, joined by attention."""

    def __init__(self, entry: Entry, config: EncoderConfig) -> None:
        super().__init__(entry, config)
        self.layer = nn.Sequential(nn.Linear(entry.shape[-1], config.object_width), nn.ReLU())
        self.join = ObjectAttention(config.self_width, config.object_width)
        self.width = self.join.width

    def forward(self, observation: Observation) -> Tensor:
        """See EntryEncoder."""
        value = self.scaled(observation)
        mask = observation.get(self.entry.mask, torch.ones_like(value[..., 0], dtype=torch.bool))
        encoded = self.layer(value)
        query = encoded.new_zeros(*encoded.shape[:-2], self.join.query.in_features)
        joined: Tensor = self.join(query, encoded, mask)
        return joined


ENCODERS: dict[str, type[EntryEncoder]] = {"vector": VectorEncoder, "scan": ScanEncoder, "objects": SetEncoder}
"""The encoder of each kind of entry beside the vessel's own state and the objects."""


def own_encoder(reference: str) -> type[EntryEncoder]:
    """The class of a user's own encoder.

    Raises:
        ConfigError: when it cannot be loaded or is no encoder.
    """
    found = plugins.resolve(plugins.ENCODERS, reference)
    fine = isinstance(found, type) and issubclass(found, EntryEncoder)
    require(fine, "agent.entry_encoders", reference, "a class derived from EntryEncoder")
    kind: type[EntryEncoder] = found
    return kind


def _flat(value: Tensor, entry: Entry) -> Tensor:
    """An entry [B, *shape] as [B, N]."""
    return value.reshape(*value.shape[: value.ndim - len(entry.shape)], -1)


class ObjectAttention(nn.Module):
    """Joins any number of encoded objects: multi-head attention (Vaswani et al. 2017) and maximum.

    Args:
        own: width of the query, the encoded own state.
        each: width of an encoded object.
        heads: of the attention, each as wide as an object.
    """

    def __init__(self, own: int, each: int, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.width = heads, (heads + 1) * each
        # A number of its own: the shape of a tensor is one, too, while a network is traced.
        self._norm = math.sqrt(each)
        self.query = nn.Linear(own, heads * each)
        self.key = nn.Linear(each, heads * each)
        self.value = nn.Linear(each, heads * each)

    def forward(self, own: Tensor, objects: Tensor, mask: Tensor) -> Tensor:
        """Features [B, width] of own states [B, own] and objects [B, K, each], mask [B, K]."""
        there = mask.to(objects.dtype)[..., None]
        query = self.query(own).unflatten(-1, (self.heads, -1))
        key = self.key(objects).unflatten(-1, (self.heads, -1))
        value = self.value(objects).unflatten(-1, (self.heads, -1))
        scores = (key * query[..., None, :, :]).sum(-1) / self._norm
        # Finite where there is no object at all; the product with the mask then gives zero.
        weights = torch.softmax(scores - 1e4 * (1.0 - there), -2) * there
        attended = (weights[..., None] * value).sum(-3).flatten(-2)
        return torch.cat((attended, (objects * there).amax(-2)), -1)


class ObjectMaximum(nn.Module):
    """Joins any number of encoded objects: a shared layer and the maximum (Qi et al. 2017).

    Args:
        own: not used.
        each: width of an encoded object.
    """

    def __init__(self, own: int, each: int) -> None:
        super().__init__()
        self.width = each
        self.layer = nn.Linear(each, each)

    def forward(self, own: Tensor, objects: Tensor, mask: Tensor) -> Tensor:
        """Features [B, width] of objects [B, K, each], mask [B, K]; 0 without any."""
        return rectified_maximum(self.layer(objects), mask)


JOINS: dict[str, type[ObjectAttention | ObjectMaximum]] = {"max": ObjectMaximum, "attention": ObjectAttention}
"""How encoded objects are joined, by the name of the setting; concatenation needs no module."""


class ObservationNetwork(nn.Module):
    """Base of all networks: encodes raw observations, then hidden layers.

    Layer names are those of the published weights.

    Args:
        config: sizes, and what encoders are given; published weights want raw observations.
        spec: what is observed.
        normalize: shift and scale the features of own state and objects by running statistics.
    """

    def __init__(self, config: EncoderConfig, spec: ObservationSpec, normalize: bool = False) -> None:
        super().__init__()
        for name in config.excluded:
            known = [key for key, each in spec.entries.items() if key != SELF and each.kind != "mask"]
            require(name in known, "agent.excluded", name, f"one of {', '.join(known)}")
        entries = spec.without(config.excluded).entries
        own, each = widths(config.features)
        self.geometric, self._radius = config.features == "geometric", spec.radius
        self._goal_reach = config.goal_reach
        self.self_encoder = nn.Sequential(nn.Linear(own, config.self_width), nn.ReLU())
        self.encoded = config.self_width
        """Width of the encoded observation."""
        replaced = any(each.startswith(f"{OBJECTS}=") for each in config.entry_encoders)
        self._objects = OBJECTS in entries and not replaced
        self._mask = entries[OBJECTS].mask if self._objects else ""
        if self._objects:
            self.object_encoder = nn.Sequential(nn.Linear(each, config.object_width), nn.ReLU())
        self._register_scales(config, spec)
        self.object_join: ObjectAttention | ObjectMaximum | None = None
        if self._objects and config.encoder != "concat":
            join = JOINS[config.encoder]
            self.object_join = join(config.self_width, config.object_width)
            self.encoded += self.object_join.width
        elif self._objects:
            self.encoded += entries[OBJECTS].shape[0] * config.object_width
        self.own_norm = RunningNorm(own) if normalize else None
        self.object_norm = RunningNorm(each) if normalize and self._objects else None
        self._add_encoders(config, entries)
        self._hidden: list[str] = []

    def _register_scales(self, config: EncoderConfig, spec: ObservationSpec) -> None:
        """Factors on raw observations; ones if they are taken raw."""
        self.self_scale: Tensor
        self.object_scale: Tensor
        scaled = config.features != "raw"
        for name, entry, width in (
            ("self_scale", SELF, SELF_FEATURES),
            ("object_scale", OBJECTS, OBJECT_FEATURES),
        ):
            if entry in spec.entries:
                scale = torch.tensor(spec.entries[entry].scale) if scaled else torch.ones(width)
                self.register_buffer(name, 1.0 / scale)

    def _add_encoders(self, config: EncoderConfig, entries: dict[str, Entry]) -> None:
        """Encoders of the entries beside own state and objects."""
        own = dict(each.split("=", 1) for each in config.entry_encoders)
        for name in own:
            require(name in entries, "agent.entry_encoders", name, f"one of {', '.join(entries)}")
        further = {
            name: entry
            for name, entry in entries.items()
            if entry.kind != "mask" and (name in own or name not in (SELF, OBJECTS))
        }
        # Only where there are some: the weights of networks without keep their names.
        self.encoders = nn.ModuleDict() if further else None
        for name, entry in further.items():
            kind = own_encoder(own[name]) if name in own else ENCODERS[entry.kind]
            encoder = kind(entry, config)
            assert self.encoders is not None
            self.encoders[name] = encoder
            self.encoded += encoder.width

    def add_hidden(self, inputs: int, sizes: tuple[int, ...], layer_norm: bool = False) -> int:
        """Add linear hidden layers; returns the width of the last one."""
        self.add_layers([hidden(*size, layer_norm) for size in pairwise((inputs, *sizes))])
        return sizes[-1]

    def add_layers(self, layers: Sequence[nn.Module]) -> None:
        """Add hidden layers as ``hidden_layer``, ``hidden_layer_2``, ..."""
        for number, layer in enumerate(layers, start=1):
            name = "hidden_layer" if number == 1 else f"hidden_layer_{number}"
            self.add_module(name, layer)
            self._hidden.append(name)

    @property
    def hidden_layers(self) -> list[nn.Module]:
        """The hidden layers, the first one first."""
        return [self.get_submodule(name) for name in self._hidden]

    def encode(self, observation: Observation) -> Tensor:
        """Features [B, encoded] of observations [B]."""
        own = self._own_features(observation)
        own = self.self_encoder(own if self.own_norm is None else self.own_norm(own))
        parts = [own, *self._encode_objects(observation, own)]
        if self.encoders is not None:
            parts += [encoder(observation) for encoder in self.encoders.values()]
        return torch.cat(parts, -1)

    def _own_features(self, observation: Observation) -> Tensor:
        """Inputs of the encoder of the own state, before normalisation."""
        state = observation[SELF]
        if self._goal_reach:
            state = goal_within(state, self._goal_reach)
        own = state * self.self_scale
        return torch.cat((own, goal_geometry(state)), -1) if self.geometric else own

    def _object_features(self, observation: Observation) -> Tensor:
        """Inputs of the encoder of the objects, before normalisation."""
        objects = observation[OBJECTS] * self.object_scale
        if not self.geometric:
            return objects
        geometry = encounter_geometry(observation[SELF], observation[OBJECTS], self._radius)
        return torch.cat((objects, geometry), -1)

    def update_statistics(self, observation: Observation, active: Tensor) -> None:
        """Take observations [B] of active robots into the running statistics, if there are any."""
        if self.own_norm is not None:
            self.own_norm.update(self._own_features(observation), active)
        if self.object_norm is not None:
            there = observation[self._mask] & active[..., None]
            self.object_norm.update(self._object_features(observation), there)

    def _encode_objects(self, observation: Observation, own: Tensor) -> list[Tensor]:
        """Features of the objects, unless they are excluded."""
        if not self._objects:
            return []
        objects, mask = self._object_features(observation), observation[self._mask]
        objects = objects if self.object_norm is None else self.object_norm(objects)
        objects = self.object_encoder(objects) * mask[..., None]
        if self.object_join is None:
            return [objects.flatten(-2)]
        return [self.object_join(own, objects, mask)]

    def trunk(self, features: Tensor, begin: int = 0, end: int | None = None) -> Tensor:
        """Hidden layers with ReLU, all or some of them, from [..., F] to the last one's width."""
        for layer in self.hidden_layers[begin:end]:
            features = torch.relu(layer(features))
        return features
