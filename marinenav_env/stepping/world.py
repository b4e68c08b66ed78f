"""World: dynamics, observation, COLREGs, reward and termination in one control step.

A control step is a pure function of tensors without host reads, and its random numbers come from a counter-based
source, so it compiles into one graph and can be captured in a CUDA graph.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from tensordict import TensorDict
from torch import Tensor

from marinenav_env.config import MAX_DELAY, WorldConfig
from marinenav_env.physics.actuators import move_vessels, propulsive_thrust, steady_actuator_state, steady_setpoint
from marinenav_env.physics.contact import in_contact, in_contact_with_land
from marinenav_env.physics.current import current_share, current_velocity
from marinenav_env.physics.dynamics import thrust_rates_of_commands, thrust_rates_of_indices, wrap_to_two_pi
from marinenav_env.physics.routes import goal_distance, is_at_goal, pass_waypoints
from marinenav_env.physics.shores import Segments, crossing, hiding_shores, nearest_shores
from marinenav_env.physics.tracks import follow_tracks, passes_goal
from marinenav_env.physics.weather import delay_commands, weather_force
from marinenav_env.rules.colregs import required_turn
from marinenav_env.rules.encounters import Sight, initial_encounters, update_encounters
from marinenav_env.rules.endings import compute_endings
from marinenav_env.rules.episode_statistics import statistic_names, update_statistics
from marinenav_env.rules.reward import RewardInputs, custom_reward_function, reward_and_terms
from marinenav_env.runtime.compiling import compile_function
from marinenav_env.runtime.layout import env_first, env_last, environments_innermost, to_fast_storage
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.parameters import with_default_weights
from marinenav_env.scenarios.reset import NewEpisodes, controlled_robots, reset_environments
from marinenav_env.sensing.duties import DUTIES, DutyScales, duty_columns
from marinenav_env.sensing.entries import Scene
from marinenav_env.sensing.observation import describe_entries, make_entry_sensors
from marinenav_env.sensing.perception import OBJECTS_ID, PerceptionNoise, draw_perception_noise, object_numbers, observe
from marinenav_env.sensing.shores import observe_shores
from marinenav_env.state import Observation, Outcome, Parameters, ResetState, Scenario, State, Vessel, WorldState
from marinenav_env.stepping.actions import check_shape_and_dtype
from marinenav_env.stepping.behaviours import TRACK, behaviour_rates
from marinenav_env.support.validation import require

_MISSED_PURPOSE, _FIRST_SENSOR_PURPOSE = 1, 2
"""RandomSource.purpose of missed detections and of the first additional sensor, from which the other sensors count up;
perception has the purpose 0."""


def initial_state(scenario: Scenario, core_radius: Tensor) -> State:
    """Return the state of the robots at the start of episodes, batch [E]."""
    x, y = scenario.start.unbind(-1)
    share = current_share(scenario.start, scenario.shores, scenario.core_position, core_radius)
    current = current_velocity(x, y, scenario.core_position, scenario.core_circulation, core_radius, share)
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
        # tensordict adds fields that are not given in another order in each process; kept code has a guard on it.
        pending=None,
        actuator=None,
        encounters=None,
        waypoint=None if scenario.route is None else never.to(torch.int64),
        grounded=None if scenario.shores is None else never.clone(),
        batch_size=scenario.batch_size,
    )


def _move_robots(state: State, scenario: Scenario, parameters: Parameters, rates: Tensor, config: WorldConfig) -> State:
    """Return the state after the motion of a control step, with flags of collision and arrival not yet updated."""
    weather, pending, force = parameters.weather, state.pending, None
    if weather is not None and pending is not None:
        rates, pending = delay_commands(rates, pending, weather.delay)
        force = weather_force(state, parameters.vessel, weather, config.control_step)
        if scenario.scripted is not None:
            kept = ~scenario.scripted
            force = kept * force[0], kept * force[1], kept * force[2]
    if scenario.scripted is not None and scenario.behaviour is not None:
        # Behaviours are not delayed, because they follow from the state.
        scale, seconds = config.scenario, config.control_step
        behaving = behaviour_rates(state, scenario, parameters, seconds, scale.time_scale, scale.speed_scale)
        rates = torch.where(scenario.scripted[..., None], behaving, rates)
    moved = move_vessels(state, rates, scenario, parameters, config.dt, config.substeps, force)
    for name in ("pose", "velocity_water", "velocity_ground", "thrust"):
        setattr(moved, name, torch.where(state.active[..., None], getattr(moved, name), getattr(state, name)))
    moved.steps, moved.pending = state.steps + 1, pending
    follows = _track_followers(scenario)
    if scenario.track is None or follows is None:
        return moved
    return follow_tracks(moved, scenario.track, follows, config.control_step)


def _track_followers(scenario: Scenario) -> Tensor | None:
    """Return which robots [E, R] follow tracks; None if none does."""
    if scenario.track is None or scenario.behaviour is None or scenario.scripted is None:
        return None
    return scenario.scripted & (scenario.behaviour == TRACK)


def _goals_reached(moved: State, scenario: Scenario, within: Tensor, seconds: float) -> Tensor:
    """Return which robots [E, R] are at most ``within`` (m) from their goal after a step, or passed it on a track."""
    # The last waypoints of a route need not be passed one by one.
    at_goal, follows = is_at_goal(moved, scenario, within), _track_followers(scenario)
    return at_goal if follows is None else at_goal | (follows & passes_goal(moved, scenario, within, seconds))


def _contacts(
    before: State, moved: State, scenario: Scenario, near: Segments | None, vessel: Vessel, controlled: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Return which controlled robots collided in a step, with land too, and which with land (None without shores)."""
    collided = in_contact(moved, scenario, vessel) & controlled
    if near is None:
        return collided, None
    grounded = in_contact_with_land(before, moved, near, vessel) & controlled
    return collided | grounded, grounded


def _hidden_objects(state: State, scenario: Scenario, near: Segments) -> Tensor:
    """Return infinity for the objects that land hides from robots, else 0, [E, R, M]."""
    (x, y, _), (obstacle_x, obstacle_y) = env_last(state.pose), env_last(scenario.obstacle_position)
    to_x, to_y = torch.cat((x, obstacle_x))[:, None] - x, torch.cat((y, obstacle_y))[:, None] - y
    return env_first(torch.where(crossing(near, to_x, to_y) < 0.0, torch.inf, 0.0))


class StepNoise(NamedTuple):
    """Random numbers of one observation of every robot, for perception and the additional sensors (EntrySensor)."""

    perception: PerceptionNoise
    entries: tuple[Tensor | None, ...]
    """Noise of every additional sensor, as its method ``noise`` returns it; None for a sensor without noise."""
    missed: Tensor | None = None
    """[E, R, M] numbers uniform on [0, 1), for missed detections; None without weather."""


class StepResult(NamedTuple):
    """Result of a control step of all environments."""

    world: WorldState
    """State that the next step starts from, after resets to new episodes."""
    observation: TensorDict
    """Observation after the step, before resets to new episodes; batch [E]."""
    controlled: Tensor
    """[E, R] bool, robots that are active after the step and controlled by actions, before resets to new episodes."""
    outcome: Outcome
    """Collisions, arrivals, rewards and endings of the step, batch [E]."""


class World:
    """Simulator of the world with one configuration, as pure functions of tensors.

    Args:
        config: configuration shared by all environments.
        quantiles: von Mises quantile table of the radius noise, [rows, points].
        continuous: True for continuous actions, False for indices of pairs of thrust changes.
        compile_step: whether ``advance``, the computation of ``step``, is compiled (fullgraph).
        statistics: whether statistics of episodes are accumulated.
    """

    def __init__(
        self,
        config: WorldConfig,
        quantiles: Tensor,
        continuous: bool = True,
        compile_step: bool = False,
        statistics: bool = False,
    ) -> None:
        self.config, self.quantiles, self.continuous = config, quantiles, continuous
        self.statistics = statistic_names(config) if statistics else ()
        """Names of the accumulated statistics of an episode; empty if none are accumulated."""
        self.sensors = make_entry_sensors(config)
        self.entries = describe_entries(config, self.sensors)
        self.custom_reward = custom_reward_function(config)
        self._duty_scales = DutyScales.from_config(config)
        self._advance: Any = self.advance
        if compile_step:
            kept_for = repr((type(self), with_default_weights(config), continuous, self.statistics))
            self._advance = compile_function(self._advance, quantiles.device, False, kept_for=kept_for)

    def step(
        self, world: WorldState, action: Tensor, noise: StepNoise | RandomSource, episodes: NewEpisodes | None = None
    ) -> StepResult:
        """Advance every environment by one control step, and start new episodes where one has ended.

        Args:
            world: state before the step; it is not changed.
            action: [E, R, 2] in [-1, 1], or [E, R] indices of pairs of thrust changes; actions of
                inactive robots have no effect.
            noise: random numbers of the observation, or their random source.
            episodes: reset states for environments whose episode has ended; None: no resets.

        Returns:
            Result of the step. The robots that were active before the step observe and are observed,
            including those that end in this step.

        Raises:
            ConfigError: when actions have another shape or type; values are not checked.
        """
        now, parameters = world
        check_shape_and_dtype(action, now.state.active.shape, self.continuous)
        if self.statistics and now.statistics is None:
            now = now.clone(recurse=False)
            now.statistics = self._zero_statistics(now.scenario)
        # Actions always have the same memory layout, because every layout needs its own compiled code.
        action = environments_innermost(action)
        if episodes is None:
            after, _, *rest = self._advance(now, parameters, action, noise)
            return StepResult(WorldState(after, parameters), *rest)
        # Shared parameters are passed only once, because compiled code checks every tensor argument.
        (pool, starts), entry, allowed = episodes
        others = None if starts.batch_size[0] == 1 else starts
        after, changed, *rest = self._advance(now, parameters, action, noise, pool, others, entry, allowed)
        return StepResult(WorldState(after, parameters if changed is None else changed), *rest)

    def advance(
        self,
        now: ResetState,
        parameters: Parameters,
        action: Tensor,
        noise: Any,
        pool: ResetState | None = None,
        others: Parameters | None = None,
        entry: Any = None,
        allowed: Tensor | None = None,
    ) -> tuple[ResetState, Parameters | None, TensorDict, Tensor, Outcome]:
        """Compute the tensors of ``step``; this is the function that is compiled.

        ``pool`` [P] and ``others`` [P] are initial states of new episodes and their parameters, None if there are none
        or all environments share ``parameters``; ``entry`` and ``allowed`` are those of NewEpisodes.

            Returns: The state that the next step starts from, its parameters (None if ``others`` is None or there is
            no ``pool``), and the remaining fields of StepResult.
        """
        state, scenario = now.state, now.scenario
        if isinstance(noise, RandomSource):
            noise = self.draw_noise(noise, scenario, parameters)
        rates = self._thrust_rates(action, parameters.vessel)
        if scenario.scripted is not None or state.pending is not None or state.actuator is not None:
            # Elsewhere rates of robots that do not act have no effect, and compiled code is faster without this.
            rates = torch.where(controlled_robots(now)[..., None], rates, 0.0)
        moved = _move_robots(state, scenario, parameters, rates, self.config)
        radius = parameters.vessel.goal_distance.clamp_min(self.config.scenario.waypoint_radius)
        moved.waypoint = pass_waypoints(moved, scenario, radius)
        if state.encounters is not None:
            moved.encounters = self._follow_encounters(state.encounters, moved, scenario, parameters)
        near = None if scenario.shores is None else nearest_shores(moved.pose, scenario.shores)
        entries, seen = self.observe(moved, scenario, parameters, noise, near)
        outcome = self._find_outcome(now, parameters, moved, entries, seen, near)
        batch = state.batch_size
        observation = TensorDict({name: to_fast_storage(value) for name, value in entries.items()}, batch)
        after = ResetState(
            scenario=scenario,
            state=moved.apply(to_fast_storage),
            observation=observation,
            statistics=outcome.statistics,
            batch_size=batch,
        )
        acting = controlled_robots(after)
        if pool is None:
            return after, None, observation, acting, outcome
        starts = WorldState(pool, parameters if others is None else others)
        finished = [*observation.values(True, True), acting, *outcome.values(True, True)]
        following = reset_environments(
            outcome.episode_done, NewEpisodes(starts, entry, allowed), WorldState(after, parameters), finished
        )
        next_parameters = None if others is None else following.parameters
        return following.now, next_parameters, observation, acting, outcome

    def _find_outcome(
        self,
        before: ResetState,
        parameters: Parameters,
        moved: State,
        entries: dict[str, Tensor],
        seen: Observation,
        near: Segments | None,
    ) -> Outcome:
        """Return collisions, arrivals, rewards and endings of a step, and set the flags of ``moved``."""
        config, vessel = self.config, parameters.vessel
        state, scenario = before.state, before.scenario
        present, active, controlled = scenario.robot_mask, state.active, controlled_robots(before)
        if scenario.scripted is not None:
            present = present & ~scenario.scripted
        colregs, phi = required_turn(seen, vessel.radius, config.colregs)
        collided, grounded = _contacts(state, moved, scenario, near, vessel, controlled)
        arrived = _goals_reached(moved, scenario, vessel.goal_distance, config.control_step) & active & ~collided
        step = RewardInputs(
            progress=goal_distance(state, scenario) - goal_distance(moved, scenario),
            phi=phi,
            collided=collided,
            arrived=arrived,
            active=active,
            before=state,
            after=moved,
            scenario=scenario,
            parameters=parameters,
            observation=entries,
            config=config,
        )
        reward, terms = reward_and_terms(self.custom_reward, step)
        spent = propulsive_thrust(moved.thrust, parameters.extras).abs().sum(-1)
        energy = vessel.power_coefficient * spent * config.control_step
        moved.collided = state.collided | collided
        moved.arrived = state.arrived | arrived
        moved.active = active & ~collided & ~arrived
        if grounded is not None and state.grounded is not None:
            moved.grounded = state.grounded | grounded
        ended = compute_endings(
            moved.collided, moved.arrived, present, moved.steps, config.max_steps, config.ends_at_first_collision
        )
        reward, statistics = torch.where(controlled, reward, 0.0), before.statistics
        if statistics is not None:
            statistics = update_statistics(statistics, reward, terms, controlled, present, moved)
        outcome = Outcome(
            reward=reward,
            collided=collided,
            arrived=arrived,
            colregs=colregs & active,
            phi=phi,
            energy=torch.where(active, energy, 0.0),
            grounded=grounded,
            statistics=statistics,
            batch_size=state.batch_size,
            **ended,
        )
        return outcome.apply(to_fast_storage)

    def _follow_encounters(self, before: Tensor, state: State, scenario: Scenario, parameters: Parameters) -> Tensor:
        """Return the encounters after a step, from those before it and the state after its motion."""
        rules, step = self.config.colregs, self.config.control_step
        sight = Sight.from_parameters(parameters, hiding_shores(self.config, scenario))
        return update_encounters(before, state.pose, state.velocity_ground, state.active, sight, rules, step)

    def _zero_statistics(self, scenario: Scenario) -> Tensor:
        """Return the statistics at the start of episodes, zeros [E, S]."""
        size = *scenario.batch_size, len(self.statistics)
        return environments_innermost(scenario.goal.new_zeros(size))

    def check_user_parts(self, world: WorldState, action: Tensor) -> None:
        """Make one step without compilation, to check the results of user-defined sensors and rewards."""
        now, parameters = world
        dtype, robots = now.state.pose.dtype, now.state.active.shape
        source = RandomSource.from_seed(0, len(now), now.state.pose.device)
        _, _, observation, _, outcome = self.advance(now, parameters, action, source)
        expected = {
            f"robots/observation/{name}": (observation[name], (*robots, *entry.shape), entry.dtype(dtype))
            for name, entry in self.entries.items()
        } | {"robots/reward": (outcome.reward, (*robots,), dtype)}
        for key, (tensor, shape, kind) in expected.items():
            is_expected = tensor.shape == shape and tensor.dtype == kind
            require(is_expected, key, f"{list(tensor.shape)} {tensor.dtype}", f"{list(shape)} {kind}")

    def draw_noise(self, source: RandomSource, scenario: Scenario, parameters: Parameters) -> StepNoise:
        """Draw the noise of one observation of every robot; each type of noise has a separate purpose."""
        (environments, robots), dtype = scenario.robot_mask.shape, scenario.goal.dtype
        objects = robots + scenario.obstacle_mask.shape[-1]
        perception = draw_perception_noise(source, robots, objects, dtype)
        missed = None
        if parameters.weather is not None:
            missed = source.with_purpose(_MISSED_PURPOSE).uniform((environments, robots, objects), dtype)
        shape = environments, robots
        entries = (
            sensor.noise((*shape, *sensor.shape(self.config)), source.with_purpose(purpose), dtype)
            for purpose, sensor in enumerate(self.sensors, _FIRST_SENSOR_PURPOSE)
        )
        return StepNoise(perception, tuple(entries), missed)

    def observe(
        self, state: State, scenario: Scenario, parameters: Parameters, noise: StepNoise, near: Segments | None = None
    ) -> tuple[dict[str, Tensor], Observation]:
        """Return every entry of the observation by name, [E, R, ...], and those of perception among them.

        ``near`` are the nearest segments of shore, if there are any.
        """
        missed = None
        if parameters.weather is not None and noise.missed is not None:
            missed = noise.missed < parameters.weather.missed[:, None, None]
        hides = not self.config.sensor.sees_through_land
        columns: dict[str, tuple[Tensor, ...]] = {}
        if self.config.sensor.duties:
            columns[DUTIES] = duty_columns(state, scenario, self.config, self._duty_scales)
        if self.config.sensor.objects_id:
            columns[OBJECTS_ID] = (object_numbers(state, scenario),)
        seen = observe(
            state,
            scenario,
            parameters.vessel,
            parameters.sensor,
            self.quantiles,
            noise.perception,
            self.config.sensor.slots,
            missed,
            [column for group in columns.values() for column in group],
            _hidden_objects(state, scenario, near) if near is not None and hides else None,
        )
        further: dict[str, Tensor] = {}
        if columns:
            widths = [len(group) for group in columns.values()]
            seen.objects_state, *rows = seen.objects_state.split(
                (seen.objects_state.shape[-1] - sum(widths), *widths), -1
            )
            further = dict(zip(columns, rows, strict=True))
        if OBJECTS_ID in further:
            further[OBJECTS_ID] = further[OBJECTS_ID].squeeze(-1)
        entries = {name: seen.get(name) for name in Observation.__annotations__} | further
        if near is not None:
            entries |= observe_shores(state, parameters.sensor, near)
        scene = Scene(state, scenario, parameters, self.config)
        for sensor, drawn in zip(self.sensors, noise.entries, strict=True):
            value = sensor.observe(scene, drawn)
            active = state.active.view(*state.active.shape, *[1] * (value.ndim - 2))
            entries[sensor.name] = value.masked_fill(~active, 0)
        return entries, seen

    def observe_again(self, now: ResetState, parameters: Parameters, source: RandomSource) -> ResetState:
        """Return a state whose robots were moved from outside, with what they observe from where they are now."""
        state, scenario = now.state, now.scenario
        near = None if scenario.shores is None else nearest_shores(state.pose, scenario.shores)
        entries, _ = self.observe(state, scenario, parameters, self.draw_noise(source, scenario, parameters), near)
        after = now.clone(recurse=False)
        after.observation = TensorDict(entries, now.batch_size)
        return after

    def initial_reset_state(
        self, scenario: Scenario, parameters: Parameters, source: RandomSource, are_episodes: bool
    ) -> ResetState:
        """Return the initial scenario, state and observation of a batch of episodes [P].

        Scripted robots get the thrust that keeps their speed, and so do others without a thrust in the scenario, unless
        these ``are_episodes`` in which no robot is scripted.
        """
        scripted, room = scenario.scripted, self.config.scenario.shore_segments
        fits = (scenario.shores is None or scenario.shores.shape[1] == room) and (scenario.route is None) == (room == 0)
        require(fits, "world.scenario.shore_segments", room, "the number of segments of shore of the scenarios")
        if scripted is not None:
            scenario = scenario.clone(recurse=False)
            stated = scenario.thrust.any(-1, keepdim=True) & ~scripted[..., None]
            if are_episodes:
                stated = stated | ~scripted.any(-1)[:, None, None]
            steady = steady_setpoint(scenario.velocity, parameters.vessel, parameters.extras)
            scenario.thrust = torch.where(stated, scenario.thrust, steady)
        state = initial_state(scenario, parameters.rules.core_radius)
        if parameters.weather is not None:
            robots = scenario.robot_mask.shape
            state.pending = scenario.goal.new_zeros(*robots, MAX_DELAY, 2)
        if parameters.extras is not None:
            state.actuator = steady_actuator_state(scenario.thrust, scenario, parameters.vessel, parameters.extras)
        if self.config.follows_encounters:
            none = initial_encounters(scenario)
            state.encounters = self._follow_encounters(none, state, scenario, parameters)
        batch = scenario.batch_size
        unseen = ResetState(
            scenario=scenario,
            state=state,
            observation=TensorDict({}, batch),
            statistics=self._zero_statistics(scenario) if self.statistics else None,
            batch_size=batch,
        )
        return self.observe_again(unseen, parameters, source)

    def _thrust_rates(self, action: Tensor, vessel: Vessel) -> Tensor:
        """Convert actions, continuous [E, R, 2] or discrete [E, R], to left and right thrust rates [E, R, 2] (N/s)."""
        if self.continuous:
            return thrust_rates_of_commands(action.to(vessel.max_thrust_rate.dtype), vessel)
        return thrust_rates_of_indices(action.to(torch.int64), vessel)
