"""The whole world: dynamics, observation, rules of the sea, reward, endings.

A control step is a pure function of tensors: its random numbers follow from a counter and nothing
is read on the host, so that it compiles into one graph and can be captured.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from tensordict import TensorDict
from torch import Tensor

from marinenav_env.config import MOST_DELAY, WorldConfig
from marinenav_env.physics.contact import touching
from marinenav_env.physics.current import current_velocity
from marinenav_env.physics.dynamics import (
    continuous_rates,
    control_step,
    discrete_rates,
    steady_thrust,
    wrap_to_two_pi,
)
from marinenav_env.physics.weather import delayed, weather_force
from marinenav_env.rules.colregs import required_turn
from marinenav_env.rules.endings import endings
from marinenav_env.rules.episode_statistics import statistic_names, updated_statistics
from marinenav_env.rules.reward import (
    RewardInputs,
    goal_distance,
    reward_and_terms,
    reward_function,
)
from marinenav_env.runtime.compiling import compiled
from marinenav_env.runtime.host_reads import host_reads_are_free
from marinenav_env.runtime.layout import environments_innermost, stored
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.restart import (
    chosen,
    restart,
    restart_in_place,
    steered,
    turn,
)
from marinenav_env.sensing.entries import Scene
from marinenav_env.sensing.observation import described, entry_sensors
from marinenav_env.sensing.perception import Noise, draw_noise, observe
from marinenav_env.state import (
    Observation,
    Outcome,
    Parameters,
    ResetState,
    Scenario,
    State,
    Vessel,
)
from marinenav_env.stepping.actions import check_form
from marinenav_env.support.validation import ConfigError, require

_MISSED, _ENTRIES = 1, 2
"""Purposes of random numbers besides perception's 0; each further sensor has the next."""


def initial_state(scenario: Scenario, core_radius: Tensor) -> State:
    """State at the start of an episode.

    Args:
        scenario: batch [E].
        core_radius: [E or 1] (m).
    """
    x, y = scenario.start.unbind(-1)
    current = current_velocity(x, y, scenario.core_position, scenario.core_circulation, core_radius)
    drift = torch.stack((*current, torch.zeros_like(x)), -1)
    heading = wrap_to_two_pi(scenario.heading)
    never = torch.zeros_like(scenario.robot_mask)
    return State(
        pose=torch.cat((scenario.start, heading[..., None]), -1),
        velocity_water=scenario.velocity.clone(),
        velocity_ground=scenario.velocity + drift,
        thrust=scenario.thrust.clone(),
        active=scenario.robot_mask.clone(),
        collided=never,
        arrived=never.clone(),
        steps=torch.zeros_like(scenario.level),
        batch_size=scenario.batch_size,
    )


def _moved(
    state: State, scenario: Scenario, parameters: Parameters, rates: Tensor, config: WorldConfig
) -> State:
    """The state after the motion of a control step, before collisions and arrivals."""
    weather, pending, force = parameters.weather, state.pending, None
    if weather is not None and pending is not None:
        rates, pending = delayed(rates, pending, weather.delay)
        force = weather_force(state, parameters.vessel, weather, config.dt * config.substeps)
        if scenario.scripted is not None:
            kept = ~scenario.scripted
            force = kept * force[0], kept * force[1], kept * force[2]
    new = control_step(
        state, rates, scenario, parameters.vessel, parameters.rules.core_radius, config.dt,
        config.substeps, force,
    )  # fmt: skip
    old = (state.pose, state.velocity_water, state.velocity_ground, state.thrust)
    pose, velocity_water, velocity_ground, thrust = (
        torch.where(state.active[..., None], after, before)
        for after, before in zip(new, old, strict=True)
    )
    return State(
        pose=pose,
        velocity_water=velocity_water,
        velocity_ground=velocity_ground,
        thrust=thrust,
        active=state.active,
        collided=state.collided,
        arrived=state.arrived,
        steps=state.steps + 1,
        pending=pending,
        batch_size=state.batch_size,
    )


class WorldState(NamedTuple):
    """State of a world between two steps; also the entries of a reset pool."""

    now: ResetState
    """Batch [E]: scenario, state and observation."""
    parameters: Parameters
    """Batch [E], or [1] when shared by all environments."""


class StepNoise(NamedTuple):
    """Random numbers of one observation."""

    perception: Noise
    """For the own state and the objects."""
    entries: tuple[Tensor | None, ...]
    """For every further sensor."""
    missed: Tensor | None = None
    """[E, R, M] uniform on [0, 1), of detections; None without weather."""


class Turn(NamedTuple):
    """A control step and the new episodes that follow it."""

    world: WorldState
    """What the next step starts from."""
    observation: TensorDict
    """After the step, before new episodes; batch [E]."""
    steered: Tensor
    """[E, R] bool, likewise: the active robots that actions steer."""
    outcome: Outcome
    """Of the step."""


def knows_kernel(config: WorldConfig) -> bool:
    """Whether the Triton kernel computes all that a configuration asks for.

    It knows perception and the rewards of the package; further observation entries and a reward of
    the user's are left to PyTorch's operators.
    """
    return not config.reward.function and not entry_sensors(config)


class World:
    """The world as pure functions of tensors, for one configuration.

    Args:
        config: what is the same for all environments.
        quantiles: von Mises quantile table of the radius noise.
        continuous: whether actions are continuous or indices of pairs of thrust changes.
        compile_step: whether ``step``, and on a GPU ``reset``, is compiled (fullgraph).
        weather: whether there is any in the parameters.
        statistics: whether statistics of episodes are accumulated.
        kernel: see Execution.

    Raises:
        ConfigError: when a part that the configuration names cannot be used.
    """

    def __init__(
        self,
        config: WorldConfig,
        quantiles: Tensor,
        continuous: bool = True,
        compile_step: bool = False,
        weather: bool = False,
        statistics: bool = False,
        kernel: str = "compiled",
    ) -> None:
        self.config, self.quantiles, self.continuous = config, quantiles, continuous
        self.statistics = statistic_names(config) if statistics else ()
        """Names of the statistics of an episode, if they are accumulated."""
        self.weather = weather
        self.sensors = entry_sensors(config)
        self.entries = described(config, self.sensors)
        self.reward = reward_function(config)
        self._advance: Any = self.advance
        self._restart: Any = restart
        self._turn: Any = None
        own_turn = self._uncompiled_turn
        if kernel == "triton":
            fused = self._triton_world()
            self._advance, self._turn = fused.advance, fused.turn
            own_turn = fused.turn
        if compile_step:
            self._turn = compiled(own_turn, quantiles.device, checks_all=False)
        if compile_step and kernel != "triton":
            self._advance = compiled(self.advance, quantiles.device)
        if compile_step and not host_reads_are_free(quantiles.device):
            self._restart = compiled(restart, quantiles.device)

    def _uncompiled_turn(self, *arguments: Any) -> Any:
        """``turn`` with ``advance`` as it is, not the compiled one: it is compiled as a whole."""
        return turn(self.advance, *arguments)

    def _triton_world(self) -> Any:
        """``advance`` and ``turn`` as one Triton kernel.

        Raises:
            ConfigError: when it cannot run here or does not know what the configuration asks for.
        """
        known = knows_kernel(self.config)
        allowed = "compiled with further observation entries or a reward of your own"
        require(known, "execution.kernel", "triton", allowed)
        try:
            from marinenav_env.kernels.triton_world import TritonWorld
        except ImportError as error:
            raise ConfigError("execution.kernel=triton: triton is not installed") from error
        return TritonWorld(self.config, self.quantiles, self.continuous)

    def step(
        self, world: WorldState, action: Tensor, noise: StepNoise | RandomSource
    ) -> tuple[WorldState, Outcome]:
        """Advance every environment by one control step.

        Args:
            world: before the step; it is not changed.
            action: [E, R, 2] in [-1, 1], or [E, R] index of a pair of thrust changes; those of
                inactive robots have no effect.
            noise: one draw, or what it follows from.

        Returns:
            The world after the step, and the outcome. The observation is that of the robots active
            before the step: a robot that ends in this step still gets its last one, and is still
            seen by the others.

        Raises:
            ConfigError: when actions are of another shape or type; see also actions.unusable.
        """
        now, parameters = world
        check_form(action, now.state.active.shape, self.continuous)
        state, entries, outcome = self._advance(
            now.state, now.scenario, parameters, action, noise, now.statistics
        )
        batch = state.batch_size
        now = ResetState(
            scenario=now.scenario, state=state, observation=TensorDict(entries, batch),
            statistics=outcome.statistics, batch_size=batch,
        )  # fmt: skip
        return WorldState(now, parameters), outcome

    def reset(
        self, world: WorldState, done: Tensor, pool: WorldState, index: Tensor | RandomSource
    ) -> WorldState:
        """Start new episodes in some environments.

        Args:
            world: before; it is not changed.
            done: [E] bool, which environments.
            pool: what episodes start from, batch [P].
            index: [E] int64, the entry of the pool that each environment would start from; or what
                it follows from.
        """
        index = chosen(index, len(pool.now))
        now = self._restart(done, pool.now, index, world.now)
        if pool.parameters.batch_size[0] == 1:
            return WorldState(now, pool.parameters)
        return WorldState(now, restart(done, pool.parameters, index, world.parameters))

    def step_and_reset(
        self,
        world: WorldState,
        action: Tensor,
        noise: StepNoise | RandomSource,
        pool: WorldState,
        index: Tensor | RandomSource,
    ) -> Turn:
        """``step``, and ``reset`` where it ended an episode; compiled as one function.

        Args:
            world: before the step; it is not changed.
            action: see ``step``.
            noise: see ``step``.
            pool: see ``reset``.
            index: see ``reset``.
        """
        check_form(action, world.now.state.active.shape, self.continuous)
        if self._turn is None:
            after, outcome = self.step(world, action, noise)
            following = self.reset(after, outcome.episode_done, pool, index)
            return Turn(following, after.now.observation, steered(after.now), outcome)
        # What all environments share is not looked at twice: compiled code checks each tensor.
        shared = pool.parameters.batch_size[0] == 1
        others = None if shared else pool.parameters
        # One layout, since code is generated for each.
        action = environments_innermost(action)
        now, own, entries, *rest = self._turn(*world, action, noise, pool.now, others, index)
        made = Turn(WorldState(now, world.parameters if shared else own), *rest)
        if entries is not None:
            done = made.outcome.episode_done
            restart_in_place(done, pool.now, entries, now)
            if not shared:
                restart_in_place(done, pool.parameters, entries, own)
        return made

    def step_without_reset(
        self,
        world: WorldState,
        action: Tensor,
        noise: RandomSource,
        pool: WorldState,
        unused: Tensor | RandomSource,
    ) -> tuple[WorldState, Outcome]:
        """Make a ``step`` by the compiled code of ``step_and_reset``, and start no episodes.

        It serves evaluations in a training world: nothing else has to be compiled for them. Only
        where host reads are free, since elsewhere that code also starts episodes.

        Args:
            world: before the step; it is not changed.
            action: see ``step``.
            noise: what the noise of the step follows from.
            pool: of ``step_and_reset``; the code depends on its size.
            unused: entries of the pool in the form of ``step_and_reset``, see ResetPool.unused.
        """
        if self._turn is None:
            return self.step(world, action, noise)
        before, parameters = world
        if self.statistics and before.statistics is None:
            before = before.clone(recurse=False)  # else it would be other code
            before.statistics = self._no_statistics(before.scenario)
        others = None if parameters.batch_size[0] == 1 else pool.parameters
        action = environments_innermost(action)
        now, _, _, _, _, outcome = self._turn(
            before, parameters, action, noise, pool.now, others, unused
        )
        return WorldState(now, parameters), outcome

    def _no_statistics(self, scenario: Scenario) -> Tensor:
        """Statistics [E, S] at the start of episodes."""
        size = *scenario.batch_size, len(self.statistics)
        return environments_innermost(scenario.goal.new_zeros(size))

    def begin(self, pool: WorldState, index: Tensor | RandomSource) -> WorldState:
        """Start new episodes in all environments; see ``reset``."""
        index = chosen(index, len(pool.now))
        now = pool.now[index].apply(environments_innermost)
        shared = pool.parameters.batch_size[0] == 1
        return WorldState(now, pool.parameters if shared else pool.parameters[index])

    def check(self, world: WorldState, action: Tensor) -> None:
        """Make a step, not compiled, to check users' parts.

        Args:
            world: any.
            action: see ``step``.

        Raises:
            ConfigError: when an entry or the reward is of another shape or type than it should be.
        """
        now, parameters = world
        dtype, robots = now.state.pose.dtype, now.state.active.shape
        source = RandomSource.seeded(0, len(now), now.state.pose.device)
        _, found, outcome = self.advance(now.state, now.scenario, parameters, action, source)
        expected = {
            f"robots/observation/{name}": (found[name], (*robots, *entry.shape), entry.dtype(dtype))
            for name, entry in self.entries.items()
        } | {"robots/reward": (outcome.reward, (*robots,), dtype)}
        for key, (tensor, shape, kind) in expected.items():
            fine = tensor.shape == shape and tensor.dtype == kind
            require(fine, key, f"{list(tensor.shape)} {tensor.dtype}", f"{list(shape)} {kind}")

    def draw_noise(self, source: RandomSource, scenario: Scenario, dtype: torch.dtype) -> StepNoise:
        """Draw the noise of one observation of every robot.

        Args:
            source: of the random numbers; each kind of noise is a purpose.
            scenario: batch [E], for its shapes.
            dtype: floating-point type.
        """
        environments, robots = scenario.robot_mask.shape
        objects = robots + scenario.obstacle_mask.shape[-1]
        perception = draw_noise(source, robots, objects, dtype)
        missed = None
        if self.weather:
            missed = source.of(_MISSED).uniform((environments, robots, objects), dtype)
        shape = environments, robots
        entries = (
            sensor.noise((*shape, *sensor.shape(self.config)), source.of(purpose), dtype)
            for purpose, sensor in enumerate(self.sensors, _ENTRIES)
        )
        return StepNoise(perception, tuple(entries), missed)

    def observe(
        self, state: State, scenario: Scenario, parameters: Parameters, noise: StepNoise
    ) -> tuple[dict[str, Tensor], Observation]:
        """Measure every entry of the observation.

        Args:
            state: batch [E]; its active robots observe and are observed.
            scenario: batch [E].
            parameters: batch [E or 1].
            noise: one draw.

        Returns:
            The entries by name, and what perception measured.
        """
        missed = None
        if parameters.weather is not None and noise.missed is not None:
            missed = noise.missed < parameters.weather.missed[:, None, None]
        seen = observe(
            state, scenario, parameters.vessel, parameters.sensor, self.quantiles,
            noise.perception, self.config.sensor.slots, missed,
        )  # fmt: skip
        entries = {name: seen.get(name) for name in Observation.__annotations__}
        scene = Scene(state, scenario, parameters, self.config)
        for sensor, drawn in zip(self.sensors, noise.entries, strict=True):
            value = sensor.observe(scene, drawn)
            active = state.active.view(*state.active.shape, *[1] * (value.ndim - 2))
            entries[sensor.name] = value.masked_fill(~active, 0)
        return entries, seen

    def first(self, scenario: Scenario, parameters: Parameters, source: RandomSource) -> ResetState:
        """State and observation at the start of episodes.

        Args:
            scenario: batch [P].
            parameters: batch [P or 1].
            source: of the observation's noise, P environments.
        """
        if scenario.scripted is not None:
            scenario = scenario.clone(recurse=False)
            scenario.thrust = steady_thrust(scenario.velocity, parameters.vessel)
        state = initial_state(scenario, parameters.rules.core_radius)
        if parameters.weather is not None:
            robots = scenario.robot_mask.shape
            state.pending = scenario.goal.new_zeros(*robots, MOST_DELAY, 2)
        noise = self.draw_noise(source, scenario, scenario.goal.dtype)
        entries, _ = self.observe(state, scenario, parameters, noise)
        observation = TensorDict(entries, scenario.batch_size)
        batch = scenario.batch_size
        statistics = self._no_statistics(scenario) if self.statistics else None
        return ResetState(
            scenario=scenario, state=state, observation=observation, statistics=statistics,
            batch_size=batch,
        )  # fmt: skip

    def advance(
        self, state: State, scenario: Scenario, parameters: Parameters, action: Tensor,
        noise: StepNoise | RandomSource, statistics: Tensor | None = None,
    ) -> tuple[State, dict[str, Tensor], Outcome]:  # fmt: skip
        """``step`` as one function of tensors, which is compiled.

        Args:
            state: batch [E].
            scenario: batch [E].
            parameters: batch [E or 1].
            action: see ``step``.
            noise: see ``step``.
            statistics: [E, S] of the episodes before the step; None: not asked for.

        Returns:
            The next state, the entries of the observation by name, and the outcome.
        """
        config, vessel = self.config, parameters.vessel
        if isinstance(noise, RandomSource):
            noise = self.draw_noise(noise, scenario, scenario.goal.dtype)
        rates, present, steered = self._rates(action, vessel), scenario.robot_mask, state.active
        if scenario.scripted is not None:
            present = present & ~scenario.scripted
            steered = steered & present
            rates = torch.where(present[..., None], rates, 0.0)
        before = goal_distance(state, scenario)
        moved = _moved(state, scenario, parameters, rates, config)
        entries, seen = self.observe(moved, scenario, parameters, noise)
        colregs, phi = required_turn(seen, vessel.radius, config.colregs)
        after = goal_distance(moved, scenario)
        collided = touching(moved, scenario, vessel) & steered
        arrived = (after <= vessel.goal_distance) & state.active & ~collided
        reward, terms = reward_and_terms(self.reward, RewardInputs(
            before - after, phi, collided, arrived, state.active, state, moved, scenario,
            parameters, entries, config,
        ))  # fmt: skip
        energy = (
            vessel.power_coefficient * moved.thrust.abs().sum(-1) * (config.dt * config.substeps)
        )

        moved.collided = state.collided | collided
        moved.arrived = state.arrived | arrived
        moved.active = state.active & ~collided & ~arrived
        ended = endings(
            moved.collided, moved.arrived, present, moved.steps, config.max_steps,
            config.ends_at_first_collision,
        )  # fmt: skip
        reward = torch.where(steered, reward, 0.0)
        if statistics is not None:
            statistics = updated_statistics(statistics, reward, terms, steered, present, moved)
        outcome = Outcome(
            reward=reward,
            collided=collided,
            arrived=arrived,
            colregs=colregs & state.active,
            phi=phi,
            energy=torch.where(state.active, energy, 0.0),
            terminated=ended.terminated,
            truncated=ended.truncated,
            episode_terminated=ended.episode_terminated,
            episode_done=ended.episode_done,
            statistics=statistics,
            batch_size=state.batch_size,
        ).apply(stored)
        return moved.apply(stored), {name: stored(each) for name, each in entries.items()}, outcome

    def _rates(self, action: Tensor, vessel: Vessel) -> Tensor:
        """Commanded thrust rates [E, R, 2] of actions (N/s)."""
        if self.continuous:
            return continuous_rates(action.to(vessel.max_thrust_rate.dtype), vessel)
        return discrete_rates(action.to(torch.int64), vessel)
