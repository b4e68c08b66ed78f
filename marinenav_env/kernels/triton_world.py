"""Step of the world by one Triton kernel, with the same random numbers as ``World`` and equal results up to rounding.

It runs in float32, on a GPU or in Triton's interpreter. It does not support sensors other than perception, rewards
supplied by the user, a penalty for broken duties, actuators or hull terms, and vessels that misbehave.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
from tensordict import TensorDict
from torch import Tensor

from marinenav_env.config import ColregsConfig, WorldConfig
from marinenav_env.kernels.triton_operator import (
    COMMAND_FIELDS,
    HULL_FIELDS,
    OBSERVATION_FIELDS,
    OUTCOME_FIELDS,
    REWARD_FIELDS,
    SCENARIO_FIELDS,
    SENSOR_FIELDS,
    SOURCE_FIELDS,
    STATE_FIELDS,
    VESSEL_FIELDS,
    StepResult,
    world_step,
)
from marinenav_env.rules.episode_statistics import update_statistics
from marinenav_env.rules.reward import (
    RewardInputs,
    goal_distance,
    reward_and_terms,
    role_term_names,
)
from marinenav_env.runtime.layout import env_first, env_last, environments_innermost
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.reset import NewEpisodes, controlled_robots, select_environments
from marinenav_env.sensing.observation import make_entry_sensors
from marinenav_env.state import (
    Outcome,
    Parameters,
    ResetState,
    Scenario,
    State,
    Weather,
    WorldState,
)
from marinenav_env.support.validation import require

_WEATHER = (
    "hull_height",
    "delay",
    "missed",
    "wave_direction",
    "wind",
    "wave_frequency",
    "wave_amplitude",
    "wave_phase",
)
"""Fields of Weather, in the order of the rows that the kernel reads."""


class TritonWorld:
    """Step kernel that computes ``World.advance`` by Triton instead of PyTorch's operators.

    Args:
        config: configuration of the world.
        quantiles: von Mises quantile table of the radius noise, [rows, points].
        continuous: True for continuous actions, False for indices of pairs of thrust changes.

    Raises:
        ConfigError: on a CPU without Triton's interpreter, or in another type than float32.
    """

    def __init__(self, config: WorldConfig, quantiles: Tensor, continuous: bool) -> None:
        runs = quantiles.is_cuda or triton.knobs.runtime.interpret
        require(runs, "execution.kernel", "triton", "compiled where there is no GPU")
        require(quantiles.dtype == torch.float32, "execution.kernel", "triton", "compiled in float64")
        self._config, self._quantiles, self._continuous = config, quantiles, continuous
        self._zones, self._penalties = _zones(config.colregs), _penalties(config)
        self._sizes = [config.substeps, config.max_steps, config.sensor.slots]

    @staticmethod
    def unsupported(config: WorldConfig) -> str:
        """Return a description of what a configuration requires but the kernel lacks; empty if it lacks nothing."""
        if config.reward.function or make_entry_sensors(config):
            return "further observation entries or a reward of your own"
        if config.reward.broken_duty_penalty:
            return "a penalty for broken duties"
        return (
            "actuators or hull terms other than the published ones" if config.vessel.needs_actuator_parameters else ""
        )

    def advance(
        self,
        now: ResetState,
        parameters: Parameters,
        action: Tensor,
        noise: RandomSource,
        pool: ResetState | None = None,
        others: Parameters | None = None,
        entry: Any = None,
        allowed: Tensor | None = None,
    ) -> tuple[ResetState, Parameters | None, TensorDict, Tensor, Outcome]:
        """Compute a step like World.advance; the parameters of new episodes are selected outside the kernel."""
        needed = "compiled with vessels that misbehave"
        require(now.scenario.behaviour is None, "execution.kernel", "triton", needed)
        assert allowed is None  # the kernel starts an episode wherever one has ended
        batch, entries = now.batch_size, None
        if pool is not None:
            entries = NewEpisodes(WorldState(pool, parameters), entry).entries()
        result = self._run_kernel(now.state, now.scenario, parameters, action, noise, pool, entries)
        state, seen, outcome = _step(result, now.state)
        outcome.statistics = self._update_statistics(now, parameters, state, seen, outcome)
        observation = TensorDict(seen, batch)
        after = ResetState(
            scenario=now.scenario,
            state=state,
            observation=observation,
            statistics=outcome.statistics,
            batch_size=batch,
        )
        if pool is None:
            return after, None, observation, controlled_robots(after), outcome
        following = _unflatten(pool, result[len(StepResult._fields) :], batch)
        if outcome.statistics is not None:
            over = outcome.episode_done[:, None]
            following.statistics = torch.where(over, 0.0, outcome.statistics)
        next_parameters = (
            None if others is None else select_environments(outcome.episode_done, others[entries], parameters)
        )
        return following, next_parameters, observation, controlled_robots(after), outcome

    def _update_statistics(
        self, before: ResetState, parameters: Parameters, after: State, entries: dict[str, Tensor], outcome: Outcome
    ) -> Tensor | None:
        """Return the statistics [E, S] after a step, which the kernel does not compute; None if not requested.

        Args:
            before: scenario, state and statistics before the step, batch [E].
            parameters: parameters, batch [E or 1].
            after: state after the step, batch [E].
            entries: entries of the observation after the step by name.
            outcome: outcome of the step.
        """
        if before.statistics is None:
            return None
        scenario, active = before.scenario, before.state.active
        step = RewardInputs(
            goal_distance(before.state, scenario) - goal_distance(after, scenario),
            outcome.phi,
            outcome.collided,
            outcome.arrived,
            active,
            before.state,
            after,
            scenario,
            parameters,
            entries,
            self._config,
        )
        _, terms = reward_and_terms(None, step)
        present = scenario.robot_mask if scenario.scripted is None else scenario.robot_mask & ~scenario.scripted
        return update_statistics(before.statistics, outcome.reward, terms, active & present, present, after)

    def _run_kernel(
        self,
        state: State,
        scenario: Scenario,
        parameters: Parameters,
        action: Tensor,
        noise: RandomSource,
        pool: ResetState | None = None,
        index: Tensor | None = None,
    ) -> list[Tensor]:
        """Convert the arguments of ``advance`` to those of ``world_step``, and return its outputs."""
        scripted, weather = scenario.scripted is not None, parameters.weather
        noise = noise._replace(step=noise.step.expand_as(noise.environment))
        dtype = self._quantiles.dtype
        inputs = [
            *(state.get(name) for name in STATE_FIELDS),
            *(scenario.get(name) for name in SCENARIO_FIELDS),
            *(parameters.vessel.get(name) for name in COMMAND_FIELDS),
            scenario.scripted if scripted else state.active,
            state.active if weather is None else state.pending,
            state.active if weather is None else _rows(weather),
            # Actions come from the policy in another memory layout, which compiled code can change here.
            environments_innermost(action.to(dtype) if self._continuous else action),
            *(getattr(noise, name) for name in SOURCE_FIELDS),
        ]
        flags = [
            self._continuous,
            scripted,
            self._config.ends_at_first_collision,
            bool(role_term_names(self._config)),
            weather is not None,
        ]
        scenario_leaves: list[Tensor] = []
        starts: list[Tensor] = []
        if pool is not None:
            scenario_leaves += _leaves(scenario).values()
            starts += [tensor for part in _parts(pool) for tensor in part.values()]
        result: list[Tensor] = world_step(
            inputs,
            _stack_parameters(parameters, state.active.shape[1], dtype),
            self._quantiles,
            self._zones,
            self._penalties,
            self._config.dt,
            self._sizes,
            flags,
            scenario_leaves,
            starts,
            index,
        )
        return result


# Conversion of tensor classes to lists and back -------------------------------------------------


def _leaves(part: Scenario | State) -> dict[str, Tensor]:
    """Return the tensors of a scenario or state by name, in the order of its fields, without those that are None."""
    fields = {name: getattr(part, name) for name in type(part).__annotations__}
    return {name: value for name, value in fields.items() if value is not None}


def _parts(now: ResetState) -> tuple[dict[str, Tensor], ...]:
    """Return scenario, state and observation as dictionaries of tensors by name."""
    observation = {name: now.observation.get(name) for name in OBSERVATION_FIELDS}
    return _leaves(now.scenario), _leaves(now.state), observation


def _unflatten(pool: ResetState, leaves: list[Tensor], batch: torch.Size) -> ResetState:
    """Return scenario, state and observation from a list of their tensors, in the order in which the pool has them."""
    remaining = iter(leaves)
    scenario, state, observation = ({name: next(remaining) for name in part} for part in _parts(pool))
    return ResetState(
        scenario=Scenario(**scenario, batch_size=batch),
        state=State(**state, batch_size=batch),
        observation=TensorDict(observation, batch),
        batch_size=batch,
    )


def _step(tensors: list[Tensor], state: State) -> tuple[State, dict[str, Tensor], Outcome]:
    """Return state, observation and outcome of a step from the outputs of ``world_step`` and the state before it."""
    result, batch = StepResult(*tensors[: len(StepResult._fields)]), state.batch_size
    new = {name: getattr(result, f"new_{name}") for name in _leaves(state)}
    entries = {name: getattr(result, name) for name in OBSERVATION_FIELDS}
    outcome = {name: getattr(result, name) for name in OUTCOME_FIELDS}
    return State(**new, batch_size=batch), entries, Outcome(**outcome, batch_size=batch)


def _stack_parameters(parameters: Parameters, robots: int, dtype: torch.dtype) -> Tensor:
    """Return the parameters that the kernel reads as one tensor [N, R, E or 1], in the order of ``world_step``."""
    parts = (
        (parameters.vessel, (*HULL_FIELDS, *VESSEL_FIELDS)),
        (parameters.sensor, SENSOR_FIELDS),
        (parameters.rules, REWARD_FIELDS),
    )
    envs = parameters.batch_size[0]
    values = [part.get(name).view(envs, -1) for part, names in parts for name in names]
    return torch.stack([value.expand(envs, robots).T.to(dtype) for value in values])


def _rows(weather: Weather) -> Tensor:
    """Return the weather as one tensor [E or 1, N], in the order of the rows in triton_weather."""
    envs, dtype = weather.batch_size[0], weather.wind.dtype
    rows = [env_last(weather.get(name).view(envs, -1)).to(dtype) for name in _WEATHER]
    return env_first(torch.cat(rows))


# Settings ---------------------------------------------------------------------------------------


def _zones(rules: ColregsConfig) -> list[float]:
    """Return the zones of the COLREGs term as a list of numbers, in the order of triton_kernel._required_turn."""
    return [
        rules.min_speed,
        *rules.crossing_x,
        *rules.crossing_y,
        rules.crossing_corner_y,
        rules.crossing_corner_slope,
        *rules.crossing_heading,
        *rules.head_on_x,
        rules.head_on_half_width,
        rules.head_on_heading,
        rules.clearance,
    ]


def _penalties(config: WorldConfig) -> list[float]:
    """Return the settings of the penalties by role as a list of numbers, in the order of triton_reward.role_terms."""
    weights, rules = config.reward, config.colregs
    passing = weights.passing_distance or rules.domain
    return [
        weights.give_way_penalty,
        weights.stand_on_penalty,
        weights.port_turn_penalty,
        weights.slowing_penalty,
        weights.astern_penalty,
        weights.off_course_penalty,
        weights.steerage_speed,
        passing,
        min(weights.passing_margin, passing) / passing,
        rules.horizon,
        rules.stand_on_until,
    ]
