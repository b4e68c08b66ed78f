"""The world's step as an operator that calls the Triton kernel; it can be part of compiled code.

What is computed is in kernels.triton_kernel. Here tensors become pointers: everything in
memory has environments innermost, see marinenav_env.runtime.layout.
"""

from __future__ import annotations

from collections import namedtuple
from functools import partial
from typing import Any

import torch
import triton
from torch import Tensor

from marinenav_env.config import MOST_DELAY
from marinenav_env.kernels.triton_kernel import kernel
from marinenav_env.runtime.layout import env_first, env_last
from marinenav_env.state import Observation
from marinenav_env.support.validation import require

LANES = 32
"""Lanes of a program, unless an environment has more robots."""
_REGISTERS = 112
"""Of a lane at most, where a program has as many: ptxas of CUDA 12.8 else spills two."""

STATE = ("pose", "velocity_water", "velocity_ground", "thrust", "active", "collided", "arrived", "steps")
SCENARIO = (
    "goal",
    "thruster_angle",
    "robot_mask",
    "obstacle_position",
    "obstacle_radius",
    "obstacle_mask",
    "core_position",
    "core_circulation",
)
COMMANDS = ("left_thrust_change", "right_thrust_change")
HULL = (
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
"""Parameters of the vessel that the substeps read."""
VESSEL = (
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
SENSOR = ("range", "angle", "pos_std", "vel_std", "r_mean_ratio", "max_objects", "table_row")
RULES = ("timestep_penalty", "COLREGs_penalty", "collision_penalty", "goal_reward", "core_radius")
SOURCE = ("seed", "environment", "step")
ENTRIES = tuple(Observation.__annotations__)
OUTCOME = (
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
FLAGS = ("CONTINUOUS", "SCRIPTED", "ENDS_AT_FIRST_COLLISION", "BY_ROLE", "WEATHER")
"""Whether actions are continuous, any robot is scripted, an episode ends with the first collision,
there are penalties by role, and there is weather."""
_named: Any = namedtuple  # of computed names, which mypy does not follow
_Given = _named("_Given", (*STATE, *SCENARIO, *COMMANDS, "scripted", "pending", "weather", "action", *SOURCE))
"""What a step is computed from besides parameters."""
_Numbers = _named("_Numbers", (*VESSEL, *SENSOR, *RULES))
Made = _named("Made", (*(f"new_{name}" for name in (*STATE, "pending")), *ENTRIES, *OUTCOME))
"""What a step gives."""
_Starts = _named("_Starts", ("following", "latest", "pool", "rows", "entries", "index"))
"""See triton_kernel._start_episodes."""


@torch.library.custom_op("marinenav::world_step", mutates_args=())
def world_step(
    given: list[Tensor],
    numbers: Tensor,
    quantiles: Tensor,
    zones: list[float],
    penalties: list[float],
    dt: float,
    sizes: list[int],
    flags: list[bool],
    kept: list[Tensor],
    pool: list[Tensor],
    index: Tensor | None,
) -> list[Tensor]:
    """Make a step; if there is a pool, start new episodes where it ended one.

    Args:
        given: see _Given, of the usual logical shapes.
        numbers: [N, R, E or 1] all parameters.
        quantiles: see World.
        zones: of ColregsConfig.
        penalties: see ``triton_world._penalties``.
        dt: length of a substep (s).
        sizes: substeps, steps of an episode, object slots.
        flags: see FLAGS.
        kept: [E, ...] scenarios, which a step leaves as they are.
        pool: [P, ...] scenarios, states and observations that episodes start from.
        index: [E] int64 entries of the pool.

    Returns:
        See Made; then scenarios, states and observations that the next step starts from.
    """
    substeps, max_steps, slots = sizes
    memory = _Given(*map(_in_memory, given))
    made, following = _blank(given, numbers, slots, flags[-1], pool)
    robots, envs = memory.active.shape
    lanes = triton.next_power_of_2(max(LANES, robots))
    share = lanes // robots
    rows = numbers.unbind()
    starts = _Starts((), (), (), (), 0, memory.steps)
    if index is not None:
        states = len(pool) - len(kept) - len(ENTRIES)
        latest = *map(_in_memory, kept), *made[:states], *(getattr(made, each) for each in ENTRIES)
        counts = tuple(each.numel() // envs for each in following)
        # Else a lane would read what another one stores, see _start_episodes.
        assert all(count == 1 or count % robots == 0 for count in counts[len(kept) :])
        starts = _Starts(tuple(following), latest, tuple(map(_in_memory, pool)), counts, len(pool[0]), index)
    most = 2**31 - 1  # the kernel counts places in 32 bits
    largest = max(tensor.numel() for tensor in (*memory, *made, *following, *starts.pool))
    require(largest <= most, "num_envs", envs, "less with execution.kernel=triton")
    with torch.cuda.device_of(numbers):
        kernel[(triton.cdiv(envs, share),)](
            memory,
            tuple(rows[: len(HULL)]),
            _Numbers(*rows[len(HULL) :]),
            quantiles,
            made,
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
            **dict(zip(FLAGS, flags, strict=True)),
            STARTS=index is not None,
            num_warps=lanes // 32,
            enable_fp_fusion=True,
            maxnreg=min(_REGISTERS, 65_536 // lanes),
        )
    return [*made, *following]


@world_step.register_fake
def _(
    given: list[Tensor],
    numbers: Tensor,
    quantiles: Tensor,
    zones: list[float],
    penalties: list[float],
    dt: float,
    sizes: list[int],
    flags: list[bool],
    kept: list[Tensor],
    pool: list[Tensor],
    index: Tensor | None,
) -> list[Tensor]:
    made, following = _blank(given, numbers, sizes[-1], flags[-1], pool)
    return [*made, *following]


def _in_memory(tensor: Tensor) -> Tensor:
    """A tensor [E, ...] with its dimensions in reverse order, as they are in memory."""
    return env_last(tensor).contiguous()


def _empty(dtype: torch.dtype, *shape: int, device: torch.device) -> Tensor:
    """Memory of a shape, given in reverse order."""
    return env_first(torch.empty(shape, dtype=dtype, device=device))


def _blank(
    given: list[Tensor], numbers: Tensor, slots: int, weather: bool, pool: list[Tensor]
) -> tuple[Any, list[Tensor]]:
    """Memory for what a step gives, of the usual logical shapes, and for what the next starts from.

    Args:
        given: see ``world_step``.
        numbers: likewise.
        slots: of objects.
        weather: whether commands may be late.
        pool: tensors of the shapes of the latter.
    """
    active = given[_Given._fields.index("active")]
    envs, robots = active.shape
    late = MOST_DELAY if weather else 0
    empty = partial(_empty, device=active.device)

    def real(*shape: int) -> Tensor:
        return empty(numbers.dtype, *shape, robots, envs)

    def flags(*shape: int) -> Tensor:
        return empty(torch.bool, *shape, envs)

    made = Made(
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
    return made, [empty(each.dtype, *env_last(each).shape[:-1], envs) for each in pool]
