"""Policies behind the safety shield of ``boat/shield.py``, for all robots of all environments at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from marinenav_env import GROUP
from marinenav_env.config import WorldConfig
from marinenav_env.runtime.host_reads import rows_where
from marinenav_env.scenarios.parameters import build_extras, build_parameters
from marinenav_env.stepping.actions import command_pairs
from marinenav_env.support.validation import require
from train_RL_agents.boat.shield import (
    COEFFICIENTS,
    OBSERVED,
    TOLERANCE,
    Escapes,
    Scene,
    escapes,
    nearest_escape,
    shortfall,
)
from train_RL_agents.evaluation.tally import Policy
from train_RL_agents.networks.observation import OBSERVATION

ACTION, MASK = (GROUP, "action"), (GROUP, "mask")
ROTATION = "single_rotation"
"""Parameter that is no field of Vessel, but of Extras."""
LEAST_RATIO = 0.1
"""Lower bound of the share that measured radii are divided by."""


class ShieldCount:
    """Number of control steps of active vessels behind a shield, and of those in which it acts."""

    def __init__(self) -> None:
        self._sums: list[Tensor] = []

    def add(self, replaced: Tensor, active: Tensor) -> None:
        """Add a control step.

        Args:
            replaced: [E, R] bool, commands that the shield replaced.
            active: [E, R] bool.
        """
        counts = torch.stack(((replaced & active).sum(), active.sum()))
        if self._sums and self._sums[0].device == counts.device:
            self._sums[0] += counts
        else:
            self._sums.insert(0, counts)

    @property
    def share(self) -> float:
        """Return the share of the steps in which the shield acted, 0 if there was none."""
        replaced, steps = torch.stack([counts.cpu() for counts in self._sums]).sum(0).tolist() if self._sums else (0, 0)
        return float(replaced / max(steps, 1))


class Shield:
    """Policy whose commands are replaced where no escape would be left after them.

    Args:
        policy: policy for all robots.
        world: world that the policy acts in; the hulls have its radius.
        own: world of the scenarios, which has the parameters of every robot.
        continuous: whether the policy's actions are continuous.
        only_own: true to count the steps of robot 0 alone.
        count: count of the steps.
    """

    def __init__(
        self,
        policy: Policy,
        world: WorldConfig,
        own: WorldConfig,
        continuous: bool,
        only_own: bool,
        count: ShieldCount,
    ) -> None:
        steering = own.vessel.actuators.steering
        require(steering == "thrusters", "world.vessel.actuators.steering", steering, "thrusters for --shield")
        self._policy, self._continuous, self._only_own, self._count = policy, continuous, only_own, count
        # Suites in which the policy controls one vessel enlarge its hull by those of the others.
        width = own.vessel.actuators.spacing or own.vessel.width
        self._world = replace(own, vessel=replace(own.vessel, radius=world.vessel.radius, width=width))
        self._seconds = own.dt * own.substeps
        self._pairs = command_pairs(own.vessel)
        sides: list[list[float]] = [[-1.0, 0.0, 1.0]] * 2
        if not continuous:
            columns = self._pairs.unbind(-1)
            sides = [[float(c.min()), float(c[c.abs().argmin()]), float(c.max())] for c in columns]
        self._escapes = escapes(*sides)
        self._constants = cache(self._build)

    def __call__(self, step: Any) -> Any:
        """Write the actions of all robots."""
        acted = self._policy(step)
        action, active, observation = acted.get(ACTION), acted.get(MASK), acted.get(OBSERVATION)
        own, objects, seen = (observation.get(name) for name in OBSERVED)
        numbers, plans, pairs = self._constants(active.shape[1], own.device, own.dtype)
        values = {name: value.expand(active.shape)[..., None] for name, value in numbers.items()}
        radius = values["radius"]
        scene = Scene(own, objects, seen & active[..., None], objects[..., 4] / values["ratio"] + radius, radius)
        command = action.to(own) if self._continuous else pairs[action]
        new, replaced = safe_commands(
            command.flatten(0, 1),
            Scene(*(column.flatten(0, 1) for column in scene)),
            {name: values[name].flatten(0, 1) for name in COEFFICIENTS},
            self._seconds,
            plans,
        )
        replaced, new = replaced.view(active.shape), new.view(command.shape)
        counted = slice(0, 1) if self._only_own else slice(None)
        self._count.add(replaced[:, counted], active[:, counted])
        if self._continuous:
            return acted.set(ACTION, torch.where(replaced[..., None], new.to(action), action))
        index = (new[..., None, :] - pairs).square().sum(-1).argmin(-1)
        return acted.set(ACTION, torch.where(replaced, index.to(action), action))

    def _build(
        self, robots: int, device: torch.device, dtype: torch.dtype
    ) -> tuple[dict[str, Tensor], Escapes, Tensor]:
        """Return parameters by name, [1, R] or [1, 1], manoeuvres, and the commands of discrete actions [A, 2].

        Beside those of the vessels, ``ratio`` is the mean share of true radii in measured ones.
        """
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        parameters, _ = build_parameters([self._world], robots, device, dtype)
        numbers = {name: getattr(parameters.vessel, name) for name in ("radius", *COEFFICIENTS) if name != ROTATION}
        numbers[ROTATION] = getattr(build_extras([self._world], robots, **options), ROTATION)
        numbers["ratio"] = parameters.sensor.r_mean_ratio.clamp_min(LEAST_RATIO)
        first, second, switch, stops = (torch.tensor(column, **options) for column in self._escapes)
        return numbers, Escapes(first, second, switch, stops > 0.0), self._pairs.to(**options)


def safe_commands(
    command: Tensor, scene: Scene, vessel: dict[str, Tensor], seconds: float, plans: Escapes
) -> tuple[Tensor, Tensor]:
    """Return commands after which an escape is left.

    Args:
        command: [N, 2] commands of the policy in [-1, 1].
        scene: N vessels and what they observe.
        vessel: COEFFICIENTS by name, [N, 1].
        seconds: length of a control step (s).
        plans: M manoeuvres, the first of which keeps the thrust.

    Returns:
        [N, 2] commands, and [N] bool of those that were replaced.
    """

    def short(rows: Any, some: Escapes, begin: Tensor | None) -> Tensor:
        chosen = Scene(*(column[rows] for column in scene))
        parameters = {name: value[rows] for name, value in vessel.items()}
        return shortfall(torch, chosen, parameters, seconds, some, begin)

    def after(some: Escapes) -> Callable[[Any], Tensor]:
        return lambda rows: short(rows, some, command[rows]).amin(-1)

    def best(rows: Any) -> Tensor:
        shorts = short(rows, plans, None)
        number = nearest_escape(torch, command[rows], shorts, plans)
        return torch.where(left[rows] - shorts.amin(-1) > TOLERANCE, number, -1).to(left)

    # Most commands leave the first manoeuvre, so that all others are tried in few rows.
    like = scene.radius[:, 0]
    left = _where(scene.seen.any(-1), after(plans.part(0, 1)), like, 0.0)
    left = _where(left > TOLERANCE, after(plans), like, 0.0)
    number = _where(left > TOLERANCE, best, like, -1.0).long()
    replaced = number >= 0
    return torch.where(replaced[:, None], plans.first[number.clamp_min(0)], command), replaced


def _where(mask: Tensor, function: Callable[[Any], Tensor], like: Tensor, other: float) -> Tensor:
    """Return a function's values [N] where a mask is true, and a number elsewhere, of the type of ``like``.

    On a CPU the function is called for these rows alone.
    """
    rows = rows_where(mask)
    if rows is None:
        return torch.where(mask, function(slice(None)), other)
    values = torch.full_like(like, other)
    if len(rows):
        values[rows] = function(rows)
    return values
