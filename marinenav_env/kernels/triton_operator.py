"""Custom operator that launches the Triton kernel of the world's step, and can be part of compiled code.

The computation is in kernels.triton_kernel. This module converts tensors to pointers to memory in which
environments are innermost, see marinenav_env.runtime.layout.
"""

from __future__ import annotations

from collections import namedtuple
from functools import partial
from typing import Any

import torch
import triton
from torch import Tensor

from marinenav_env.config import MAX_DELAY
from marinenav_env.kernels.triton_kernel import step_kernel
from marinenav_env.runtime.layout import env_first, env_last
from marinenav_env.state import Observation
from marinenav_env.support.validation import require

MIN_LANES = 32
"""Smallest number of lanes (GPU threads) of a program; more, as a power of two, for more robots per environment."""
_MAX_REGISTERS = 112
"""Largest number of registers per lane; with fewer, ptxas of CUDA 12.8 spills two registers to memory."""

STATE_FIELDS = ("pose", "velocity_water", "velocity_ground", "thrust", "active", "collided", "arrived", "steps")
"""Fields of State that the kernel reads, and writes with the prefix ``new_``."""
SCENARIO_FIELDS = (
    "goal",
    "thruster_angle",
    "robot_mask",
    "obstacle_position",
    "obstacle_radius",
    "obstacle_mask",
    "core_position",
    "core_circulation",
)
"""Fields of Scenario that the kernel reads, apart from ``scripted``."""
COMMAND_FIELDS = ("left_thrust_change", "right_thrust_change")
"""Fields of Vessel with the thrust rates of discrete actions."""
HULL_FIELDS = (
    "m",
    "Izz",
    "xDotU",
    "yDotV",
    "yDotR",
    "nDotR",
    "nDotV",
    "xU",
    "xUU",
    "yV",
    "yVV",
    "yR",
    "yRV",
    "yVR",
    "yRR",
    "nR",
    "nRR",
    "nV",
    "nVV",
    "nRV",
    "nVR",
)
"""Fields of Vessel that the kernel reads in every substep."""
VESSEL_FIELDS = (
    "length",
    "width",
    "radius",
    "detect_radius",
    "goal_distance",
    "power_coefficient",
    "min_thrust",
    "max_thrust",
    "max_thrust_rate",
)
"""Other fields of Vessel that the kernel reads."""
SENSOR_FIELDS = ("range", "angle", "pos_std", "vel_std", "r_mean_ratio", "max_objects", "table_row")
"""Fields of Sensor that the kernel reads."""
REWARD_FIELDS = ("timestep_penalty", "COLREGs_penalty", "collision_penalty", "goal_reward", "core_radius")
"""Fields of RewardParameters."""
SOURCE_FIELDS = ("seed", "environment", "step")
"""Fields of RandomSource that the kernel reads."""
OBSERVATION_FIELDS = tuple(Observation.__annotations__)
"""Fields of Observation, which the kernel writes."""
OUTCOME_FIELDS = (
    "reward",
    "collided",
    "arrived",
    "colregs",
    "phi",
    "energy",
    "terminated",
    "truncated",
    "episode_terminated",
    "episode_done",
)
"""Fields of Outcome that the kernel writes."""
FLAG_NAMES = ("CONTINUOUS", "SCRIPTED", "ENDS_AT_FIRST_COLLISION", "BY_ROLE", "WEATHER")
"""Flags of the kernel, true if actions are continuous, scenarios may have scripted robots, an episode ends at the first
collision, the reward has penalties by role, and there is weather."""
_named: Any = namedtuple  # typed as Any, because mypy cannot follow computed field names
_Inputs = _named(
    "_Inputs",
    (*STATE_FIELDS, *SCENARIO_FIELDS, *COMMAND_FIELDS, "scripted", "pending", "weather", "action", *SOURCE_FIELDS),
)
"""Tensors that a step reads, besides the parameters of vessels and sensors: state, scenario, actions and noise."""
_Parameters = _named("_Parameters", (*VESSEL_FIELDS, *SENSOR_FIELDS, *REWARD_FIELDS))
"""Parameters that the kernel reads, apart from HULL_FIELDS."""
StepResult = _named(
    "StepResult", (*(f"new_{name}" for name in (*STATE_FIELDS, "pending")), *OBSERVATION_FIELDS, *OUTCOME_FIELDS)
)
"""Outputs of a step, before new episodes start."""
_EpisodeStarts = _named("_EpisodeStarts", ("following", "latest", "pool", "rows", "entries", "index"))
"""Tensors and sizes for the start of new episodes, see triton_kernel._start_episodes."""


@torch.library.custom_op("marinenav::world_step", mutates_args=())
def world_step(
    inputs: list[Tensor],
    numbers: Tensor,
    quantiles: Tensor,
    zones: list[float],
    penalties: list[float],
    dt: float,
    sizes: list[int],
    flags: list[bool],
    scenario_leaves: list[Tensor],
    pool: list[Tensor],
    index: Tensor | None,
) -> list[Tensor]:
    """Compute a control step of the world and, with a pool, start new episodes where one has ended.

    Args:
        inputs: values of the fields of _Inputs, in the usual logical shapes.
        numbers: [N, R, E or 1] parameters, in the order of HULL_FIELDS and _Parameters.
        quantiles: von Mises quantile table of the radius noise, [rows, points].
        zones: numbers of ColregsConfig, see ``triton_world._zones``.
        penalties: numbers of the penalties by role, see ``triton_world._penalties``.
        dt: length of a substep (s).
        sizes: number of substeps, largest number of steps of an episode, and number of object slots.
        flags: values of FLAG_NAMES.
        scenario_leaves: tensors [E, ...] of the scenarios, which a step does not change; empty without a pool.
        pool: tensors [P, ...] of the scenarios, states and observations that new episodes start from.
        index: [E] int64, index of the pool entry of each environment; None: no new episodes.

    Returns:
        Fields of StepResult, followed by scenarios, states and observations that the next step starts from.
    """
    substeps, max_steps, slots = sizes
    memory = _Inputs(*map(_to_reversed_layout, inputs))
    result, following = _allocate(inputs, numbers, slots, flags[-1], pool)
    robots, envs = memory.active.shape
    lanes = triton.next_power_of_2(max(MIN_LANES, robots))
    share = lanes // robots
    rows = numbers.unbind()
    starts = _EpisodeStarts((), (), (), (), 0, memory.steps)
    if index is not None:
        states = len(pool) - len(scenario_leaves) - len(OBSERVATION_FIELDS)
        latest = (
            *map(_to_reversed_layout, scenario_leaves),
            *result[:states],
            *(getattr(result, name) for name in OBSERVATION_FIELDS),
        )
        counts = tuple(tensor.numel() // envs for tensor in following)
        # Otherwise a lane would read what another lane stores, see _start_episodes.
        assert all(count == 1 or count % robots == 0 for count in counts[len(scenario_leaves) :])
        starts = _EpisodeStarts(
            tuple(following), latest, tuple(map(_to_reversed_layout, pool)), counts, len(pool[0]), index
        )
    most = 2**31 - 1  # the kernel computes memory offsets in 32 bits
    largest = max(tensor.numel() for tensor in (*memory, *result, *following, *starts.pool))
    require(largest <= most, "num_envs", envs, "less with execution.kernel=triton")
    with torch.cuda.device_of(numbers):
        step_kernel[(triton.cdiv(envs, share),)](
            memory,
            tuple(rows[: len(HULL_FIELDS)]),
            _Parameters(*rows[len(HULL_FIELDS) :]),
            quantiles,
            result,
            tuple(zones),
            tuple(penalties),
            dt,
            substeps,
            max_steps,
            envs,
            robots,
            robots + memory.obstacle_mask.shape[0],
            memory.core_circulation.shape[0],
            numbers.shape[-1],
            quantiles.shape[-1],
            memory.left_thrust_change.shape[0],
            memory.right_thrust_change.shape[0],
            share,
            starts,
            LANES=lanes,
            K=slots,
            **dict(zip(FLAG_NAMES, flags, strict=True)),
            STARTS=index is not None,
            num_warps=lanes // 32,
            enable_fp_fusion=True,
            maxnreg=min(_MAX_REGISTERS, 65_536 // lanes),
        )
    return [*result, *following]


@world_step.register_fake
def _(
    inputs: list[Tensor],
    numbers: Tensor,
    quantiles: Tensor,
    zones: list[float],
    penalties: list[float],
    dt: float,
    sizes: list[int],
    flags: list[bool],
    scenario_leaves: list[Tensor],
    pool: list[Tensor],
    index: Tensor | None,
) -> list[Tensor]:
    result, following = _allocate(inputs, numbers, sizes[-1], flags[-1], pool)
    return [*result, *following]


def _to_reversed_layout(tensor: Tensor) -> Tensor:
    """Return a contiguous tensor with the dimensions of a tensor [E, ...] in reverse order."""
    return env_last(tensor).contiguous()


def _empty(dtype: torch.dtype, *shape: int, device: torch.device) -> Tensor:
    """Return an uninitialised tensor [E, ...] with environments innermost; its shape is given in reverse order."""
    return env_first(torch.empty(shape, dtype=dtype, device=device))


def _allocate(
    inputs: list[Tensor], numbers: Tensor, slots: int, weather: bool, pool: list[Tensor]
) -> tuple[Any, list[Tensor]]:
    """Return uninitialised tensors for the result of a step (StepResult), and for the start of the next step.

    Args:
        inputs: argument ``inputs`` of ``world_step``.
        numbers: argument ``numbers`` of ``world_step``.
        slots: number of object slots.
        weather: whether there is weather, which may delay commands.
        pool: argument ``pool`` of ``world_step``, whose tensors [P, ...] have the shapes for the next step.
    """
    active = inputs[_Inputs._fields.index("active")]
    envs, robots = active.shape
    late = MAX_DELAY if weather else 0
    empty = partial(_empty, device=active.device)

    def real(*shape: int) -> Tensor:
        return empty(numbers.dtype, *shape, robots, envs)

    def flags(*shape: int) -> Tensor:
        return empty(torch.bool, *shape, envs)

    result = StepResult(
        real(3),
        real(3),
        real(3),
        real(2),
        *(flags(robots) for _ in range(3)),
        empty(torch.int64, envs),
        real(2, late),
        real(7),
        real(5, slots),
        flags(slots, robots),
        real(),
        *(flags(robots) for _ in range(3)),
        real(),
        real(),
        *(flags(robots) for _ in range(2)),
        flags(),
        flags(),
    )
    return result, [empty(tensor.dtype, *env_last(tensor).shape[:-1], envs) for tensor in pool]
