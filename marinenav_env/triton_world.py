"""The world's step as one Triton kernel: what ``World.advance`` computes, with the same noise.

It runs on a GPU in float32, or in Triton's interpreter; sensors besides perception, and rewards of
the user's, are left to ``World.advance``. What it computes is in marinenav_env.triton_kernel; here
tensors become pointers. Everything in memory has environments innermost, see marinenav_env.layout.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import torch
import triton
from torch import Tensor

from marinenav_env.config import MOST_DELAY, ColregsConfig, RewardConfig, WorldConfig
from marinenav_env.layout import env_first, env_last
from marinenav_env.philox import RandomSource
from marinenav_env.reward import reward_by_role, reward_function
from marinenav_env.state import Observation, Outcome, Parameters, Scenario, State, Weather
from marinenav_env.triton_kernel import kernel
from marinenav_env.validation import require

_LANES = 32
"""Lanes of a program, unless an environment has more robots."""
_REGISTERS = 112
"""Of a lane at most, where a program has as many: ptxas of CUDA 12.8 else spills two."""

_STATE = ("pose", "velocity_water", "velocity_ground", "thrust", "active", "collided", "arrived",
          "steps")  # fmt: skip
_SCENARIO = ("goal", "thruster_angle", "robot_mask", "obstacle_position", "obstacle_radius",
             "obstacle_mask", "core_position", "core_circulation")  # fmt: skip
_COMMANDS = ("left_thrust_change", "right_thrust_change")
_HULL = ("m", "Izz", "xDotU", "yDotV", "yDotR", "nDotR", "nDotV", "xU", "xUU", "yV", "yVV", "yR",
         "yRV", "yVR", "yRR", "nR", "nRR", "nV", "nVV", "nRV", "nVR")  # fmt: skip
"""Parameters of the vessel that the substeps read."""
_VESSEL = ("length", "width", "radius", "detect_radius", "goal_distance", "power_coefficient",
           "min_thrust", "max_thrust", "max_thrust_rate")  # fmt: skip
_SENSOR = ("range", "angle", "pos_std", "vel_std", "r_mean_ratio", "max_objects", "table_row")
_RULES = ("timestep_penalty", "COLREGs_penalty", "collision_penalty", "goal_reward", "core_radius")
_WEATHER = ("hull_height", "delay", "missed", "wave_direction", "wind", "wave_frequency",
            "wave_amplitude", "wave_phase")  # fmt: skip
_SOURCE = ("seed", "environment", "step")
_OUTCOME = ("reward", "collided", "arrived", "colregs", "phi", "energy", "terminated", "truncated",
            "episode_terminated", "episode_done")  # fmt: skip
_FLAGS = ("CONTINUOUS", "SCRIPTED", "ENDS_AT_FIRST_COLLISION", "BY_ROLE", "WEATHER")
"""Whether actions are continuous, any robot is scripted, an episode ends with the first collision,
there are penalties by role, and there is weather."""
_named: Any = namedtuple  # of computed names, which mypy does not follow
_Given = _named("_Given", (*_STATE, *_SCENARIO, *_COMMANDS, "scripted", "pending", "weather",
                           "action", *_SOURCE))  # fmt: skip
"""What a step is computed from besides parameters."""
_Numbers = _named("_Numbers", (*_VESSEL, *_SENSOR, *_RULES))
_Made = _named(
    "_Made",
    (*(f"new_{name}" for name in _STATE), "self_state", "objects_state", "objects_mask", *_OUTCOME,
     "new_pending"),
)  # fmt: skip
"""What a step gives."""


# From tensors to pointers -----------------------------------------------------------------------


def _blank(active: Tensor, numbers: Tensor, slots: int, weather: bool) -> Any:
    """Memory for what a step gives, of the usual logical shapes."""
    envs, robots = active.shape
    late = MOST_DELAY if weather else 0

    def made(dtype: torch.dtype, *shape: int) -> Tensor:
        return env_first(torch.empty((*shape, envs), dtype=dtype, device=active.device))

    def real(*shape: int) -> Tensor:
        return made(numbers.dtype, *shape, robots)

    def flags(*shape: int) -> Tensor:
        return made(torch.bool, *shape)

    return _Made(
        real(3), real(3), real(3), real(2), *(flags(robots) for _ in range(3)), made(torch.int64),
        real(7), real(5, slots), flags(slots, robots),
        real(), *(flags(robots) for _ in range(3)), real(), real(),
        *(flags(robots) for _ in range(2)), flags(), flags(), real(2, late),
    )  # fmt: skip


@torch.library.custom_op("marinenav::world_step", mutates_args=())
def _world_step(
    given: list[Tensor], numbers: Tensor, quantiles: Tensor, zones: list[float],
    penalties: list[float], dt: float, sizes: list[int], flags: list[bool],
) -> list[Tensor]:  # fmt: skip
    """A step as one operator, so that it can be part of compiled code.

    Args:
        given: see _Given, of the usual logical shapes.
        numbers: [N, R, E or 1] all parameters.
        quantiles: see World.
        zones: of ColregsConfig.
        penalties: see ``_penalties``.
        dt: length of a substep (s).
        sizes: substeps, steps of an episode, object slots.
        flags: see _FLAGS.

    Returns:
        See _Made.
    """
    substeps, max_steps, slots = sizes
    memory = _Given(*(env_last(tensor).contiguous() for tensor in given))
    made = _blank(given[_Given._fields.index("active")], numbers, slots, flags[-1])
    robots, envs = memory.active.shape
    lanes = triton.next_power_of_2(max(_LANES, robots))
    share = lanes // robots
    rows = numbers.unbind()
    most = 2**31 - 1  # the kernel counts places in 32 bits
    largest = max(tensor.numel() for tensor in (*memory, *made))
    require(largest <= most, "num_envs", envs, "less with world.kernel=triton")
    with torch.cuda.device_of(numbers):
        kernel[(triton.cdiv(envs, share),)](
            memory, tuple(rows[: len(_HULL)]), _Numbers(*rows[len(_HULL) :]),
            quantiles, made, tuple(zones), tuple(penalties), dt, substeps, max_steps,
            envs, robots, robots + memory.obstacle_mask.shape[0], memory.core_circulation.shape[0],
            numbers.shape[-1], quantiles.shape[-1],
            memory.left_thrust_change.shape[0], memory.right_thrust_change.shape[0], share,
            LANES=lanes, K=slots, **dict(zip(_FLAGS, flags, strict=True)), num_warps=lanes // 32,
            enable_fp_fusion=True, maxnreg=min(_REGISTERS, 65_536 // lanes),
        )  # fmt: skip
    return list(made)


@_world_step.register_fake
def _(
    given: list[Tensor], numbers: Tensor, quantiles: Tensor, zones: list[float],
    penalties: list[float], dt: float, sizes: list[int], flags: list[bool],
) -> list[Tensor]:  # fmt: skip
    return list(_blank(given[_Given._fields.index("active")], numbers, sizes[-1], flags[-1]))


def _stacked(parameters: Parameters, robots: int, dtype: torch.dtype) -> Tensor:
    """All parameters [N, R, E or 1] in the order of _HULL and _Numbers."""
    parts = ((parameters.vessel, (*_HULL, *_VESSEL)), (parameters.sensor, _SENSOR),
             (parameters.rules, _RULES))  # fmt: skip
    envs = parameters.batch_size[0]
    values = [part.get(name).view(envs, -1) for part, names in parts for name in names]
    return torch.stack([value.expand(envs, robots).T.to(dtype) for value in values])


def _rows(weather: Weather) -> Tensor:
    """Numbers [E or 1, N] of the weather, see triton_weather."""
    envs, dtype = weather.batch_size[0], weather.wind.dtype
    rows = [env_last(weather.get(name).view(envs, -1)).to(dtype) for name in _WEATHER]
    return env_first(torch.cat(rows))


def _zones(rules: ColregsConfig) -> list[float]:
    """Numbers of the rules of the sea, see triton_kernel._required_turn."""
    return [
        rules.min_speed, *rules.crossing_x, *rules.crossing_y, rules.crossing_corner_y,
        rules.crossing_corner_slope, *rules.crossing_heading, *rules.head_on_x,
        rules.head_on_half_width, rules.head_on_heading, rules.clearance,
    ]  # fmt: skip


def _penalties(weights: RewardConfig, rules: ColregsConfig) -> list[float]:
    """Numbers of the penalties by role, see triton_reward.role_terms."""
    passing = weights.passing_distance or rules.domain
    return [
        weights.give_way_penalty, weights.stand_on_penalty, weights.port_turn_penalty,
        weights.slowing_penalty, weights.astern_penalty, weights.off_course_penalty,
        weights.steerage_speed, passing, min(weights.passing_margin, passing) / passing,
        rules.horizon, rules.stand_on_until,
    ]  # fmt: skip


def triton_advance(config: WorldConfig, quantiles: Tensor, continuous: bool) -> Callable[..., Any]:
    """A function that takes the place of ``World.advance``.

    Args:
        config: see World.
        quantiles: see World.
        continuous: see World.

    Raises:
        ConfigError: on a CPU, and in float64.
    """
    runs = quantiles.is_cuda or triton.knobs.runtime.interpret
    require(runs, "world.kernel", "triton", "compiled where there is no GPU")
    require(quantiles.dtype == torch.float32, "world.kernel", "triton", "compiled in float64")
    zones, penalties = _zones(config.colregs), _penalties(config.reward, config.colregs)
    sizes = [config.substeps, config.max_steps, config.sensor.slots]
    by_role = reward_function(config) is reward_by_role

    def advance(
        state: State, scenario: Scenario, parameters: Parameters, action: Tensor,
        noise: RandomSource,
    ) -> tuple[State, dict[str, Tensor], Outcome]:  # fmt: skip
        """See World.advance."""
        robots, dtype, batch = state.active.shape[1], quantiles.dtype, state.batch_size
        scripted, weather = scenario.scripted is not None, parameters.weather
        given = [
            *(state.get(name) for name in _STATE),
            *(scenario.get(name) for name in _SCENARIO),
            *(parameters.vessel.get(name) for name in _COMMANDS),
            scenario.scripted if scripted else state.active,
            state.active if weather is None else state.pending,
            state.active if weather is None else _rows(weather),
            action.to(dtype) if continuous else action,
            *(getattr(noise, name) for name in _SOURCE),
        ]
        found = _Made(*_world_step(
            given, _stacked(parameters, robots, dtype), quantiles, zones, penalties, config.dt,
            sizes,
            [continuous, scripted, config.ends_at_first_collision, by_role, weather is not None],
        ))  # fmt: skip
        new = {name: getattr(found, f"new_{name}") for name in _STATE}
        if weather is not None:
            new["pending"] = found.new_pending
        entries = {name: getattr(found, name) for name in Observation.__annotations__}
        outcome = {name: getattr(found, name) for name in _OUTCOME}
        return State(**new, batch_size=batch), entries, Outcome(**outcome, batch_size=batch)

    return advance
