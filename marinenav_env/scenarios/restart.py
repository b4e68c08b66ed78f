"""New episodes in those environments of a batch whose episode is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from tensordict import TensorClass, TensorDict
from torch import Tensor

from marinenav_env.runtime.host_reads import host_reads_are_free
from marinenav_env.runtime.layout import stored
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.state import Outcome, Parameters, ResetState, State

Tensors = TypeVar("Tensors", bound=TensorClass)
Advance = Callable[..., tuple[State, dict[str, Tensor], Outcome]]
"""``World.advance``."""


def where(mask: Tensor, new: Tensors, old: Tensors) -> Tensors:
    """Take environments from ``new`` where the mask [E] is true and from ``old`` elsewhere."""

    def pick(a: Tensor, b: Tensor) -> Tensor:
        # The old ones come first: the first operand decides the layout of the result.
        return torch.where(kept.view(-1, *[1] * (b.ndim - 1)), b, a)

    kept = ~mask
    return new.apply(pick, old)


def restart(done: Tensor, pool: Tensors, index: Tensor, old: Tensors) -> Tensors:
    """Take environments from a pool where ``done`` [E] is true and from ``old`` elsewhere.

    Args:
        done: [E] bool.
        pool: what to take from.
        index: [E] int64, which entry of the pool each environment would take.
        old: batch [E]; is not changed.
    """
    if not host_reads_are_free(done.device):
        return where(done, pool[index], old)
    # Only the few that are done are gathered.
    rows = done.nonzero().squeeze(-1)  # host: see host_reads_are_free
    entries = index[rows]

    def pick(a: Tensor, b: Tensor) -> Tensor:
        return a.clone().index_copy_(0, rows, b.index_select(0, entries))

    return old.apply(pick, pool)


def steered(now: ResetState) -> Tensor:
    """The active robots [E, R] that actions steer; the others keep course and speed."""
    active, scripted = now.state.active, now.scenario.scripted
    return active if scripted is None else active & ~scripted


def chosen(index: Tensor | RandomSource, size: int) -> Tensor:
    """Entries [E] of a pool of a size, or those that follow from a source."""
    return index.below(size) if isinstance(index, RandomSource) else index


def restart_in_place(done: Tensor, pool: Tensors, index: Tensor, now: Tensors) -> None:
    """``restart`` where host reads are free, in the tensors of ``now`` themselves."""
    rows = done.nonzero().squeeze(-1)  # host: see host_reads_are_free
    entries = index[rows]
    for ours, theirs in zip(now.values(True, True), pool.values(True, True), strict=True):
        ours.index_copy_(0, rows, theirs.index_select(0, entries))


def turn(
    advance: Advance,
    now: ResetState,
    parameters: Parameters,
    action: Tensor,
    noise: Any,
    pool: ResetState,
    others: Parameters | None,
    index: Tensor | RandomSource,
) -> tuple[ResetState, Parameters | None, Tensor | None, TensorDict, Tensor, Outcome]:
    """``World.step_and_reset`` as one function of tensors, which is compiled.

    Where host reads are free, the new episodes are left to ``restart_in_place``: few environments
    start one, and their number is not known here.

    Args:
        advance: ``World.advance``.
        now: batch [E], before the step.
        parameters: batch [E or 1].
        action: see ``World.step``.
        noise: see ``World.step``.
        pool: batch [P], what new episodes start from.
        others: batch [P], their parameters; None where all environments share them.
        index: see ``World.reset``.

    Returns:
        What the next step starts from, its parameters if they may be others, both in tensors of
        their own; the entries of the pool [E] if new episodes are left to ``restart_in_place``; and
        the rest of Turn.
    """
    scenario, following, index = now.scenario, None, chosen(index, len(pool))
    state, entries, outcome = advance(
        now.state, scenario, parameters, action, noise, now.statistics
    )
    batch, done = state.batch_size, outcome.episode_done
    observation = TensorDict(entries, batch)
    now = ResetState(
        scenario=scenario, state=state, observation=observation, statistics=outcome.statistics,
        batch_size=batch,
    )  # fmt: skip
    acting = steered(now)
    if host_reads_are_free(done.device):
        # State is new, but for what is returned beside it.
        acting = acting.clone()
        now.scenario, now.observation = (
            each.apply(Tensor.clone) for each in (scenario, observation)
        )
        if now.statistics is not None:
            now.statistics = now.statistics.clone()
        following = None if others is None else parameters.apply(Tensor.clone)
        return now.apply(stored), following, index, observation, acting, outcome
    if others is not None:
        following = where(done, others[index], parameters)
    return where(done, pool[index], now), following, None, observation, acting, outcome
