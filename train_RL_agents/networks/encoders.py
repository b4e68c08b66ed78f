"""Encoders of observations, built from the specification of the entries.

A vessel's own state and the objects around it are encoded by the layers of the published networks. Any other entry is
encoded by the encoder for its kind, or by a user-defined one (``agent.entry_encoders``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from marinenav_env.sensing.duties import DUTIES
from marinenav_env.sensing.entries import Entry
from marinenav_env.sensing.shores import SHORE
from marinenav_env.support import plugins
from marinenav_env.support.validation import require
from train_RL_agents.networks.encoder_config import SELF_STATE, EncoderConfig
from train_RL_agents.networks.features import (
    NUM_OBJECT_FEATURES,
    NUM_SELF_FEATURES,
    encounter_geometry,
    goal_geometry,
    limit_goal_distance,
    num_features,
)
from train_RL_agents.networks.frames import PAST, make_frames
from train_RL_agents.networks.layers import make_hidden_layer, rectified_maximum
from train_RL_agents.networks.observation import Observation, ObservationSpec

OBJECTS_STATE = "objects_state"
"""Name of the entry of the observation with the states of the objects that a vessel detects."""
ENCOUNTER_GEOMETRY = "encounter_geometry"
"""Name of the result of ``encounter_geometry`` in an observation that several networks encode."""
_OBJECT_ENTRIES = (DUTIES, PAST + OBJECTS_STATE, PAST + DUTIES)
"""Names of entries with further columns of the objects in their slots."""
_SCALE_BUFFERS = ("self_scale", "object_scale")
"""Names of the buffers of an ObservationNetwork with the factors that observations are multiplied by."""


class EntryEncoder(nn.Module):
    """Base class of encoders of one entry of the observation, built-in or user-defined."""

    width: int
    """Number of features that the encoder returns."""

    def __init__(self, entry: Entry, config: EncoderConfig) -> None:
        super().__init__()
        self.entry = entry
        self.scale: Tensor
        # Stored as the reciprocal of the typical magnitude, so that inputs are multiplied and not divided.
        self.register_buffer("scale", 1.0 / torch.tensor(entry.scale or (1.0,)), persistent=False)

    def forward(self, observation: Observation) -> Tensor:
        """Return the features [B, width] of observations [B]."""
        raise NotImplementedError

    def scaled(self, observation: Observation) -> Tensor:
        """Return the entry [B, ...], divided by its typical magnitude."""
        return observation[self.entry.name] * self.scale


class VectorEncoder(EntryEncoder):
    """Encoder of vectors: a linear layer with ReLU."""

    def __init__(self, entry: Entry, config: EncoderConfig) -> None:
        super().__init__(entry, config)
        self.width = config.self_width
        self.layers = nn.Sequential(nn.Linear(math.prod(entry.shape), self.width), nn.ReLU())

    def forward(self, observation: Observation) -> Tensor:
        """Return the features [B, width] of an observation of which the entry is a vector."""
        features: Tensor = self.layers(_flatten_entry(self.scaled(observation), self.entry))
        return features


class ScanEncoder(EntryEncoder):
    """Encoder of range scans: two layers on the closeness 1 - d / scale of each beam, 0 where nothing is in range."""

    def __init__(self, entry: Entry, config: EncoderConfig) -> None:
        super().__init__(entry, config)
        self.width = config.scan_width
        sizes = (math.prod(entry.shape), 2 * self.width, self.width)
        layers = [nn.Linear(*pair) for pair in pairwise(sizes)]
        self.layers = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU())

    def forward(self, observation: Observation) -> Tensor:
        """Return the features [B, width] of an observation of which the entry is a range scan."""
        features: Tensor = self.layers(_flatten_entry(1.0 - self.scaled(observation), self.entry))
        return features


class SetEncoder(EntryEncoder):
    """Encoder of further sets of objects: a layer shared by the objects, and pooling by attention."""

    def __init__(self, entry: Entry, config: EncoderConfig) -> None:
        super().__init__(entry, config)
        self.layer = nn.Sequential(nn.Linear(entry.shape[-1], config.object_width), nn.ReLU())
        self.join = ObjectAttention(config.self_width, config.object_width)
        self.width = self.join.width

    def forward(self, observation: Observation) -> Tensor:
        """Return the features [B, width] of an observation of which the entry is a set of objects."""
        encoded: Tensor = self.layer(self.scaled(observation))
        mask = observation.get(self.entry.mask, torch.ones_like(encoded[..., 0], dtype=torch.bool))
        query = torch.zeros_like(encoded[..., 0, :1]).expand(*encoded.shape[:-2], self.join.query.in_features)
        joined: Tensor = self.join(query, encoded, mask)
        return joined


class ShoreEncoder(EntryEncoder):
    """Encoder of the segments of shore, which come with the nearest first: two layers on all of them and their mask."""

    def __init__(self, entry: Entry, config: EncoderConfig) -> None:
        super().__init__(entry, config)
        count, columns = entry.shape
        self.width = config.object_width
        layers = [nn.Linear(count * (columns + 1), config.scan_width), nn.Linear(config.scan_width, self.width)]
        self.layers = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU())

    def forward(self, observation: Observation) -> Tensor:
        """Return the features [B, width] of an observation of which the entry is the nearest segments of shore."""
        rows = self.scaled(observation)
        present = observation[self.entry.mask].to(rows.dtype)[..., None]
        features: Tensor = self.layers(torch.cat((rows * present, present), -1).flatten(-2))
        return features


ENCODER_CLASSES: dict[str, type[EntryEncoder]] = {"vector": VectorEncoder, "scan": ScanEncoder, "objects": SetEncoder}
"""Class of the encoder for each kind of entry, other than the vessel's own state and the built-in set of objects."""


def find_encoder(reference: str) -> type[EntryEncoder]:
    """Return the class of a user-defined encoder.

    Raises:
        ConfigError: when it cannot be loaded or is not an encoder.
    """
    plugin = plugins.resolve(plugins.ENCODERS, reference)
    is_encoder = isinstance(plugin, type) and issubclass(plugin, EntryEncoder)
    require(is_encoder, "agent.entry_encoders", reference, "a class derived from EntryEncoder")
    kind: type[EntryEncoder] = plugin
    return kind


def _flatten_entry(value: Tensor, entry: Entry) -> Tensor:
    """Return an entry [B, *shape] flattened to [B, N]."""
    return value.reshape(*value.shape[: value.ndim - len(entry.shape)], -1)


class ObjectAttention(nn.Module):
    """Pooling of any number of encoded objects by multi-head attention (Vaswani et al. 2017) and maximum."""

    def __init__(self, query_width: int, width: int, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.width = heads, (heads + 1) * width
        # Stored as a number, since shapes are tensors while a network is traced.
        self._norm = math.sqrt(width)
        self.query = nn.Linear(query_width, heads * width)
        self.key = nn.Linear(width, heads * width)
        self.value = nn.Linear(width, heads * width)

    def forward(self, self_features: Tensor, objects: Tensor, mask: Tensor) -> Tensor:
        """Return the pooled features [B, F] of encoded objects [B, K, W], with encoded own states [B, Q] as queries.

        ``mask`` [B, K] marks the slots with an object.
        """
        present = mask.to(objects.dtype)[..., None]
        query = self.query(self_features).unflatten(-1, (self.heads, -1))
        key = self.key(objects).unflatten(-1, (self.heads, -1))
        value = self.value(objects).unflatten(-1, (self.heads, -1))
        scores = (key * query[..., None, :, :]).sum(-1) / self._norm
        # Scores stay finite where no object is present; there, the product with the mask gives zero.
        weights = torch.softmax(scores - 1e4 * (1.0 - present), -2) * present
        attended = (weights[..., None] * value).sum(-3).flatten(-2)
        return torch.cat((attended, (objects * present).amax(-2)), -1)


class ObjectMaximum(nn.Module):
    """Pooling of any number of encoded objects by a shared layer and the maximum (Qi et al. 2017)."""

    def __init__(self, query_width: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.layer = nn.Linear(width, width)

    def forward(self, self_features: Tensor, objects: Tensor, mask: Tensor) -> Tensor:
        """Return the features [B, W] of encoded objects [B, K, W] with mask [B, K]; 0 without objects."""
        return rectified_maximum(self.layer(objects), mask)


POOLING_CLASSES: dict[str, type[ObjectAttention | ObjectMaximum]] = {"max": ObjectMaximum, "attention": ObjectAttention}
"""Class of the module that pools encoded objects, by value of ``agent.encoder``; concatenation needs none."""


def is_scale_buffer(name: str) -> bool:
    """Return whether a weight of this name is a buffer of scales of the observation, which depend on the boat."""
    return name.rpartition(".")[2] in _SCALE_BUFFERS


def add_geometry(config: EncoderConfig, spec: ObservationSpec, observation: Observation) -> Observation:
    """Return an observation with the geometry of the encounters, which networks then need not compute each."""
    entries = {SELF_STATE, OBJECTS_STATE} - {*config.excluded}
    if config.features != "geometric" or len(entries) < 2 or not entries <= observation.keys():
        return observation
    geometry = encounter_geometry(observation[SELF_STATE], observation[OBJECTS_STATE], spec.radius, spec.scales)
    return {**observation, ENCOUNTER_GEOMETRY: geometry}


class ObservationNetwork(nn.Module):
    """Base class of all networks: encoders of raw observations, followed by hidden layers.

    Layer names are those of the published weights.

    Args:
        config: settings of the encoders and hidden layers; published weights need raw observations.
        spec: specification of the observation.
    """

    def __init__(self, config: EncoderConfig, spec: ObservationSpec) -> None:
        super().__init__()
        for name in config.excluded:
            optional = [key for key, entry in spec.entries.items() if key != SELF_STATE and entry.has_features]
            require(name in optional, "agent.excluded", name, f"one of {', '.join(optional)}")
        self.frames = make_frames(config, spec)
        entries = (spec if self.frames is None else self.frames.spec).exclude(config.excluded).entries
        self_features, object_features = num_features(config.features)
        self.geometric, self._radius, self._scales = config.features == "geometric", spec.radius, spec.scales
        self._goal_reach = config.goal_reach
        self.self_encoder: nn.Sequential | None = None
        self.encoded_width = 0
        """Number of features of an encoded observation."""
        if SELF_STATE in entries:
            self.self_encoder = nn.Sequential(nn.Linear(self_features, config.self_width), nn.ReLU())
            self.encoded_width = config.self_width
        custom = {encoder.split("=", 1)[0] for encoder in config.entry_encoders}
        self._objects = {SELF_STATE, OBJECTS_STATE} <= entries.keys() and OBJECTS_STATE not in custom
        self._mask = entries[OBJECTS_STATE].mask if self._objects else ""
        # What else is known of an object, such as duties, is encoded together with its state.
        joined = {*_OBJECT_ENTRIES} - custom if self._objects else set[str]()
        self._joined = [name for name in entries if name in joined and entries[name].mask == self._mask]
        if self._objects:
            width = object_features + sum(entries[name].shape[-1] for name in self._joined)
            self.object_encoder = nn.Sequential(nn.Linear(width, config.object_width), nn.ReLU())
        self._register_scales(config, spec, entries)
        self.object_join: ObjectAttention | ObjectMaximum | None = None
        if self._objects and config.encoder != "concat":
            join = POOLING_CLASSES[config.encoder]
            self.object_join = join(config.self_width, config.object_width)
            self.encoded_width += self.object_join.width
        elif self._objects:
            self.encoded_width += entries[OBJECTS_STATE].shape[0] * config.object_width
        self._add_encoders(config, entries)
        self._hidden: list[str] = []

    def _register_scales(self, config: EncoderConfig, spec: ObservationSpec, entries: dict[str, Entry]) -> None:
        """Register the factors that raw observations are multiplied by; ones if observations are not scaled."""
        self.self_scale: Tensor
        self.object_scale: Tensor
        scaled = config.features != "raw"
        for name, entry, width in (
            ("self_scale", SELF_STATE, NUM_SELF_FEATURES),
            ("object_scale", OBJECTS_STATE, NUM_OBJECT_FEATURES),
        ):
            if entry in spec.entries:
                scale = torch.tensor(spec.entries[entry].scale) if scaled else torch.ones(width)
                self.register_buffer(name, 1.0 / scale)
        if self._joined:
            scales = [entries[name].scale if scaled else () for name in self._joined]
            widths = [entries[name].shape[-1] for name in self._joined]
            rows = [torch.tensor(scale or (1.0,)).expand(width) for scale, width in zip(scales, widths, strict=True)]
            self.joined_scale: Tensor
            self.register_buffer("joined_scale", 1.0 / torch.cat(rows), persistent=False)

    def _add_encoders(self, config: EncoderConfig, entries: dict[str, Entry]) -> None:
        """Add the encoders of entries other than own state and objects."""
        custom = dict(encoder.split("=", 1) for encoder in config.entry_encoders)
        for name in custom:
            require(name in entries, "agent.entry_encoders", name, f"one of {', '.join(entries)}")
        others = {
            name: entry
            for name, entry in entries.items()
            if entry.has_features
            and (name in custom or SELF_STATE not in entries or name not in (SELF_STATE, OBJECTS_STATE))
            and name not in self._joined
        }
        # Created only if there are such entries, so that weights of networks without them keep their names.
        self.encoders = nn.ModuleDict() if others else None
        for name, entry in others.items():
            kind = find_encoder(custom[name]) if name in custom else ENCODER_CLASSES[entry.kind]
            if kind is SetEncoder and name == SHORE and entry.mask and config.encoder != "attention":
                kind = ShoreEncoder
            encoder = kind(entry, config)
            assert self.encoders is not None
            self.encoders[name] = encoder
            self.encoded_width += encoder.width

    def add_hidden(self, inputs: int, sizes: tuple[int, ...], layer_norm: bool = False) -> int:
        """Add linear hidden layers, and return the width of the last one."""
        self.add_layers([make_hidden_layer(*size, layer_norm) for size in pairwise((inputs, *sizes))])
        return sizes[-1]

    def add_layers(self, layers: Sequence[nn.Module]) -> None:
        """Add hidden layers under the names ``hidden_layer``, ``hidden_layer_2``, ..."""
        for number, layer in enumerate(layers, start=1):
            name = "hidden_layer" if number == 1 else f"hidden_layer_{number}"
            self.add_module(name, layer)
            self._hidden.append(name)

    @property
    def hidden_layers(self) -> list[nn.Module]:
        """Return the hidden layers in order."""
        return [self.get_submodule(name) for name in self._hidden]

    def encode(self, observation: Observation) -> Tensor:
        """Return the features [B, encoded] of observations [B]."""
        if self.frames is not None:
            observation = self.frames.stack(observation)
        parts = []
        if self.self_encoder is not None:
            self_features = self.self_encoder(self._self_features(observation))
            parts = [self_features, *self._encode_objects(observation, self_features)]
        if self.encoders is not None:
            parts += [encoder(observation) for encoder in self.encoders.values()]
        return torch.cat(parts, -1)

    def _self_features(self, observation: Observation) -> Tensor:
        """Return the inputs [B, F] of the encoder of the own state."""
        state = observation[SELF_STATE]
        if self._goal_reach:
            state = limit_goal_distance(state, self._goal_reach)
        features = state * self.self_scale
        return torch.cat((features, goal_geometry(state, self._scales)), -1) if self.geometric else features

    def _object_features(self, observation: Observation) -> Tensor:
        """Return the inputs [B, K, F] of the encoder of the objects."""
        objects = observation[OBJECTS_STATE] * self.object_scale
        if not self.geometric:
            return objects
        own, others = observation[SELF_STATE], observation[OBJECTS_STATE]
        shared = observation.get(ENCOUNTER_GEOMETRY)
        geometry = encounter_geometry(own, others, self._radius, self._scales) if shared is None else shared
        return torch.cat((objects, geometry), -1)

    def _encode_objects(self, observation: Observation, self_features: Tensor) -> list[Tensor]:
        """Return the pooled features of the objects in a list, which is empty if objects are not used."""
        if not self._objects:
            return []
        objects, mask = self._object_features(observation), observation[self._mask]
        if self._joined:
            joined = torch.cat([observation[name] for name in self._joined], -1)
            objects = torch.cat((objects, joined * self.joined_scale), -1)
        objects = self.object_encoder(objects) * mask[..., None]
        if self.object_join is None:
            return [objects.flatten(-2)]
        return [self.object_join(self_features, objects, mask)]

    def trunk(self, features: Tensor, begin: int = 0, end: int | None = None) -> Tensor:
        """Return the output [..., H] of the hidden layers [begin:end] with ReLU for features [..., F]."""
        for layer in self.hidden_layers[begin:end]:
            features = torch.relu(layer(features))
        return features
