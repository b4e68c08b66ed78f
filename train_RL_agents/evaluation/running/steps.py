"""Control steps of episodes that a policy runs, and sums over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env import MarineNavEnv
from marinenav_env.physics.shores import has_shores
from marinenav_env.scenarios.reset import controlled_robots
from marinenav_env.state import Outcome, ResetState, Scenario, WorldState
from marinenav_env.stepping.actions import find_invalid_actions
from marinenav_env.support.validation import ConfigError
from train_RL_agents.utils.rows import Episodes
from train_RL_agents.utils.threads import follow_load

Policy = Callable[[TensorDictBase], TensorDictBase]
"""Function that takes the observations of all robots as a TensorDict, and returns it with their actions."""
DISCOUNT = 0.99
"""Discount factor of the rewards in returns, per control step."""
ProgressCallback = Callable[[int, int], None]
"""Callback that receives the number of finished episodes and the total."""
EpisodeSums = dict[str, Tensor]
"""Sums over the steps of B episodes by name: masks [B] ``counting`` (up to the first collision), ``collided`` and
``invalid`` (had an invalid action), a mask [B, R] ``arrived``, and ``time`` (s), ``energy`` (N s) and ``return``,
[B, R] each."""


class Transition(NamedTuple):
    """A control step of the B episodes of the batch, which episodes that have ended may leave."""

    rows: Tensor
    """[B] int64 indices of the batch's episodes among all N."""
    acted: TensorDictBase
    """The policy's observations, with its actions."""
    before: WorldState
    after: WorldState
    outcome: Outcome


StepCallback = Callable[[Transition, MarineNavEnv], None]
"""Callback that receives every step, and the environments in which all N episodes started."""
PROGRESS_INTERVAL = 25
"""Vector steps between two reports of progress and, where counting ended episodes synchronises a GPU, two counts."""


@torch.no_grad()
def run_until_ended(
    make_step: Callable[[], None],
    count_ended: Callable[[], int],
    total: int,
    numbers: Iterable[int],
    every: int = 1,
    progress: ProgressCallback | None = None,
) -> None:
    """Make vector steps, with ``numbers`` from 0 on, until these run out or all ``total`` episodes have ended.

    Ended episodes are counted once in ``every`` steps, since counting may synchronise a GPU.
    """
    for number in numbers:
        if number % every == 0:
            follow_load()
            ended = count_ended()
            if progress is not None and (ended == total or number % PROGRESS_INTERVAL == 0):
                progress(ended, total)
            if ended == total:
                break
        make_step()


class StepShare:
    """Share of the control steps of active vessels in which an event happens; counting does not sync the device."""

    def __init__(self) -> None:
        self._counts: Tensor | None = None

    def add(self, happens: Tensor, active: Tensor) -> None:
        """Count, in a control step, the active vessels and those to which the event happens, both [E, R] bool."""
        counts = torch.stack(((happens & active).sum(), active.sum()))
        self._counts = counts if self._counts is None else self._counts + counts

    @property
    def value(self) -> float:
        """Return the share so far, 0 if there was no step."""
        happened, steps = (0, 0) if self._counts is None else self._counts.tolist()
        return float(happened) / max(steps, 1)


def zero_sums(like: Tensor, episodes: int) -> EpisodeSums:
    """Return the sums of episodes before their first step; ``like`` is [., R], of the world's floating-point type."""
    robots = like.new_zeros(episodes, like.shape[1])
    counting = torch.ones_like(robots[:, 0], dtype=torch.bool)
    flags = {"counting": counting, "collided": ~counting, "grounded": ~counting, "invalid": ~counting}
    arrived = torch.zeros_like(robots, dtype=torch.bool)
    return {**flags, "arrived": arrived, **{name: robots.clone() for name in ("time", "energy", "return")}}


def add_step(
    sums: EpisodeSums, before: ResetState, action: Tensor, outcome: Outcome, seconds: float, num_actions: int | None
) -> EpisodeSums:
    """Return the sums of B episodes after a control step of some seconds; arrivals after a collision are counted, too.

    The actions are [B, R, 2], or indices [B, R] of ``num_actions`` discrete ones.
    """
    counting = sums["counting"]
    active = controlled_robots(before) & counting[:, None]
    ends = outcome.collided.any(-1)
    grounded = torch.zeros_like(outcome.collided) if outcome.grounded is None else outcome.grounded
    invalid = find_invalid_actions(action, controlled_robots(before), num_actions)
    discount = (DISCOUNT ** before.state.steps.double())[:, None].to(outcome.reward)
    return {
        "counting": counting & ~ends & ~outcome.episode_done,
        "collided": sums["collided"] | ((outcome.collided & ~grounded).any(-1) & counting),
        "grounded": sums["grounded"] | (grounded.any(-1) & counting),
        "invalid": sums["invalid"] | invalid.any(-1),
        "arrived": sums["arrived"] | outcome.arrived,
        "time": sums["time"] + seconds * active,
        "energy": sums["energy"] + outcome.energy * active,
        "return": sums["return"] + discount * outcome.reward * active,
    }


def episode_rows(sums: EpisodeSums, scenario: Scenario, num_actions: int | None, only_own: bool = False) -> Episodes:
    """Return the results of episodes that have ended; only robots that actions control count.

    With ``only_own`` robot 0 alone does. An action that was not finite, or no index of ``num_actions`` discrete ones,
    is refused.
    """
    invalid = int(sums["invalid"].sum())
    if invalid:
        allowed = "finite" if num_actions is None else f"indices from 0 to {num_actions - 1}"
        raise ConfigError(f"actions in {invalid:,} of {len(scenario):,} episodes: must be {allowed}")
    present = scenario.robot_mask if scenario.scripted is None else scenario.robot_mask & ~scenario.scripted
    counted = slice(0, 1) if only_own else slice(None)
    robots = present[:, counted].sum(-1)
    means = {name: (sums[name][:, counted].sum(-1) / robots).double().cpu() for name in ("time", "energy", "return")}
    return Episodes(
        level=scenario.level.cpu(),
        success=(sums["arrived"] | ~present).all(-1).cpu(),
        collision=sums["collided"].cpu(),
        robots=robots.cpu(),
        robots_arrived=(sums["arrived"] & present)[:, counted].sum(-1).cpu(),
        time=means["time"],
        energy=means["energy"],
        returns=means["return"],
        grounding=sums["grounded"].cpu() if has_shores(scenario) else None,
    )
