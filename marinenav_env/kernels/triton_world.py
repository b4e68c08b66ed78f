"""The published world with a control step by one Triton kernel, as a ``World`` that MarineNavEnv is given.

The custom operator ``world_step`` launches the kernel (kernels.triton_kernel), and can be part of compiled code.
"""

from __future__ import annotations

from collections import namedtuple
from functools import partial
from typing import Any

import torch
import triton
from tensordict import TensorDict
from torch import Tensor

from marinenav_env.config import ColregsConfig, WorldConfig
from marinenav_env.kernels.triton_kernel import step_kernel
from marinenav_env.rules.reward import role_term_names
from marinenav_env.runtime.layout import env_first, env_last, environments_innermost
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.reset import NewEpisodes, controlled_robots
from marinenav_env.state import (
    Observation,
    Outcome,
    Parameters,
    ResetState,
    RewardParameters,
    Scenario,
    Sensor,
    State,
    Vessel,
    WorldState,
)
from marinenav_env.stepping.world import World
from marinenav_env.support.validation import require

MIN_LANES = 32
"""Smallest number of lanes (GPU threads) of a program; more, as a power of two, for more robots per environment."""
_MAX_REGISTERS = 112
"""Largest number of registers per lane; with fewer, ptxas of CUDA 12.8 spills two registers to memory."""
STATE_FIELDS = ("pose", "velocity_water", "velocity_ground", "thrust", "active", "collided", "arrived", "steps")
"""Fields of State that the kernel reads, and writes with the prefix ``new_``."""
SCENARIO_FIELDS = (
    *("goal", "thruster_angle", "robot_mask", "obstacle_position", "obstacle_radius", "obstacle_mask"),
    *("core_position", "core_circulation"),
)
COMMAND_FIELDS = ("left_thrust_change", "right_thrust_change")
"""Fields of Vessel with the thrust rates of discrete actions."""
HULL_FIELDS = (
    *("m", "Izz", "xDotU", "yDotV", "yDotR", "nDotR", "nDotV", "xU", "xUU", "yV", "yVV", "yR", "yRV", "yVR", "yRR"),
    *("nR", "nRR", "nV", "nVV", "nRV", "nVR"),
)
"""Fields of Vessel that the kernel reads in every substep."""
VESSEL_FIELDS = tuple(name for name in Vessel.__annotations__ if name not in (*COMMAND_FIELDS, *HULL_FIELDS))
OBSERVATION_FIELDS = tuple(Observation.__annotations__)
OUTCOME_FIELDS = tuple(name for name in Outcome.__annotations__ if name not in ("statistics", "grounded"))
_named: Any = namedtuple  # typed as Any, because mypy cannot follow computed field names
_Inputs = _named("_Inputs", (*STATE_FIELDS, *SCENARIO_FIELDS, *COMMAND_FIELDS, "action", "seed", "environment", "step"))
"""Tensors that a step reads, besides the parameters of vessels and sensors: state, scenario, actions and noise."""
_Numbers = _named("_Numbers", (*VESSEL_FIELDS, *Sensor.__annotations__, *RewardParameters.__annotations__))
"""Parameters that the kernel reads, apart from HULL_FIELDS."""
_Result = _named("_Result", (*(f"new_{name}" for name in STATE_FIELDS), *OBSERVATION_FIELDS, *OUTCOME_FIELDS))
"""Outputs of a step, before new episodes start."""
_EpisodeStarts = _named("_EpisodeStarts", ("following", "latest", "pool", "rows", "entries", "index", "allowed"))
"""Tensors and sizes for the start of new episodes, see triton_kernel._start_episodes."""
_PUBLISHED = (
    "World unless it is the published world in float32 on a GPU, with one kind of vessel and sensor, without weather, "
    "shores, scripted vessels, actuators, hull terms, duties, numbers of objects, penalties by role, episode "
    "statistics, own rewards and sensors"
)


class TritonWorld(World):
    """World whose control step is one Triton kernel, with the same random numbers, and equal results up to rounding.

    It is for the published world in float32, on a GPU or in Triton's interpreter, and refuses every other.
    The arguments are those of World.
    """

    def __init__(self, config: WorldConfig, quantiles: Tensor, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, quantiles, *args, **kwargs)
        runs = quantiles.dtype == torch.float32 and (quantiles.is_cuda or triton.knobs.runtime.interpret)
        entries = self.sensors or config.sensor.duties or config.sensor.objects_id
        others = entries or self.custom_reward or role_term_names(config) or self.statistics
        _require_published(runs and not others and len(quantiles) == 1)
        self._zones = _zones(config.colregs)

    def initial_reset_state(self, scenario: Scenario, parameters: Parameters, *args: Any) -> ResetState:
        """Return the initial state of episodes, like World, of worlds that the kernel supports."""
        _require_supported(scenario, parameters)
        return super().initial_reset_state(scenario, parameters, *args)

    def advance(
        self, now: ResetState, parameters: Parameters, action: Tensor, noise: RandomSource, *episodes: Any
    ) -> tuple[ResetState, Parameters | None, TensorDict, Tensor, Outcome]:
        """Compute a step like World.advance."""
        pool, others, entry, allowed = episodes or (None, None, None, None)
        _require_supported(now.scenario, parameters if others is None else others)
        index = None
        starts: list[Tensor] = []
        leaves: list[Tensor] = []
        if pool is not None:
            index = NewEpisodes(WorldState(pool, parameters), entry).entries()
            starts = [tensor for part in _parts(pool) for tensor in part.values()]
            leaves = [*_leaves(now.scenario).values()]
            allowed = torch.ones_like(now.state.steps, dtype=torch.bool) if allowed is None else allowed
        noise = noise._replace(step=noise.step.expand_as(noise.environment))
        inputs = [
            *(now.state.get(name) for name in STATE_FIELDS),
            *(now.scenario.get(name) for name in SCENARIO_FIELDS),
            *(parameters.vessel.get(name).flatten() for name in COMMAND_FIELDS),
            # Actions come from the policy in another memory layout, which compiled code can change here.
            environments_innermost(action.to(self.quantiles.dtype) if self.continuous else action),
            *noise[:3],
        ]
        config, flags = self.config, [self.continuous, self.config.ends_at_first_collision]
        settings = [config.substeps, config.max_steps, config.sensor.slots, *map(int, flags)]
        numbers = torch.cat([value.view(-1).to(self.quantiles.dtype) for value in _numbers(parameters)])
        tensors = world_step(
            inputs, numbers, self.quantiles, self._zones, config.dt, settings, leaves, starts, index, allowed
        )
        result, batch = _Result(*tensors[: len(_Result._fields)]), now.batch_size
        state = State(**{name: getattr(result, f"new_{name}") for name in STATE_FIELDS}, batch_size=batch)
        outcome = Outcome(**{name: getattr(result, name) for name in OUTCOME_FIELDS}, batch_size=batch)
        observation = TensorDict({name: getattr(result, name) for name in OBSERVATION_FIELDS}, batch)
        after = ResetState(scenario=now.scenario, state=state, observation=observation, batch_size=batch)
        following = after
        if pool is not None:
            remaining = iter(tensors[len(_Result._fields) :])
            parts = [{name: next(remaining) for name in part} for part in _parts(pool)]
            following = ResetState(
                scenario=Scenario(**parts[0], batch_size=batch),
                state=State(**parts[1], batch_size=batch),
                observation=TensorDict(parts[2], batch),
                batch_size=batch,
            )
        return following, None, observation, controlled_robots(after), outcome


@torch.library.custom_op("marinenav::world_step", mutates_args=())
def world_step(
    inputs: list[Tensor],
    numbers: Tensor,
    quantiles: Tensor,
    zones: list[float],
    dt: float,
    settings: list[int],
    scenario: list[Tensor],
    pool: list[Tensor],
    index: Tensor | None,
    allowed: Tensor | None,
) -> list[Tensor]:
    """Compute a control step of the world and, with a pool, start new episodes where one has ended.

    Arguments are the fields of _Inputs; the parameters [N] of HULL_FIELDS and _Numbers; the quantile table [1, points];
    _zones; the length of a substep (s); and, as settings, substeps, largest number of steps, object slots, and whether
    actions are continuous and an episode ends at the first collision. New episodes need the tensors [E, ...] of the
    scenarios, those to start from [P, ...], an index [E] of these, and whether environments may start one [E].
    Returns the fields of _Result, then scenarios, states and observations that the next step starts from.
    """
    substeps, max_steps, slots, continuous, ends_at_first_collision = settings
    memory = _Inputs(*map(_to_reversed_layout, inputs))
    result, following = _allocate(inputs, numbers, slots, pool)
    robots, envs = memory.active.shape
    lanes = triton.next_power_of_2(max(MIN_LANES, robots))
    share, rows = lanes // robots, numbers.unbind()
    starts = _EpisodeStarts((), (), (), (), 0, memory.steps, memory.steps)
    if index is not None:
        latest = (
            *map(_to_reversed_layout, scenario),
            *result[: len(STATE_FIELDS)],
            *(getattr(result, name) for name in OBSERVATION_FIELDS),
        )
        counts = tuple(tensor.numel() // envs for tensor in following)
        # Otherwise a lane would read what another lane stores, see _start_episodes.
        assert all(count == 1 or count % robots == 0 for count in counts[len(scenario) :])
        entries = tuple(map(_to_reversed_layout, pool))
        starts = _EpisodeStarts(tuple(following), latest, entries, counts, len(pool[0]), index, allowed)
    most = 2**31 - 1  # the kernel computes memory offsets in 32 bits
    largest = max(tensor.numel() for tensor in (*memory, *result, *following, *starts.pool))
    require(largest <= most, "num_envs", envs, "less with a TritonWorld")
    with torch.cuda.device_of(numbers):
        step_kernel[(triton.cdiv(envs, share),)](
            memory,
            tuple(rows[: len(HULL_FIELDS)]),
            _Numbers(*rows[len(HULL_FIELDS) :]),
            quantiles,
            result,
            tuple(zones),
            (dt, substeps, max_steps),
            (envs, robots, robots + memory.obstacle_mask.shape[0], memory.core_circulation.shape[0]),
            quantiles.shape[-1],
            (len(memory.left_thrust_change), len(memory.right_thrust_change)),
            share,
            starts,
            LANES=lanes,
            K=slots,
            CONTINUOUS=bool(continuous),
            ENDS_AT_FIRST_COLLISION=bool(ends_at_first_collision),
            STARTS=index is not None,
            num_warps=lanes // 32,
            enable_fp_fusion=True,
            maxnreg=min(_MAX_REGISTERS, 65_536 // lanes),
        )
    return [*result, *following]


@world_step.register_fake
def _(*arguments: Any) -> list[Tensor]:
    inputs, numbers, _, _, _, settings, _, pool = arguments[:8]
    result, following = _allocate(inputs, numbers, settings[2], pool)
    return [*result, *following]


def _to_reversed_layout(tensor: Tensor) -> Tensor:
    """Return a contiguous tensor with the dimensions of a tensor [E, ...] in reverse order."""
    return env_last(tensor).contiguous()


def _allocate(inputs: list[Tensor], numbers: Tensor, slots: int, pool: list[Tensor]) -> tuple[Any, list[Tensor]]:
    """Return uninitialised tensors [E, ...] for a _Result, and for the next step, shaped like ``pool`` [P, ...]."""
    active = inputs[_Inputs._fields.index("active")]
    envs, robots = active.shape

    def empty(dtype: torch.dtype, *shape: int) -> Tensor:
        return env_first(torch.empty(*shape, envs, dtype=dtype, device=active.device))

    real, flags = partial(empty, numbers.dtype), partial(empty, torch.bool)
    vectors: dict[str, tuple[int, ...]] = dict.fromkeys(("new_pose", "new_velocity_water", "new_velocity_ground"), (3,))
    vectors |= {"new_thrust": (2,), "self_state": (7,), "objects_state": (5, slots)}
    vectors |= dict.fromkeys(("reward", "phi", "energy"), ())
    tensors = {name: real(*shape, robots) for name, shape in vectors.items()}
    tensors |= {"objects_mask": flags(slots, robots), "new_steps": empty(torch.int64)}
    tensors |= {"episode_terminated": flags(), "episode_done": flags()}
    tensors |= {name: flags(robots) for name in _Result._fields if name not in tensors}
    following = [empty(tensor.dtype, *env_last(tensor).shape[:-1]) for tensor in pool]
    return _Result(**tensors), following


def _leaves(part: Scenario | State) -> dict[str, Tensor]:
    """Return the tensors of a scenario or state by name, in the order of its fields, without those that are None."""
    fields = {name: getattr(part, name) for name in type(part).__annotations__}
    return {name: value for name, value in fields.items() if value is not None}


def _parts(now: ResetState) -> tuple[dict[str, Tensor], ...]:
    """Return scenario, state and observation as dictionaries of tensors by name."""
    observation = {name: now.observation.get(name) for name in OBSERVATION_FIELDS}
    return _leaves(now.scenario), _leaves(now.state), observation


def _numbers(parameters: Parameters) -> list[Tensor]:
    """Return the parameters that the kernel reads, in the order of ``world_step``."""
    vessel = (parameters.vessel.get(name) for name in (*HULL_FIELDS, *VESSEL_FIELDS))
    others = (part.get(name) for part in (parameters.sensor, parameters.rules) for name in type(part).__annotations__)
    return [*vessel, *others]


def _require_supported(scenario: Scenario, parameters: Parameters) -> None:
    """Raise ConfigError for scenarios and parameters that the kernel does not support."""
    varies = any(value.numel() > 1 for value in _numbers(parameters))
    is_plain = scenario.scripted is scenario.shores is None and parameters.weather is parameters.extras is None
    _require_published(is_plain and not varies)


def _require_published(is_published: bool) -> None:
    """Raise ConfigError unless a world is the published one."""
    require(is_published, "world", "TritonWorld", _PUBLISHED)


def _zones(rules: ColregsConfig) -> list[float]:
    """Return the zones of the COLREGs term as a list of numbers, in the order of triton_kernel._required_turn."""
    crossing = *rules.crossing_x, *rules.crossing_y, rules.crossing_corner_y, rules.crossing_corner_slope
    head_on = *rules.head_on_x, rules.head_on_half_width, rules.head_on_heading
    return [rules.min_speed, *crossing, *rules.crossing_heading, *head_on, rules.clearance]
