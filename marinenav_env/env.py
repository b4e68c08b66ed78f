"""TorchRL environment of the world: E environments with R robots in one batch, on one device."""

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.envs import EnvBase

from marinenav_env.config import WorldConfig
from marinenav_env.pictures.rendering import DEFAULT_FPS, Renderer, make_renderer
from marinenav_env.runtime.execution import EAGER_EXECUTION
from marinenav_env.runtime.loop import copy_tensors
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.reset import controlled_robots, reset_environments
from marinenav_env.sensing.entries import Entry
from marinenav_env.sensing.observation import flatten_observation
from marinenav_env.specs import GROUP, make_specs
from marinenav_env.state import MOTION_FIELDS, Outcome, Parameters, Scenario, State, WorldState
from marinenav_env.stepping.actions import ActionChecks
from marinenav_env.stepping.episode_source import EpisodeSource, Scenarios, as_scenarios, convert_user_errors
from marinenav_env.stepping.reset_pool import Curriculum, ResetPool
from marinenav_env.stepping.tensordicts import add_missing_entries, make_tensordict
from marinenav_env.stepping.world import World
from marinenav_env.support.seeds import as_seed
from marinenav_env.support.validation import ConfigError, is_nonnegative_int, require


def _check_arguments(
    num_envs: Any, total_envs: Any, noise: RandomSource | None, dtype: Any, flags: dict[str, Any]
) -> None:
    """Raise ConfigError for arguments of MarineNavEnv that cannot be used."""
    is_positive = isinstance(num_envs, Integral) and not isinstance(num_envs, bool) and int(num_envs) >= 1
    require(is_positive, "num_envs", num_envs, "a whole number, at least 1")
    is_large_enough = total_envs is None or (is_nonnegative_int(total_envs) and total_envs >= num_envs)
    require(is_large_enough, "total_envs", total_envs, f"a whole number of at least num_envs, {num_envs}")
    for name, flag in flags.items():
        require(isinstance(flag, bool), name, flag, "True or False")
    count = num_envs if noise is None else len(noise.environment)
    require(count == num_envs, "noise", f"numbers of {count} environments", f"those of num_envs, {num_envs}")
    require(dtype in (torch.float32, torch.float64), "dtype", dtype, "torch.float32 or torch.float64")


class MarineNavEnv(EnvBase):
    """TorchRL environment of fleets of autonomous surface vessels; batch [E], agents in the group ``robots``.

    Keys, with K object slots::

        robots/observation/self_state     [E, R, 7]     see state.Observation
        robots/observation/objects_state  [E, R, K, 5]
        robots/observation/objects_mask   [E, R, K]     bool
        robots/observation/duties         [E, R, K, 12] and objects_id [E, R, K], only with these settings of ``sensor``
        robots/observation/shore          [E, R, 8, 7]  and shore_mask [E, R, 8], only with shores
        robots/observation/NAME           [E, R, ...]   other entries, see ``entries``
        robots/observation                [E, R, D]     all entries as one vector, if ``flat``
        robots/mask                       [E, R]        bool, active and controlled by actions
        robots/action                     [E, R, 2] in [-1, 1], or [E, R] index of a thrust pair
        robots/reward                     [E, R, 1]
        robots/done, terminated, truncated [E, R, 1]    bool, stay true until the episode is over
        done, terminated, truncated       [E, 1]        bool, of the whole episode
        episode_statistics                [E, S]        if requested, see ``statistics``

    A robot that has ended (arrived or collided) is masked: its observation and reward are zero and
    its action has no effect. A robot that the scenario lacks is masked, too; as in environments
    of TorchRL it is done (here terminated, never truncated) from the reset on. Only the mask says
    which robots are active. Robots that no action controls (``Scenario.scripted``) are masked and done
    with a reward of zero, but present: they observe, are observed and can be hit.
    ``maybe_reset`` resets environments whose episode is over, without reading device values on the host.

    Actions of a wrong shape or type raise a ConfigError, and so do actions of active robots that are not
    finite or not a valid index: before the step, or on a GPU some time after it (see check_actions).

    The same seed gives the same rollout, and the global generators are neither used nor advanced.
    Scenarios and noise are functions of the seed, the index of the environment or of the reset-pool
    entry, and the step; only a user-defined sampler draws from the generator of the environment.

    Args:
        config: configuration of the world; by default the published one. Episodes of a file or a
            list override its vessels, sensors, rewards and time step, and its weather unless theirs is the default.
        num_envs: number of environments E; by default the number of given scenarios, or 1 if they are drawn.
        scenarios: scenarios of the episodes. A Curriculum (None: the default one) or a user-defined sampler
            draws them during the run; those of a file, a list of episodes or tensors are used in order, from the
            first on after each reset of all environments.
        continuous: whether actions are continuous; otherwise they are indices of thrust-change pairs.
        flat: whether observations are one vector per robot, as many libraries expect.
        device: any torch device.
        dtype: torch.float32 or torch.float64.
        episode_statistics: whether steps contain return, length, success, collision and the terms of
            the reward of the episode so far, see ``statistics``.
        seed: seed of the random numbers, see ``as_seed``; None draws one, also in ``set_seed``, so
            that parallel workers whose environments come from one factory differ.
        noise: random source of noise and scenarios, for an environment that is part of a larger
            batch; by default it is derived from the seed. ``set_seed`` does not change a given source.
        total_envs: number of environments of the larger batch, if they take turns at the scenarios of a file, a
            list or tensors; None: these environments use all of them.
        compile_step: whether to compile the step, including the start of episodes, into one graph
            (fullgraph); the first step then takes a while.
        capture_step: whether to capture ``step_and_maybe_reset``, which collectors call, as a CUDA
            graph; without effect on a CPU. The next step then overwrites the tensors of
            ``world_state`` and ``outcome``; to change the state, assign a whole ``world_state``.
        check_actions: whether to check the values of actions.

    Raises:
        ConfigError: for a setting that cannot be used.
    """

    batch_locked = True
    _outcome: Outcome | None

    def __init__(
        self,
        config: WorldConfig | None = None,
        num_envs: int | None = None,
        *,
        scenarios: Scenarios = None,
        continuous: bool = True,
        flat: bool = False,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        episode_statistics: bool = False,
        seed: int | None = None,
        noise: RandomSource | None = None,
        total_envs: int | None = None,
        compile_step: bool = False,
        capture_step: bool = False,
        check_actions: bool = True,
    ) -> None:
        require(config is None or isinstance(config, WorldConfig), "config", config, "a WorldConfig")
        source = as_scenarios(scenarios, config)
        count = 1 if isinstance(source, Curriculum) else len(source)
        num_envs = count if num_envs is None else num_envs
        flags = {"continuous": continuous, "flat": flat, "episode_statistics": episode_statistics}
        flags |= {"compile_step": compile_step, "capture_step": capture_step, "check_actions": check_actions}
        _check_arguments(num_envs, total_envs, noise, dtype, flags)
        try:
            device = torch.device(device)
        except (RuntimeError, TypeError) as error:
            raise ConfigError(f"device={device!r}: must be cpu, cuda or cuda:N") from error
        super().__init__(device=device, batch_size=torch.Size([num_envs]))
        self.num_envs, self.dtype, self.continuous, self.flat = num_envs, dtype, continuous, flat
        self._capture_step = capture_step
        self._renderer: Renderer | None = None
        config, options = config or WorldConfig(), {"continuous": continuous, "compile_step": compile_step}
        options["statistics"] = episode_statistics
        with convert_user_errors(config, source) as named:
            self.episodes = EpisodeSource(config, source, num_envs, self.device, dtype, noise, total_envs, **options)
            """Source of scenarios, parameters and random numbers."""
            pairs = None if continuous else self.num_discrete_actions
            self._actions = ActionChecks(pairs, self.episodes.generator.device, check_actions)
            self._set_seed(seed)
            if named:
                idle = torch.zeros_like(self.state.velocity_water[..., :2])
                self.world.check_user_parts(self.world_state, idle if continuous else idle[..., 0].to(torch.int64))
        shape = num_envs, self.num_robots
        specs = make_specs(shape, self.entries, flat, pairs, self.device, dtype, len(self.statistics))
        self.observation_spec, self.action_spec = specs.observation, specs.action
        self.reward_spec, self.done_spec = specs.reward, specs.done

    # Set-up -------------------------------------------------------------------------------------

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed the environment with any seed that ``as_seed`` accepts; return the next seed, like EnvBase.set_seed."""
        self.check_actions()
        next_seed: int | None = super().set_seed(None if seed is None else as_seed(seed), static_seed)
        return next_seed

    def _set_seed(self, seed: int | None) -> None:
        """Seed the random numbers and rebuild the reset pool."""
        self.episodes.reseed(as_seed(seed))
        self.env_steps = 0
        self._has_begun, self._was_restored, self._outcome = False, False, None
        # A new loop, since a captured one reads the memory of the old pool.
        self._loop = EAGER_EXECUTION.make_loop(
            self.make_step,
            self.episodes.start_all(0),
            self.episodes.generator.device,
            capture=self._capture_step,
            name="a step of the environment",
        )

    def __repr__(self) -> str:
        actions = "two commands" if self.continuous else f"{self.num_discrete_actions} actions"
        size = f"{self.num_envs} environments x {self.num_robots} robots"
        return f"MarineNavEnv({size}, {actions}, observes {', '.join(self.entries)}, {self.device})"

    @property
    def config(self) -> WorldConfig:
        """Settings of the world, with those of the episodes where these override them."""
        return self.episodes.config

    @property
    def world(self) -> World:
        """Simulator of the environments as pure functions of tensors."""
        return self.episodes.world

    @property
    def reset_pool(self) -> ResetPool:
        """States that episodes are reset to."""
        return self.episodes.pool

    @property
    def num_robots(self) -> int:
        """Number of robot slots R."""
        return int(self.state.active.shape[-1])

    @property
    def group_map(self) -> dict[str, list[str]]:
        """Names of the robots by group, as in TorchRL's multi-agent environments."""
        return {GROUP: [f"robot_{robot}" for robot in range(self.num_robots)]}

    @property
    def num_discrete_actions(self) -> int:
        """Number of discrete actions: pairs of left and right thrust changes."""
        vessel = self.episodes.parameters.vessel
        return vessel.left_thrust_change.shape[-1] * vessel.right_thrust_change.shape[-1]

    @property
    def entries(self) -> dict[str, Entry]:
        """Descriptions of the observation entries by name."""
        return self.world.entries

    @property
    def statistics(self) -> tuple[str, ...]:
        """Names of the S columns of ``episode_statistics``, such as ``return``; empty if these are not requested."""
        return self.world.statistics

    @property
    def generator(self) -> torch.Generator:
        """Random generator that a user-defined sampler draws from."""
        return self.episodes.generator

    @property
    def world_state(self) -> WorldState:
        """Current state of all environments; a new state can be assigned."""
        state: WorldState = self._loop.state
        return state

    @world_state.setter
    def world_state(self, state: WorldState) -> None:
        self._loop.state = state

    @property
    def captures_step(self) -> bool:
        """Return whether ``step_and_maybe_reset`` is captured as a CUDA graph, or will be."""
        return self._loop.captures

    @property
    def state(self) -> State:
        """State of every robot; batch [E]."""
        return self.world_state.now.state

    @property
    def scenario(self) -> Scenario:
        """Current scenario of every environment; batch [E]."""
        return self.world_state.now.scenario

    @property
    def constants(self) -> Parameters:
        """Parameters of vessels, sensors, reward and weather of the episodes; batch [E], or [1] when shared."""
        return self.world_state.parameters

    @property
    def outcome(self) -> Outcome:
        """Outcome of the latest step; batch [E]. Resets do not change it.

        Raises:
            RuntimeError: before the first step, and after set_seed and load_state_dict.
        """
        if self._outcome is None:
            raise RuntimeError("there is no outcome yet: no step has been made")
        return self._outcome

    # Step and reset -----------------------------------------------------------------------------

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        moves = tensordict.get("_step", None)
        is_whole = moves is None or bool(moves.all())  # host: only TorchRL's partial steps have it
        require(is_whole, "_step", "...", "true for all environments, since they step together")
        action = self._action(tensordict)
        self._actions.flag_invalid(action, self.world_state.now)
        result = self.world.step(self.world_state, action, self.next_noise_source())
        self.world_state, self._outcome = result.world, result.outcome
        self.env_steps += self.num_envs
        self._was_restored = False
        return self._current_tensordict(result.outcome)

    def _action(self, tensordict: TensorDictBase) -> Tensor:
        """Return the actions in a tensordict, after the checks that are possible before the step."""
        action: Any = tensordict.get((GROUP, "action"), None)
        self._actions.check_before_step(action, self.world_state.now)
        return action

    def check_actions(self) -> None:
        """Check all actions since the last check; on a GPU this reads a flag from the device.

        A full reset, ``set_seed``, ``state_dict`` and ``close`` do so, too; on a GPU also ``step_and_maybe_reset``,
        ``maybe_reset`` and partial resets, about every 1,000 steps. A loop that only calls ``step`` has to.

        Raises:
            ConfigError: when an action of an active robot was not finite, or not a valid index.
        """
        self._actions.read_flag()

    def _check_periodically(self) -> None:
        self._actions.read_flag_periodically(self.env_steps // self.num_envs)

    def _reset(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        done = None if tensordict is None else tensordict.get("_reset", None)
        is_for_robots = done is None and tensordict is not None and (GROUP, "_reset") in tensordict.keys(True)
        require(not is_for_robots, "_reset", "...", "given for environments, since robots are not reset alone")
        # Loops of TorchRL that do not call maybe_reset, such as those around a TransformedEnv, start episodes here.
        if self._has_begun and not (self._was_restored and done is None):
            self.reset_pool.refresh(self.env_steps)
        if done is not None:
            self._check_periodically()
            self._start_episodes(done)
        else:
            self.check_actions()
            # The first full reset after load_state_dict continues the saved episodes.
            if not self._was_restored:
                self.world_state = self.episodes.start_all(self.env_steps)
        self._has_begun, self._was_restored = True, False
        return self._current_tensordict()

    def maybe_reset(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Reset the environments whose episode is over in a result of ``step_mdp``, which is updated in place."""
        self._check_periodically()
        self.reset_pool.refresh(self.env_steps)
        self._start_episodes(tensordict.get("done"))
        return tensordict.update(self._current_tensordict())

    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """Make a step and start a new episode wherever it ends one, like EnvBase.step_and_maybe_reset.

        The checks of EnvBase are left out: they take a sixth of a step of 256 environments on a CPU. Returned are
        ``tensordict``, with the step under ``next``, and the input of the next step.
        """
        if "next" in tensordict.keys() or "_step" in tensordict.keys():  # noqa: SIM118
            return super().step_and_maybe_reset(tensordict)  # a partial step
        if tensordict.batch_size != self.batch_size:
            batch, expected = [*tensordict.batch_size], [*self.batch_size]
            raise RuntimeError(f"a step with the batch size {batch}; this environment has {expected}")
        self._check_periodically()
        action = self._action(tensordict)
        self.env_steps += self.num_envs
        self.reset_pool.refresh(self.env_steps)
        captures = self._loop.captures
        self._outcome, step, next_input = self._loop(action.detach() if captures else action)
        if captures:  # the next step overwrites these tensors
            step, next_input = copy_tensors((step, next_input))
        self._was_restored = False
        add_missing_entries(tensordict, next_input)
        next_input.get(GROUP).pop("reward", None)
        tensordict.set("next", step)
        return tensordict, next_input

    def make_step(
        self, world: WorldState, action: Tensor
    ) -> tuple[WorldState, tuple[Outcome, TensorDictBase, TensorDictBase]]:
        """Make a step from a given state and start a new episode wherever it ends one; CUDA graphs can capture this.

        The counters of noise and reset pool advance, but ``world_state`` does not change. Returned are the state that
        the next step starts from; and the outcome of the step, its result and that state under TorchRL's keys.
        """
        self._actions.flag_invalid(action, world.now)
        result = self.world.step(world, action, self.next_noise_source(), self.episodes.next_episodes())
        self.reset_pool.advance(result.outcome.episode_done)
        step = self._as_tensordict(result.observation, result.controlled, result.outcome, result.outcome.statistics)
        return result.world, (result.outcome, step, self.to_tensordict(result.world))

    def _start_episodes(self, done: Tensor) -> None:
        """Start new episodes where ``done`` [E, 1] is true."""
        over = done.view(-1)
        self.world_state = reset_environments(over, self.episodes.next_episodes(), self.world_state)
        self.reset_pool.advance(over)

    def inject(self, states: Mapping[str, Tensor], robots: Tensor | None = None) -> TensorDictBase:
        """Set states of robots from outside, between steps, as another simulator has them.

        Args:
            states: tensors of fields of ``state.State`` by name, those in state.MOTION_FIELDS, each [E, R, n].
            robots: [E, R] bool, which active robots have them; None: all active ones.

        Returns:
            What the robots observe now, under TorchRL's keys.

        Raises:
            ConfigError: for another field, a wrong shape or mask, or a number that is not finite.
        """
        world = self.world_state
        now, state = world.now.clone(recurse=False), self.state.clone(recurse=False)
        chosen = torch.as_tensor(state.active if robots is None else robots, device=self.device)
        is_mask = chosen.dtype == torch.bool and chosen.shape == state.active.shape
        require(is_mask, "robots", f"{list(chosen.shape)} {chosen.dtype}", f"a mask {list(state.active.shape)} of bool")
        for name, value in {name: torch.as_tensor(each) for name, each in states.items()}.items():
            before = getattr(state, name) if name in MOTION_FIELDS else None
            if before is None:
                raise ConfigError(f"states={name!r}: must be one of {', '.join(MOTION_FIELDS)}, which the world has")
            fits = value.shape == before.shape and bool(value.isfinite().all())  # host: between steps
            require(fits, f"states[{name!r}]", list(value.shape), f"finite numbers {list(before.shape)}")
            state.set(name, torch.where((state.active & chosen)[..., None], value.to(before), before))
        now.state = state
        seen = self.world.observe_again(now, world.parameters, self.next_noise_source())
        self.world_state = WorldState(seen, world.parameters)
        return self._current_tensordict()

    def next_noise_source(self) -> RandomSource:
        """Return the random source of the noise of the next step, and advance to the step after it."""
        return self.episodes.noise.take_step()

    def _current_tensordict(self, outcome: Outcome | None = None) -> TensorDictBase:
        """Return the current state under TorchRL's keys, see ``to_tensordict``."""
        tensordict = self.to_tensordict(self.world_state, outcome)
        return copy_tensors(tensordict) if self._loop.captures else tensordict

    @property
    def active(self) -> Tensor:
        """Return which robots are active and controlled by actions, [E, R] bool."""
        return controlled_robots(self.world_state.now)

    def to_tensordict(self, world: WorldState, outcome: Outcome | None = None) -> TensorDictBase:
        """Return a state of the world, and the outcome of the step that led to it, if any, under TorchRL's keys."""
        now = world.now
        active = controlled_robots(now).clone()  # no part of the state, which a write to the mask would change
        return self._as_tensordict(now.observation, active, outcome, now.statistics, now.state.steps == 0)

    def _as_tensordict(
        self, entries: TensorDictBase, active: Tensor, outcome: Outcome | None, *others: Tensor | None
    ) -> TensorDictBase:
        """Return observation entries, flags and, with an outcome, rewards under TorchRL's keys."""
        observation: Any = TensorDict(dict(entries.items()), active.shape, self.device)
        if self.flat:
            observation = flatten_observation(observation, self.entries)
        return make_tensordict(observation, active, outcome, self.device, *others)

    # Pictures -----------------------------------------------------------------------------------

    def render(self, mode: str = "rgb_array", fps: float = DEFAULT_FPS) -> NDArray[np.uint8] | None:
        """Draw the first environment, with tracks through all states of the episode at which ``render`` was called.

        Args:
            mode: ``rgb_array`` to return pixels [height, width, 3], or ``human`` to show a window and return None.
            fps: frames per second of the window, kept by waiting
                that come too fast.

        Raises:
            ConfigError: when there is no such mode, or matplotlib is not installed.
        """
        self._renderer = self._renderer or make_renderer(self.episodes.scenarios, self.config.scenario)
        return self._renderer.render(self.world_state, mode, fps)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the environment and its window, and check its last actions."""
        if self._renderer is not None:
            self._renderer.close()
        super().close(raise_if_closed=raise_if_closed)
        self.check_actions()

    # Saving -------------------------------------------------------------------------------------

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return everything that a rollout depends on, as nested dicts of tensors and numbers."""
        self.check_actions()
        counters = {"env_steps": self.env_steps, "begun": self._has_begun or self.env_steps > 0}
        return self.episodes.state_dict(self.world_state) | counters

    def load_state_dict(self, state: Any, strict: bool = True, **kwargs: Any) -> None:
        """Restore a saved state, from which the rollout continues exactly.

        The next full reset starts no episode but returns the observation of the saved state, unless
        that state was saved before the first reset or step.

        Args:
            state: state from ``state_dict``.
            strict: False restores nothing; TorchRL's ParallelEnv passes it to share statistics of transforms among
                workers, which must keep different episodes.
            kwargs: ignored.

        Raises:
            ConfigError: when the state does not fit, as for another number of environments, robots or objects; the
                environment is then as before.
        """
        if not strict:
            return
        self.world_state = self.episodes.load_state_dict(state, self.world_state)
        self.env_steps = state["env_steps"]
        self._has_begun = self._was_restored = state["begun"]
        self._outcome = None
