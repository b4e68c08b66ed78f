"""Layers and functions that networks share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from marinenav_env.runtime.host_reads import launches_dominate


def to_float32(values: Tensor) -> Tensor:
    """What autocast computed in half precision as float32, for losses; anything else as it is."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


def squash(value: Tensor) -> Tensor:
    """Map any number into (-1, 1) as the published actors do, (2 / pi) atan."""
    return (2.0 / math.pi) * torch.atan(value)


def hidden(inputs: int, outputs: int, layer_norm: bool) -> nn.Module:
    """A linear layer, ready for a ReLU; with a LayerNorm in between if asked for."""
    linear = nn.Linear(inputs, outputs)
    return nn.Sequential(linear, nn.LayerNorm(outputs)) if layer_norm else linear


class _RectifiedMaximum(torch.autograd.Function):
    """See rectified_maximum; the backward pass needs no boolean masks.

    Inductor writes the masks of ReLU and of the maximum one by one on a CPU, which takes several
    times as long as all the rest of the pass.
    """

    @staticmethod
    def forward(values: Tensor, mask: Tensor) -> Tensor:
        """Forward pass."""
        return (values.clamp_min(0.0) * mask).amax(-2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        """Save what the backward pass needs; apart from it, as torch.func wants."""
        ctx.save_for_backward(inputs[0].clamp_min(0.0) * inputs[1], output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Gradient of the values; of several equal ones each gets all of it."""
        kept, largest = ctx.saved_tensors
        chosen = 1.0 - torch.sign(largest[..., None, :] - kept)
        return gradient[..., None, :] * chosen * torch.sign(kept), None


def rectified_maximum(values: Tensor, mask: Tensor) -> Tensor:
    """Maximum over objects of ReLU, [B, F].

    Args:
        values: [B, K, F].
        mask: [B, K], which objects count; without any the result is 0.
    """
    mask = mask[..., None].to(values.dtype)
    if values.requires_grad and torch.is_grad_enabled():
        largest: Tensor = _RectifiedMaximum.apply(values, mask)
        return largest
    return (torch.relu(values) * mask).amax(-2)


def side_by_side(layer: nn.Module, features: Tensor, action: Tensor, rows: int | None = None) -> Tensor:
    """A layer of ``hidden`` of features and an action, as of both concatenated.

    On a CPU the products are apart: that of the same features is computed once for several actions,
    and a gradient towards the action alone costs none towards the features. A GPU starts fewer
    kernels for one product.

    Args:
        layer: from F + A numbers.
        features: [..., F].
        action: [..., A]; the features are broadcast to its leading shape.
        rows: how many of the features count, from the first on; None: all.
    """
    if launches_dominate(features.device):
        features = features[:rows].expand(*action.shape[:-1], -1)
        together: Tensor = layer(torch.cat((features, action), -1))
        return together
    parts: list[Any] = [*layer] if isinstance(layer, nn.Sequential) else [layer]
    linear, *norm = parts
    of_features, of_action = linear.weight.split((features.shape[-1], action.shape[-1]), -1)
    # Before rows are taken: the product with all of them is there anyway.
    joined = nn.functional.linear(features, of_features)[:rows]
    joined = joined + nn.functional.linear(action, of_action, linear.bias)
    return norm[0](joined) if norm else joined


def orthogonal(module: nn.Module, gain: float) -> None:
    """Draw the weights of all linear layers in a module orthogonal, with biases 0."""
    for each in module.modules():
        if isinstance(each, nn.Linear):
            nn.init.orthogonal_(each.weight, gain)
            nn.init.zeros_(each.bias)


def dueling_values(features: Tensor, output_layer: nn.Module, value_layer: nn.Module | None) -> Tensor:
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


def each_of(networks: Sequence[nn.Module], *args: Any, frozen: bool = False) -> list[Tensor]:
    """Outputs of networks of one structure for the same arguments.

    On a GPU they are computed together by batched products: fewer and larger kernels.

    Args:
        networks: differ in their parameters only.
        args: of each.
        frozen: whether gradients reach the arguments but not the parameters.
    """
    first, *others = networks
    if not others or not launches_dominate(next(first.parameters()).device):
        return [call_without_grad(each, *args) if frozen else each(*args) for each in networks]
    named = [dict(each.named_parameters()) for each in networks]
    stacked = {name: torch.stack([each[name] for each in named]) for name in named[0]}
    if frozen:
        stacked = {name: each.detach() for name, each in stacked.items()}

    def call(parameters: dict[str, Tensor]) -> Tensor:
        result: Tensor = functional_call(first, parameters, args)
        return result

    return list(torch.vmap(call)(stacked).unbind())


def call_without_grad(module: nn.Module, *args: object) -> Tensor:
    """Call a module so that gradients reach its inputs but not its parameters."""
    parameters = {name: value.detach() for name, value in module.named_parameters()}
    result: Tensor = functional_call(module, parameters, args)
    return result
