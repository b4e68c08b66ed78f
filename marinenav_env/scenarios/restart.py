"""New episodes in those environments of a batch whose episode is over."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import torch
from tensordict import TensorClass
from torch import Tensor

from marinenav_env.runtime.host_reads import replaced_rows
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.state import ResetState, WorldState

Tensors = TypeVar("Tensors", bound=TensorClass)


class NewEpisodes(NamedTuple):
    """What environments go on with whose episode is over."""

    pool: WorldState
    """Batch [P]: what episodes start from."""
    entry: Tensor | RandomSource
    """[E] int64, the entry of the pool that each environment would start from; or what it follows
    from, see RandomSource.below."""
    allowed: Tensor | None = None
    """[E] bool, the environments that may start an episode; None: all."""

    def entries(self) -> Tensor:
        """Return the entry of the pool for each environment, [E] int64."""
        entry = self.entry
        return entry.below(len(self.pool.now)) if isinstance(entry, RandomSource) else entry


def where(mask: Tensor, new: Tensors, old: Tensors) -> Tensors:
    """Take environments from ``new`` where the mask [E] is true and from ``old`` elsewhere."""

    def pick(a: Tensor, b: Tensor) -> Tensor:
        # The old ones come first: the first operand decides the layout of the result.
        return torch.where(kept.view(-1, *[1] * (b.ndim - 1)), b, a)

    kept = ~mask
    return new.apply(pick, old)


def restarted(done: Tensor, episodes: NewEpisodes, world: WorldState) -> WorldState:
    """Start new episodes in some environments.

    Args:
        done: [E] bool, the environments whose episode is over.
        episodes: what they go on with.
        world: batch [E]; it is not changed.

    Returns:
        The world, in new tensors but for parameters that all environments share.
    """
    if episodes.allowed is not None:
        done = done & episodes.allowed
    pool = episodes.pool
    pairs: list[tuple[Any, Any]] = [(world.now, pool.now)]
    if pool.parameters.batch_size[0] > 1:
        pairs.append((world.parameters, pool.parameters))
    old, new = [], []
    for ours, theirs in pairs:
        for name in ours.keys(True, True):  # the order may be another
            old.append(ours.get(name))
            value = theirs.get(name, None)
            # Only a world in which none may start has something that the pool lacks.
            new.append(old[-1] if value is None else value)
    replaced = iter(replaced_rows(done, episodes.entries(), new, old))
    made = [ours.apply(lambda _: next(replaced)) for ours, _ in pairs]
    return WorldState(made[0], made[-1] if len(made) > 1 else world.parameters)


def controlled(now: ResetState) -> Tensor:
    """The active robots [E, R] that actions steer; the others keep course and speed."""
    active, scripted = now.state.active, now.scenario.scripted
    return active if scripted is None else active & ~scripted
