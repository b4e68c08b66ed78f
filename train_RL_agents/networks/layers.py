"""Network parts that agents share; layer names are those of the published weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.func import functional_call

from train_RL_agents.networks.features import (
    OBJECT_FEATURES,
    OBJECT_SCALE,
    SELF_FEATURES,
    SELF_SCALE,
    Features,
    encounter_geometry,
    goal_geometry,
    widths,
)
from train_RL_agents.networks.observation import Inputs

OBJECTS = 5
ENCODED, HIDDEN = 256, 128


class ObservationNetwork(nn.Module):
    """Base of all networks: encodes raw observations into 256 features.

    Args:
        features: what the encoder is given (see ``features``); published weights want them raw.
    """

    hidden_layer: nn.Module
    hidden_layer_2: nn.Module

    def __init__(self, features: Features = "geometric") -> None:
        super().__init__()
        own, each = widths(features)
        self.self_encoder = nn.Sequential(nn.Linear(own, 56), nn.ReLU())
        self.object_encoder = nn.Sequential(nn.Linear(each, 40), nn.ReLU())
        self.geometric, scaled = features == "geometric", features != "raw"
        self_scale = torch.tensor(SELF_SCALE) if scaled else torch.ones(SELF_FEATURES)
        object_scale = torch.tensor(OBJECT_SCALE) if scaled else torch.ones(OBJECT_FEATURES)
        self.self_scale: Tensor
        self.object_scale: Tensor
        self.register_buffer("self_scale", 1.0 / self_scale)
        self.register_buffer("object_scale", 1.0 / object_scale)

    def encode(self, inputs: Inputs) -> Tensor:
        """Features [B, 256] of observations [B]."""
        own = inputs.self_state * self.self_scale
        objects = inputs.objects_state * self.object_scale
        if self.geometric:
            own = torch.cat((own, goal_geometry(inputs.self_state)), -1)
            geometry = encounter_geometry(inputs.self_state, inputs.objects_state)
            objects = torch.cat((objects, geometry), -1)
        objects = self.object_encoder(objects) * inputs.objects_mask[..., None]
        return torch.cat((self.self_encoder(own), objects.flatten(-2)), -1)

    def trunk(self, features: Tensor) -> Tensor:
        """Two hidden layers with ReLU, from features [..., F] to [..., 128]."""
        features = torch.relu(self.hidden_layer(features))
        return torch.relu(self.hidden_layer_2(features))


def to_float32(values: Tensor) -> Tensor:
    """What autocast computed in bfloat16 as float32, for losses; anything else as it is."""
    return values.float() if values.dtype == torch.bfloat16 else values


def squash(value: Tensor) -> Tensor:
    """Map any number into (-1, 1) as the published actors do, (2 / pi) atan."""
    return (2.0 / math.pi) * torch.atan(value)


def hidden(inputs: int, outputs: int, layer_norm: bool) -> nn.Module:
    """A linear layer, ready for a ReLU; with a LayerNorm in between if asked for."""
    linear = nn.Linear(inputs, outputs)
    return nn.Sequential(linear, nn.LayerNorm(outputs)) if layer_norm else linear


class Actor(ObservationNetwork):
    """From observations to actions in (-1, 1)."""

    def __init__(self, features: Features) -> None:
        super().__init__(features)
        self.hidden_layer = nn.Linear(ENCODED, HIDDEN)
        self.hidden_layer_2 = nn.Linear(HIDDEN, HIDDEN)
        self.output_layer = nn.Linear(HIDDEN, 2)

    def forward(self, inputs: Inputs) -> Tensor:
        """Actions [B, 2] for observations [B]."""
        return squash(self.pre_activation(inputs))

    def pre_activation(self, inputs: Inputs) -> Tensor:
        """Unbounded numbers [B, 2] that become actions."""
        return to_float32(self.output_layer(self.trunk(self.encode(inputs))))


def dueling_values(
    features: Tensor, output_layer: nn.Module, value_layer: nn.Module | None
) -> Tensor:
    """Values [..., A] as advantages and one common value (Wang et al. 2016), or plain ones."""
    values = to_float32(output_layer(features))
    if value_layer is None:
        return values
    advantages = values - values.mean(-1, keepdim=True)
    return advantages + to_float32(value_layer(features))


class CosineEmbedding(nn.Linear):
    """Embeds quantile fractions (Dabney et al., Implicit Quantile Networks, 2018, eq. 4)."""

    def __init__(self, outputs: int, cosines: int = 64) -> None:
        super().__init__(cosines, outputs)
        self.multiples: Tensor
        # Whole numbers, so that a network turned to double computes with exact frequencies.
        self.register_buffer("multiples", torch.arange(0.0, cosines), persistent=False)

    def forward(self, taus: Tensor) -> Tensor:
        """From fractions [..., N] to features [..., N, outputs]."""
        angles = math.pi * taus[..., None] * self.multiples
        return torch.relu(super().forward(torch.cos(angles)))


def call_without_grad(module: nn.Module, *args: object) -> Tensor:
    """Call a module so that gradients reach its inputs but not its parameters."""
    parameters = {name: value.detach() for name, value in module.named_parameters()}
    result: Tensor = functional_call(module, parameters, args)
    return result
