"""Safety shield of ``boat/shield.py`` around a policy, for all robots of all environments at once."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.runtime.host_reads import true_indices
from marinenav_env.scenarios.episode import padded_worlds
from marinenav_env.scenarios.parameters import COMMAND_FIELDS, build_extras, build_parameters
from marinenav_env.sensing.shores import SHORE, SHORE_MASK
from marinenav_env.state import Scenario
from marinenav_env.support.validation import require
from train_RL_agents.boat.manoeuvres import EscapeManoeuvres, escape_manoeuvres
from train_RL_agents.boat.shield import (
    LIMIT_FACTORS,
    OBSERVED_ENTRIES,
    SIDE_COMMANDS,
    VESSEL_PARAMETERS,
    Scene,
    choose_manoeuvres,
)
from train_RL_agents.evaluation.running.others import ACTION_KEY, MASK_KEY
from train_RL_agents.evaluation.running.steps import Policy, StepShare
from train_RL_agents.evaluation.suites.sets import Part
from train_RL_agents.networks.observation import OBSERVATION_KEY

ACTUATOR_FIELDS = {"width": "spacing", "single_rotation": "single_rotation"} | {name: name for name in LIMIT_FACTORS}
"""Names of fields of ActuatorParameters by name of the parameter in the shield's prediction; the field ``spacing`` is
the width if the setting is 0."""
MIN_RADIUS_RATIO = 0.1
"""Lower bound of the ratio of measured to true radii, by which measured radii are divided."""


class Shield:
    """Policy wrapper that replaces commands after which no escape manoeuvre would be left, and counts these steps.

    The scenarios of a part have the parameters of every robot. Where the policy controls robot 0 alone, only steps of
    that robot count, and the hulls have the radius of the world. Vessels without two thrusters are refused.
    """

    def __init__(self, policy: Policy, world: WorldConfig, part: Part, continuous: bool, count: StepShare) -> None:
        self._policy, self._part, self._continuous, self._count = policy, part, continuous, count
        first, *_ = worlds = self._worlds(1)
        for steering in {world.vessel.actuators.steering for world in worlds}:
            kinds = {steering} if isinstance(steering, str) else {*steering}
            require(kinds == {"thrusters"}, "world.vessel.actuators.steering", steering, "thrusters for --shield")
        self._radius, self._seconds = world.vessel.radius, first.control_step
        self._constants = cache(self._build)

    def __call__(self, step: Any) -> Any:
        """Write the policy's actions, replaced where no escape manoeuvre would be left after them."""
        acted = self._policy(step)
        action, active, observation = acted.get(ACTION_KEY), acted.get(MASK_KEY), acted.get(OBSERVATION_KEY)
        own, objects, seen = (observation.get(name) for name in OBSERVED_ENTRIES)
        if not seen.shape[-1]:
            return acted
        numbers, plans, pairs = self._constants(active.shape[1], own.device, own.dtype)
        values = {name: value.expand(active.shape)[..., None] for name, value in numbers.items()}
        radius = values["radius"]
        scene = Scene(
            *(own.flatten(0, 1), objects.flatten(0, 1), (seen & active[..., None]).flatten(0, 1)),
            (objects[..., 4] / values["ratio"] + radius).flatten(0, 1),
            radius.flatten(0, 1),
        )
        if SHORE in observation:
            scene = scene.with_shores(torch, observation[SHORE].flatten(0, 1), observation[SHORE_MASK].flatten(0, 1))
        first, second = (column.expand(*active.shape, -1, 2).flatten(0, 1) for column in plans[:2])
        pairs = pairs.expand(*active.shape, -1, 2)
        chosen = action[..., None, None].long()
        command = action.to(own) if self._continuous else pairs.take_along_dim(chosen, 2).squeeze(2)
        number = choose_manoeuvres(
            torch,
            command.flatten(0, 1),
            scene,
            {name: values[name].flatten(0, 1) for name in (*VESSEL_PARAMETERS, *LIMIT_FACTORS)},
            self._seconds,
            plans._replace(first_commands=first, second_commands=second),
            true_indices,
        )
        replaced = (number >= 0.0).view(active.shape)
        new = first.take_along_dim(number.long().clamp_min(0)[:, None, None], 1).view(command.shape)
        counted = slice(0, 1) if self._part.only_own else slice(None)
        self._count.add(replaced[:, counted], active[:, counted])
        if self._continuous:
            return acted.set(ACTION_KEY, torch.where(replaced[..., None], new.to(action), action))
        index = (new[..., None, :] - pairs).square().sum(-1).argmin(-1)
        return acted.set(ACTION_KEY, torch.where(replaced, index.to(action), action))

    def _worlds(self, robots: int) -> list[WorldConfig]:
        """Return the world that all scenarios share, or the world of each scenario."""
        scenarios = self._part.scenarios
        return [self._part.world] if isinstance(scenarios, Scenario) else padded_worlds(scenarios, robots)

    def _build(
        self, robots: int, device: torch.device, dtype: torch.dtype
    ) -> tuple[dict[str, Tensor], EscapeManoeuvres, Tensor]:
        """Return parameters by name, escape manoeuvres, and the commands of discrete actions.

        Parameters are [E or 1, R or 1], and commands have these dimensions first, then [..., 2]. In addition to the
        parameters of the vessels, ``ratio`` is the mean ratio of measured to true radii.
        """
        worlds = self._worlds(robots)
        if self._part.only_own:
            # The worlds of the part enlarge the own hull by those of the others; ``world`` has the true radius.
            worlds = [replace(world, vessel=replace(world.vessel, radius=self._radius)) for world in worlds]
        parameters, _ = build_parameters(worlds, robots, device, dtype)
        vessel, extras = parameters.vessel, build_extras(worlds, robots, device=device, dtype=dtype)
        numbers = {
            name: getattr(vessel, name) for name in ("radius", *VESSEL_PARAMETERS) if name not in ACTUATOR_FIELDS
        }
        numbers |= {name: getattr(extras, field) for name, field in ACTUATOR_FIELDS.items()}
        numbers["ratio"] = parameters.sensor.r_mean_ratio.clamp_min(MIN_RADIUS_RATIO)
        most = vessel.max_thrust_rate[..., None]
        left, right = (getattr(vessel, name) / most for name in COMMAND_FIELDS)
        pairs = torch.stack(torch.broadcast_tensors(left[..., :, None], right[..., None, :]), -1).flatten(-3, -2)
        sides = (
            left.new_tensor(SIDE_COMMANDS)
            if self._continuous
            else torch.stack([_extreme_commands(left), _extreme_commands(right)], -2)
        )
        return numbers, escape_manoeuvres(torch, sides, device=device), pairs


def _extreme_commands(commands: Tensor) -> Tensor:
    """Return the lowest, the neutral and the highest command [..., 3] of commands [..., n]."""
    neutral = commands.take_along_dim(commands.abs().argmin(-1, True), -1)
    return torch.cat((commands.amin(-1, True), neutral, commands.amax(-1, True)), -1)
