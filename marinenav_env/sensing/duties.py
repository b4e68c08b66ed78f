"""Observation entry ``duties``: what a vessel remembers of its encounters with the objects in its slots.

All numbers follow from the encounters in the state of the world (``rules.encounters``), so that an observation with
this entry depends on nothing but that state. They have no noise.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.physics.dynamics import wrap_to_pi
from marinenav_env.rules.encounters import CONFIRMED, HELD, EncounterState
from marinenav_env.rules.roles import ROLES
from marinenav_env.runtime.layout import env_last
from marinenav_env.sensing.entries import Entry
from marinenav_env.state import Scenario, State
from marinenav_env.support.validation import require
from marinenav_env.vessels import observation_scale

DUTIES = "duties"
DUTY_COLUMNS = (
    *(f"1 if the own role is {role}" for role in ROLES[1:]),
    "1 if the encounter is confirmed",
    "time since the confirmation, before it since the beginning, as a share of colregs.horizon",
    "own turn to starboard since the beginning, as a share of the turn that counts as 1",
    "own change of speed since the beginning, as a share of the speed then",
    "distance left until a manoeuvre is late, at first all of it, as a share of the gap that counts as 1",
    "1 after a substantial manoeuvre",
    "1 if a vessel that has to stand on may act",
)
"""Meaning of the columns, which are limited to [-1, 1] and 0 without an encounter."""


class DutyScales(NamedTuple):
    """Magnitudes that count as 1 in a row."""

    turn: float
    """Own turn (rad): three substantial turns."""
    gap: float
    """Distance (m): the scale of observed positions."""

    @classmethod
    def from_config(cls, config: WorldConfig) -> DutyScales:
        """Return the scales of the vessels of a world."""
        return cls(3.0 * config.colregs.substantial_turn, 20.0 * observation_scale(config.vessel).length)


def duties_entry(config: WorldConfig) -> Entry:
    """Return the description of the entry, of which the rows are those of ``objects_state``."""
    shape = config.sensor.slots, len(DUTY_COLUMNS)
    meaning = "encounter with the object of each slot: role, phase, time, own manoeuvre, deadline"
    return Entry(DUTIES, "objects", shape, meaning, (), ((-1.0, 1.0),), "objects_mask")


def duty_columns(state: State, scenario: Scenario, config: WorldConfig, scales: DutyScales) -> tuple[Tensor, ...]:
    """Return the columns of the entry of every object (first all robots, then all obstacles), each [M, R, E].

    Raises:
        ConfigError: for a state without encounters.
    """
    encounters = state.encounters
    require(encounters is not None, "world.sensor.duties", True, "false for states without encounters")
    assert encounters is not None
    # The tensors of pairs are [R, R, E], with the other vessel first.
    known = EncounterState(*env_last(encounters).transpose(1, 2))
    (x, y, heading), (vx, vy, _) = env_last(state.pose), env_last(state.velocity_ground)
    dx, dy = x[:, None] - x, y[:, None] - y
    turn = wrap_to_pi(heading - known.heading) / scales.turn
    share = torch.sqrt(vx * vx + vy * vy) / known.speed.clamp_min(1e-6)
    gap = torch.sqrt(dx * dx + dy * dy) - torch.where(known.phase == CONFIRMED, known.late_distance, 0.0)
    columns = (
        *(known.role == role for role in range(1, len(ROLES))),
        known.phase == CONFIRMED,
        known.age * (config.control_step / config.colregs.horizon),
        turn,
        share - 1.0,
        gap / scales.gap,
        known.has_manoeuvred,
        known.may_act != HELD,
    )
    still = heading.new_zeros(scenario.obstacle_mask.shape[1], *heading.shape)
    limited = (torch.where(known.is_open, column.to(heading.dtype).clamp(-1.0, 1.0), 0.0) for column in columns)
    return tuple(torch.cat((column, still)) for column in limited)
