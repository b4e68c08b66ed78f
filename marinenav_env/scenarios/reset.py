"""Reset of those environments of a batch in which the episode is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from tensordict import TensorClass
from torch import Tensor

from marinenav_env.runtime.host_reads import replace_rows
from marinenav_env.runtime.layout import environments_innermost
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.state import ResetState, WorldState

Tensors = TypeVar("Tensors", bound=TensorClass)


class NewEpisodes(NamedTuple):
    """States from which environments start their next episodes: a pool, and the entry of it for each environment."""

    pool: WorldState
    """Initial states of episodes, batch [P]."""
    entry: Tensor | RandomSource
    """[E] int64, index of the pool entry from which each environment starts if it is reset; or the random source from
    which these indices are drawn, all with equal probability."""
    allowed: Tensor | None = None
    """[E] bool, environments that may start an episode; None: all."""

    def entries(self) -> Tensor:
        """Return the index of the pool entry for every environment, [E] int64."""
        entry = self.entry
        return entry.randint(len(self.pool.now)) if isinstance(entry, RandomSource) else entry


def select_entries(pool: WorldState, index: Tensor) -> WorldState:
    """Return the state of environments that start from the entries ``index`` [E] of a pool, batch [P]."""
    now = pool.now[index].apply(environments_innermost)
    shared = pool.parameters.batch_size[0] == 1
    return WorldState(now, pool.parameters if shared else pool.parameters[index])


def select_environments(mask: Tensor, new: Tensors, old: Tensors) -> Tensors:
    """Return a batch with the environments of ``new`` where the mask [E] is true and those of ``old`` elsewhere."""
    kept = ~mask
    # The old tensor comes first, because the first operand determines the memory layout of the result.
    return new.apply(lambda a, b: torch.where(kept.view(-1, *[1] * (b.ndim - 1)), b, a), old)


def reset_environments(
    done: Tensor, episodes: NewEpisodes, world: WorldState, finished: Sequence[Tensor] = ()
) -> WorldState:
    """Return the state of a world, batch [E], with new episodes in the environments that are ``done`` [E].

    It is in new tensors, except for parameters that all environments share. ``finished`` are all other results of the
    compiled function that calls this one, see ``replace_rows``.
    """
    if episodes.allowed is not None:
        done = done & episodes.allowed
    pool = episodes.pool
    pairs: list[tuple[Any, Any]] = [(world.now, pool.now)]
    if pool.parameters.batch_size[0] > 1:
        pairs.append((world.parameters, pool.parameters))
    old, new = [], []
    for current, initial in pairs:
        for name in current.keys(True, True):  # the pool may have its keys in another order
            old.append(current.get(name))
            value = initial.get(name, None)
            # The pool lacks a tensor of the world only where no environment may start an episode.
            new.append(old[-1] if value is None else value)
    replaced = iter(replace_rows(done, episodes.entries(), new, old, finished))
    parts = [current.apply(lambda _: next(replaced)) for current, _ in pairs]
    return WorldState(parts[0], parts[-1] if len(parts) > 1 else world.parameters)


def controlled_robots(now: ResetState) -> Tensor:
    """Return the mask [E, R] of the robots that are active and controlled by actions, that is not scripted."""
    active, scripted = now.state.active, now.scenario.scripted
    return active if scripted is None else active & ~scripted
