"""Control steps of an evaluation, and sums over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env import MarineNavEnv
from marinenav_env.scenarios.reset import controlled_robots
from marinenav_env.state import Outcome, ResetState, Scenario, WorldState
from marinenav_env.stepping.actions import find_invalid_actions
from marinenav_env.support.validation import ConfigError
from train_RL_agents.results.rows import Episodes

Policy = Callable[[TensorDictBase], TensorDictBase]
"""Function that takes the observations of all robots as a TensorDict, and returns it with their actions."""
DISCOUNT = 0.99
"""Discount factor of the rewards in returns, per control step."""
CHECK_INTERVAL = 25
"""Vector steps between two reports of progress, and between two checks whether all episodes have ended, which
synchronise the GPU."""


class Transition(NamedTuple):
    """A control step of the B episodes of the batch.

    Episodes that have ended may leave the batch, and others begin in it: ``before.now.state.steps`` is the number of
    the step in each episode.
    """

    rows: Tensor
    """[B] int64 indices of the batch's episodes among all N."""
    acted: TensorDictBase
    """The policy's observations, with its actions."""
    before: WorldState
    after: WorldState
    outcome: Outcome

    def first_episodes(self, count: int) -> Transition:
        """Return the control step of the first ``count`` episodes of the batch."""
        if count == len(self.outcome):
            return self

        def cut(world: WorldState) -> WorldState:
            now, parameters = world
            shared = parameters.batch_size[0] == 1
            return WorldState(now[:count], parameters if shared else parameters[:count])

        rows, acted, before, after, outcome = self
        return Transition(rows[:count], acted[:count], cut(before), cut(after), outcome[:count])


StepCallback = Callable[[Transition, MarineNavEnv], bool | None]
"""Callback that receives every step, and the environments in which all N episodes started.

It may return False if it needs no further steps; RepeatedEvaluation then calls it no more."""

ProgressCallback = Callable[[int, int], None]
"""Callback that receives the number of finished episodes and the total."""


class StepShare:
    """Share of the control steps of active vessels in which an event happens; counting does not sync the device."""

    def __init__(self) -> None:
        self._counts: Tensor | None = None

    def add(self, happens: Tensor, active: Tensor) -> None:
        """Count the active vessels, and those to which the event happens, in a control step.

        Args:
            happens: [E, R] bool mask of the vessels to which the event happens.
            active: [E, R] bool mask of the active vessels.
        """
        counts = torch.stack(((happens & active).sum(), active.sum()))
        self._counts = counts if self._counts is None else self._counts + counts

    @property
    def value(self) -> float:
        """Return the share so far, 0 if there was no step."""
        happened, steps = (0, 0) if self._counts is None else self._counts.tolist()
        return float(happened) / max(steps, 1)


class Tally:
    """Sums over the steps of each episode, up to its first collision; arrivals after it are counted, too.

    Args:
        env: environments after a reset.
    """

    def __init__(self, env: MarineNavEnv) -> None:
        self._robots = env.state.pose[:1, :, 0]
        self.sums = self.initial_sums(env.num_envs)
        self.seconds = env.config.control_step
        self._pairs = None if env.continuous else env.num_discrete_actions

    def initial_sums(self, count: int) -> dict[str, Tensor]:
        """Return the sums of ``count`` episodes before their first step, by name.

        They are masks [count] ``counting`` (up to the first collision), ``collided`` and ``unusable`` (had an invalid
        action), a mask [count, R] ``arrived``, and ``time`` (s), ``energy`` (N s) and ``return``, [count, R] each.
        """
        robots = self._robots.new_zeros(count, self._robots.shape[1])
        flags = torch.zeros_like(robots[:, 0], dtype=torch.bool)
        names = ("time", "energy", "return")
        return {
            "counting": ~flags,
            "collided": flags,
            "unusable": flags.clone(),
            "arrived": torch.zeros_like(robots, dtype=torch.bool),
            **{name: robots.clone() for name in names},
        }

    def updated_sums(
        self,
        sums: dict[str, Tensor],
        before: ResetState,
        action: Tensor,
        outcome: Outcome,
    ) -> dict[str, Tensor]:
        """Return the sums of some episodes after a step.

        Args:
            sums: sums before the step by name, see ``initial_sums``, [B, ...] each.
            before: state before the step, batch [B].
            action: actions of all robots, [B, R, 2] or indices [B, R].
            outcome: outcome of the step, batch [B].
        """
        counting = sums["counting"]
        active = controlled_robots(before) & counting[:, None]
        collided = outcome.collided.any(-1)
        wrong = find_invalid_actions(action, controlled_robots(before), self._pairs)
        discount = (DISCOUNT ** before.state.steps.double())[:, None].to(outcome.reward)
        return {
            "counting": counting & ~collided & ~outcome.episode_done,
            "collided": sums["collided"] | (collided & counting),
            "unusable": sums["unusable"] | wrong.any(-1),
            "arrived": sums["arrived"] | outcome.arrived,
            "time": sums["time"] + self.seconds * active,
            "energy": sums["energy"] + outcome.energy * active,
            "return": sums["return"] + discount * outcome.reward * active,
        }

    def add(self, rows: Tensor, before: ResetState, action: Tensor, outcome: Outcome) -> None:
        """Add a step of some episodes.

        Args:
            rows: [B] int64 indices of the episodes.
            before: state before the step, batch [B].
            action: actions of all robots, [B, R, 2] or indices [B, R].
            outcome: outcome of the step, batch [B].
        """
        chosen: Tensor | slice = rows if len(rows) < len(self.sums["counting"]) else slice(None)
        sums = {name: total[chosen] for name, total in self.sums.items()}
        for name, value in self.updated_sums(sums, before, action, outcome).items():
            self.sums[name][chosen] = value

    def episodes(self, scenario: Scenario) -> Episodes:
        """Return the outcomes of the episodes, once all have ended; only robots that actions control count.

        Raises:
            ConfigError: when an action was not finite, or not a valid index.
        """
        present = scenario.robot_mask if scenario.scripted is None else scenario.robot_mask & ~scenario.scripted
        robots = present.sum(-1)
        sums = self.sums
        wrong, pairs = int(sums["unusable"].sum()), self._pairs
        if wrong:
            allowed = "finite" if pairs is None else f"indices from 0 to {pairs - 1}"
            raise ConfigError(f"actions in {wrong:,} of {len(robots):,} episodes: must be {allowed}")
        means = {name: (sums[name].sum(-1) / robots).double().cpu() for name in ("time", "energy", "return")}
        return Episodes(
            level=scenario.level.cpu(),
            success=(sums["arrived"] | ~present).all(-1).cpu(),
            collision=sums["collided"].cpu(),
            robots=robots.cpu(),
            robots_arrived=(sums["arrived"] & present).sum(-1).cpu(),
            time=means["time"],
            energy=means["energy"],
            returns=means["return"],
        )
