"""Common layers and functions of networks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from marinenav_env.runtime.host_reads import host_reads_are_free


def to_float32(values: Tensor) -> Tensor:
    """Convert half-precision results of autocast to float32, for losses; return other tensors unchanged."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


def squash(value: Tensor) -> Tensor:
    """Map any number into (-1, 1) by (2 / pi) atan, as the published actors do."""
    return (2.0 / math.pi) * torch.atan(value)


def make_hidden_layer(inputs: int, outputs: int, layer_norm: bool) -> nn.Module:
    """Return a linear layer, with ``layer_norm`` followed by LayerNorm; the ReLU after it is not included."""
    linear = nn.Linear(inputs, outputs)
    return nn.Sequential(linear, nn.LayerNorm(outputs)) if layer_norm else linear


class _RectifiedMaximum(torch.autograd.Function):
    """Autograd function of ``rectified_maximum`` without boolean masks, which Inductor writes slowly on a CPU."""

    @staticmethod
    def forward(values: Tensor, mask: Tensor) -> Tensor:
        """Return the maximum [B, F] of the rectified values [B, K, F] where the mask [B, K, 1] is 1; 0 without any."""
        return (values.clamp_min(0.0) * mask).amax(-2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        """Save the tensors of the backward pass, in a separate method, as torch.func requires."""
        ctx.save_for_backward(inputs[0].clamp_min(0.0) * inputs[1], output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Return the gradient of the values; each of several equal maxima gets all of it."""
        kept, largest = ctx.saved_tensors
        chosen = 1.0 - torch.sign(largest[..., None, :] - kept)
        return gradient[..., None, :] * chosen * torch.sign(kept), None


def rectified_maximum(values: Tensor, mask: Tensor) -> Tensor:
    """Return the maximum [B, F] over objects in the mask [B, K] of features [B, K, F] after ReLU; 0 without any."""
    mask = mask[..., None].to(values.dtype)
    if values.requires_grad and torch.is_grad_enabled():
        largest: Tensor = _RectifiedMaximum.apply(values, mask)
        return largest
    return (torch.relu(values) * mask).amax(-2)


def features_product(layer: nn.Module, features: Tensor) -> Tensor:
    """Return the part of a layer on the concatenation of features [..., F] and actions that all actions share.

    On a GPU these are the features, since a single product launches fewer kernels (``add_action``).
    """
    if not host_reads_are_free(features.device):
        return features
    linear: Any = layer[0] if isinstance(layer, nn.Sequential) else layer
    return nn.functional.linear(features, linear.weight[:, : features.shape[-1]])


def add_action(layer: nn.Module, product: Tensor, action: Tensor) -> Tensor:
    """Return the output of a layer for the result of ``features_product`` [..., F or H] and actions [..., A]."""
    if not host_reads_are_free(product.device):
        output: Tensor = layer(torch.cat((product.expand(*action.shape[:-1], -1), action), -1))
        return output
    parts: list[Any] = [*layer] if isinstance(layer, nn.Sequential) else [layer]
    linear, *norm = parts
    joined = product + nn.functional.linear(action, linear.weight[:, -action.shape[-1] :], linear.bias)
    return norm[0](joined) if norm else joined


def init_orthogonal(module: nn.Module, gain: float) -> None:
    """Initialise all linear layers of a module with orthogonal weights, times ``gain``, and zero biases."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight, gain)
            nn.init.zeros_(layer.bias)


def dueling_values(features: Tensor, output_layer: nn.Module, value_layer: nn.Module | None) -> Tensor:
    """Return the action values [..., A] of dueling heads for features [..., H] (Wang et al. 2016).

    Without ``value_layer``, ``output_layer`` gives the values themselves.
    """
    values = to_float32(output_layer(features))
    if value_layer is None:
        return values
    advantages = values - values.mean(-1, keepdim=True)
    return advantages + to_float32(value_layer(features))


class CosineEmbedding(nn.Linear):
    """Embedding of quantile fractions (Dabney et al., Implicit Quantile Networks, 2018, eq. 4)."""

    def __init__(self, outputs: int, cosines: int = 64) -> None:
        super().__init__(cosines, outputs)
        self.multiples: Tensor
        # Whole numbers, so that frequencies stay exact when a network is converted to float64.
        self.register_buffer("multiples", torch.arange(0.0, cosines), persistent=False)

    def forward(self, taus: Tensor) -> Tensor:
        """Return the features [..., N, outputs] of fractions [..., N]."""
        angles = math.pi * taus[..., None] * self.multiples
        return torch.relu(super().forward(torch.cos(angles)))


def ensemble_outputs(
    networks: Sequence[nn.Module], *args: Any, own: Sequence[Tensor] = (), frozen: bool = False
) -> list[Tensor]:
    """Return the outputs of several networks of the same structure for the same arguments.

    On a GPU, they are computed together by batched products, which launches fewer and larger kernels. ``own`` are
    further first arguments, one of each network; with ``frozen``, gradients do not reach the parameters.
    """
    first, *others = networks
    if not others or host_reads_are_free(next(first.parameters()).device):
        firsts: list[tuple[Tensor, ...]] = [(argument,) for argument in own] or [()] * len(networks)
        call_one = call_with_frozen_parameters if frozen else torch.nn.Module.__call__
        return [call_one(network, *each, *args) for network, each in zip(networks, firsts, strict=True)]
    named = [dict(network.named_parameters()) for network in networks]
    stacked = {name: torch.stack([parameters[name] for parameters in named]) for name in named[0]}
    if frozen:
        stacked = {name: parameter.detach() for name, parameter in stacked.items()}

    def call(parameters: dict[str, Tensor], *each: Tensor) -> Tensor:
        result: Tensor = functional_call(first, parameters, (*each, *args))
        return result

    stacked_own = [torch.stack([*own])] if own else []
    return list(torch.vmap(call)(stacked, *stacked_own).unbind())


def call_with_frozen_parameters(module: nn.Module, *args: object) -> Tensor:
    """Call a module so that gradients reach its inputs but not its parameters."""
    parameters = {name: value.detach() for name, value in module.named_parameters()}
    result: Tensor = functional_call(module, parameters, args)
    return result
