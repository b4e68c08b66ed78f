"""The world as a TorchRL environment: E environments x R robots in one batch, on one device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.envs import EnvBase

from marinenav_env.config import WorldConfig
from marinenav_env.kernels import find_kernel
from marinenav_env.pictures.rendering import FPS, MODES, Renderer
from marinenav_env.rules.episode_statistics import with_statistics
from marinenav_env.runtime.execution import EAGER, Kernel
from marinenav_env.runtime.loop import copied
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.parameters import build_parameters
from marinenav_env.scenarios.restart import NewEpisodes, controlled
from marinenav_env.scenarios.scenario_file import Episode, fitting, read_scenarios, stack_episodes
from marinenav_env.scenarios.varying import ParameterSampler
from marinenav_env.sensing.entries import Entry
from marinenav_env.sensing.observation import flattened
from marinenav_env.sensing.perception import with_thrusts
from marinenav_env.specs import GROUP, make_specs
from marinenav_env.state import Outcome, Parameters, ResetState, Scenario, State, WorldState
from marinenav_env.stepping.actions import ActionChecks
from marinenav_env.stepping.reset_pool import (
    Curriculum,
    FixedPool,
    ResetPool,
    SampledPool,
    Sampler,
    as_scenarios,
    first_entry,
    make_sampler,
    require_robots,
    restore,
)
from marinenav_env.stepping.tensordicts import as_tensordict, carry_over
from marinenav_env.stepping.world import World
from marinenav_env.support import plugins
from marinenav_env.support.seeds import as_seed
from marinenav_env.support.validation import ConfigError, require

Scenarios = Curriculum | str | Path | Sequence[Episode] | Scenario | Sampler | None
"""What episodes are made of; see MarineNavEnv."""


def _require_scenarios(given: Any) -> None:
    """Refuse what episodes cannot be made of.

    Raises:
        ConfigError: when it is given.
    """
    if not isinstance(given, Curriculum | Scenario):
        fine = isinstance(given, Sequence) and len(given) > 0
        fine = fine and all(isinstance(each, Episode) for each in given)
        require(
            fine,
            "scenarios",
            given,
            "a Curriculum, a scenario file, a list of one Episode or more, a Scenario or a sampler",
        )


class MarineNavEnv(EnvBase):
    """Fleets of autonomous surface vessels; batch [E], agents in the group ``robots``.

    Keys, with K object slots::

        robots/observation/self_state     [E, R, 7]     see Observation
        robots/observation/objects_state  [E, R, K, 5]
        robots/observation/objects_mask   [E, R, K]     bool
        robots/observation/NAME           [E, R, ...]   further entries, see ``entries``
        robots/observation                [E, R, D]     all entries as one vector, if ``flat``
        robots/mask                       [E, R]        bool, active before the step
        robots/action                     [E, R, 2] in [-1, 1], or [E, R] index of a thrust pair
        robots/reward                     [E, R, 1]
        robots/done, terminated, truncated [E, R, 1]    bool, stay true until the episode is over
        done, terminated, truncated       [E, 1]        bool, of the whole episode
        episode_statistics                [E, S]        if asked for, see ``statistics``

    A robot that has ended is masked: its observation and reward are zero and its action has no
    effect. So is one that the scenario lacks; as in TorchRL's own environments it is done (here
    terminated, never truncated), from the reset on. Only the mask says which robots are active.
    Robots that keep course and speed (``Scenario.scripted``) are masked and done, too, with a
    reward of zero, but they are there: they observe, are seen and can be hit.
    ``maybe_reset`` resets environments whose episode is over, without a read on the host.

    Actions of another shape or type are refused, and so are those of active robots that are not
    finite or no index: before the step, or on a GPU some time after it (see check_actions).

    The same seed gives the same rollout, and the global generators are neither read nor advanced.
    Scenarios and noise follow from the seed, the number of the environment or of the reset pool's
    entry, and the step; only a sampler of your own draws from the environment's generator.

    Args:
        config: the world; the published one by default. Episodes of a file or a list have vessels,
            sensors, rewards and a time step of their own, which take the place of these.
        num_envs: E; by default the number of scenarios if a list is given, else 1.
        scenarios: scenarios of the episodes. A Curriculum, or a sampler of your own, draws them
            during the run; a file's path, a list of episodes or scenario tensors are used in order.
        continuous: whether actions are continuous or indices of thrust-change pairs.
        flat: whether observations are one vector per robot, as many libraries want them.
        device: any torch device.
        dtype: torch.float32 or torch.float64.
        episode_statistics: whether return, length, success, collision and each term of the reward
            of the episode so far are given, see ``statistics``.
        seed: of its random numbers, see ``as_seed``; None draws one, also in ``set_seed``, so that
            workers with environments of one factory differ.
        noise: what noise and scenarios follow from, if it is part of a larger batch (E
            environments); by default the seed. ``set_seed`` leaves it as it is.
        compile_step: whether the step, with the start of episodes, is compiled (fullgraph); the
            first step then takes a while.
        capture_step: whether ``step_and_maybe_reset``, which collectors call, is captured as a CUDA
            graph; without effect on a CPU. ``world_state`` and ``outcome`` are then overwritten by
            the next step: assign another state rather than another tensor of it.
        kernel: what computes a step, compiled or triton; see runtime.execution.Execution.
        check_actions: whether values of actions are checked; a loop that checks them itself saves
            the time.

    Raises:
        ConfigError: for a setting that cannot be used.
    """

    batch_locked = True
    world: World
    """The simulator as pure functions."""
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
        compile_step: bool = False,
        capture_step: bool = False,
        kernel: str = "compiled",
        check_actions: bool = True,
    ) -> None:
        given = read_scenarios(scenarios) if isinstance(scenarios, str | Path) else scenarios
        self._given = given = as_scenarios(given)
        _require_scenarios(given)
        count = 1 if isinstance(self._given, Curriculum) else len(self._given)
        num_envs = count if num_envs is None else num_envs
        fine = isinstance(num_envs, Integral) and not isinstance(num_envs, bool)
        require(fine, "num_envs", num_envs, "a whole number")
        require(num_envs >= 1, "num_envs", num_envs, "at least 1")
        fine = config is None or isinstance(config, WorldConfig)
        require(fine, "config", config, "a WorldConfig")
        floats = (torch.float32, torch.float64)
        for name, flag in (("continuous", continuous), ("flat", flat)):
            require(isinstance(flag, bool), name, flag, "True or False")
        require(dtype in floats, "dtype", dtype, "torch.float32 or torch.float64")
        require(kernel in get_args(Kernel), "kernel", kernel, " or ".join(get_args(Kernel)))
        try:
            device = torch.device(device)
        except (RuntimeError, TypeError) as error:
            raise ConfigError(f"device={device!r}: must be cpu, cuda or cuda:N") from error
        super().__init__(device=device, batch_size=torch.Size([num_envs]))
        self.num_envs, self.dtype, self.continuous, self.flat = num_envs, dtype, continuous, flat
        self._renderer: Renderer | None = None
        self._captures = capture_step
        self.config = config = config or WorldConfig()
        if not isinstance(given, Curriculum | Scenario):
            self.config = fitting(config, given)
        self._generator = torch.Generator(self.device)
        self._noise_given = noise is not None
        self._noise = noise or RandomSource.seeded(0, num_envs, self._generator.device)
        none = torch.zeros(num_envs, dtype=torch.bool, device=self._generator.device)
        # Other kernels start an episode wherever one has ended.
        self._allowed = (none, ~none) if kernel == "compiled" else None
        self._pool_begin = first_entry(given, self._noise)
        with self._users_errors():
            self._make_world(compile_step, episode_statistics, kernel)
            pairs = None if continuous else self.num_discrete_actions
            self._actions = ActionChecks(pairs, self._generator.device, check_actions)
            self._set_seed(seed)
        self._make_specs(pairs)

    # Set-up -------------------------------------------------------------------------------------

    @contextmanager
    def _users_errors(self) -> Iterator[None]:
        """Turn errors of users' parts into ConfigErrors; if there are any, check them with a step.

        Raises:
            ConfigError: when a part fails or gives something else than it should.
        """
        parts = [*self.config.sensor.entries, self.config.reward.function]
        modules: list[str] = []
        if isinstance(self._given, Curriculum) and self._given.sampler:
            sampler: Any = self._given.sampler
            parts.append(sampler if isinstance(sampler, str) else type(sampler).__name__)
            modules = [type(sampler).__module__]
        named = ", ".join(filter(None, parts))
        modules += [part.partition(":")[0] for part in parts]
        try:
            yield
            if named:
                idle = torch.zeros_like(self.state.velocity_water[..., :2])
                action = idle if self.continuous else idle[..., 0].to(torch.int64)
                self.world.check(self.world_state, action)
        except ConfigError:
            raise
        except Exception as error:
            if not named:
                raise
            raise ConfigError(f"{named}: failed in a world ({plugins.describe_error(error, modules)})") from error

    def _make_world(self, compile_step: bool, statistics: bool, kernel: str) -> None:
        """Make what does not depend on the seed: source of scenarios, their parameters, rules."""
        device, given, config = self._generator.device, self._given, self.config
        self._source: Any
        if isinstance(given, Curriculum | Scenario):
            if isinstance(given, Curriculum):
                self._source = make_sampler(given, config.scenario, device, self.dtype)
                robots = self._source.max_robots
            else:

                def own(tensor: Tensor) -> Tensor:
                    kind = self.dtype if tensor.is_floating_point() else tensor.dtype
                    return tensor.to(device, kind)

                # It names no device, as sampled ones: compiled code is then the same for both.
                self._source = given.apply(own, device=None)
                robots = given.robot_mask.shape[-1]
            constants, quantiles = build_parameters([config], robots, device, self.dtype)
        else:
            self._source, constants, quantiles = stack_episodes(given, device, self.dtype)
        if not isinstance(given, Curriculum):
            require_robots(self._source, "scenarios")
        base, spread = constants.vessel, 1.0
        self._varying: ParameterSampler | None = None
        if isinstance(given, Curriculum):
            varying = ParameterSampler(constants, given.levels, robots)
            if varying.varies:
                # A batch of one would be taken for parameters that all environments share.
                level = torch.zeros(max(2, given.pool_size), dtype=torch.int64, device=device)
                constants = varying.sample(level, self._noise._replace(environment=level))
                self._varying = varying
                spread = varying.spread
        self._all_constants = constants
        self.world = World(
            config,
            quantiles,
            self.continuous,
            compile_step,
            constants.weather is not None,
            statistics,
            find_kernel(kernel, config),
        )
        self.world.entries = with_thrusts(self.world.entries, base, spread)

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed the environment as EnvBase does, by any whole number; see ``as_seed``."""
        self.check_actions()
        given = None if seed is None else as_seed(seed)
        following: int | None = super().set_seed(given, static_seed)
        return following

    def _set_seed(self, seed: int | None) -> None:
        """Seed the random numbers and rebuild the reset pool."""
        seed = as_seed(seed)
        self._generator.manual_seed(seed)
        if not self._noise_given:
            self._noise.restart(seed)
        self.env_steps = 0
        self._begun, self._restored, self._outcome = False, False, None
        if isinstance(self._given, Curriculum):
            self.reset_pool: ResetPool = SampledPool(
                self._source, self._given, self._make_reset_state, self._noise, self._generator
            )
        else:
            self.reset_pool = FixedPool(self._source, self._make_reset_state, self.num_envs)
        self._pool = WorldState(self.reset_pool.states, self._all_constants)
        # Another one, as it reads the pool where that is.
        self._loop = EAGER.loop(
            self.make_step,
            self._begin(),
            self._generator.device,
            capture=self._captures,
            name="a step of the environment",
        )

    def _begin(self) -> WorldState:
        """Start new episodes in all environments."""
        self.reset_pool.rewind()
        episodes = self.new_episodes()
        self.reset_pool.advance(None)
        return self.world.begin(self._pool, episodes.entries())

    def _make_reset_state(self, scenario: Scenario, index: Tensor, source: RandomSource | None) -> ResetState:
        """Add the first state and observation to scenarios [P]; see reset_pool.MakeResetState."""
        source = source or self._noise._replace(environment=index + self._pool_begin)
        if self._varying is not None:
            drawn = self._varying.sample(scenario.level, source)
            for name in drawn.keys(include_nested=True, leaves_only=True):
                self._all_constants.get(name).index_copy_(0, index, drawn.get(name))
        shared = self._all_constants.batch_size[0] == 1
        own = self._all_constants if shared else self._all_constants[index]
        return self.world.first(scenario, own, source)

    def _make_specs(self, pairs: int | None) -> None:
        """Specifications of every key, from the shapes at hand."""
        shape = self.num_envs, self.num_robots
        specs = make_specs(shape, self.entries, self.flat, pairs, self.device, self.dtype, len(self.statistics))
        self.observation_spec, self.action_spec = specs.observation, specs.action
        self.reward_spec, self.done_spec = specs.reward, specs.done

    def __repr__(self) -> str:
        actions = "two commands" if self.continuous else f"{self.num_discrete_actions} actions"
        size = f"{self.num_envs} environments x {self.num_robots} robots"
        return f"MarineNavEnv({size}, {actions}, observes {', '.join(self.entries)}, {self.device})"

    @property
    def num_robots(self) -> int:
        """Robot slots R."""
        return int(self.state.active.shape[-1])

    @property
    def group_map(self) -> dict[str, list[str]]:
        """Names of the robots by group, as in TorchRL's environments of several agents."""
        return {GROUP: [f"robot_{robot}" for robot in range(self.num_robots)]}

    @property
    def num_discrete_actions(self) -> int:
        """Pairs of left and right thrust changes."""
        vessel = self._all_constants.vessel
        return vessel.left_thrust_change.shape[-1] * vessel.right_thrust_change.shape[-1]

    @property
    def entries(self) -> dict[str, Entry]:
        """The entries of an observation by name."""
        return self.world.entries

    @property
    def statistics(self) -> tuple[str, ...]:
        """Names of the columns of ``episode_statistics``, see statistic_names; () without them."""
        return self.world.statistics

    @property
    def generator(self) -> torch.Generator:
        """Source of randomness of a sampler of your own."""
        return self._generator

    @property
    def world_state(self) -> WorldState:
        """The present state of all environments; another one may be set."""
        state: WorldState = self._loop.state
        return state

    @world_state.setter
    def world_state(self, state: WorldState) -> None:
        self._loop.state = state

    @property
    def captures_step(self) -> bool:
        """Whether ``step_and_maybe_reset`` is captured, or is going to be."""
        return self._loop.captures

    @property
    def state(self) -> State:
        """Where every robot is; batch [E]."""
        return self.world_state.now.state

    @property
    def scenario(self) -> Scenario:
        """The scenario that each environment is in; batch [E]."""
        return self.world_state.now.scenario

    @property
    def constants(self) -> Parameters:
        """The parameters of each environment; batch [E], or [1] when shared."""
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
        action = self._action(tensordict)
        self._actions.within(action, controlled(self.world_state.now))
        made = self.world.step(self.world_state, action, self.next_source())
        self.world_state, self._outcome = made.world, made.outcome
        self.env_steps += self.num_envs
        self._restored = False
        return self._present(made.outcome)

    def _action(self, tensordict: TensorDictBase) -> Tensor:
        """The actions of a step, checked as far as they can be before it."""
        action: Any = tensordict.get((GROUP, "action"), None)
        self._actions.before(action, controlled(self.world_state.now))
        return action

    def check_actions(self) -> None:
        """Check the actions since the last check; reads a flag on a GPU.

        A full reset, ``set_seed``, ``state_dict`` and ``close`` do so, too. On a GPU so does every
        1,000th vector step or so at which environments may begin another episode: in
        ``step_and_maybe_reset``, ``maybe_reset`` and ``reset`` of a part of them. A loop of
        ``step`` alone has to call this itself.

        Raises:
            ConfigError: when one of an active robot was not finite, or no index.
        """
        self._actions.read()

    def _check_now_and_then(self) -> None:
        """Check actions where a loop passes that may never reset all environments."""
        self._actions.read_now_and_then(self.env_steps // self.num_envs)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        done = None if tensordict is None else tensordict.get("_reset", None)
        if done is not None:
            self._check_now_and_then()
            self._start_episodes(done)
        else:
            self.check_actions()
            # The first full reset after load_state_dict continues the saved episodes.
            if not self._restored:
                self.world_state = self._begin()
        self._begun, self._restored = True, False
        return self._present()

    def maybe_reset(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Reset the environments whose episode is over, without reading whether there are any.

        Args:
            tensordict: a step after ``step_mdp``; it is updated in place.

        Returns:
            The same, with the first observation of the new episodes and their flags cleared.
        """
        self._check_now_and_then()
        self.refresh_pool()
        self._start_episodes(tensordict.get("done"))
        return tensordict.update(self._present())

    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """Make a step and start new episodes where it ended one, as EnvBase does.

        What checks and completes the step of any environment is left out: it takes a sixth of a
        step of 256 environments on a CPU.

        Args:
            tensordict: with the actions; the step is written into it under ``next``.

        Returns:
            The same, and what the next step starts from: the observation and flags, and whatever
            else was in ``tensordict`` besides ``next``.
        """
        if "next" in tensordict.keys() or "_step" in tensordict.keys():  # noqa: SIM118
            return super().step_and_maybe_reset(tensordict)  # not all of the step is to be made
        if tensordict.batch_size != self.batch_size:
            given, own = [*tensordict.batch_size], [*self.batch_size]
            raise RuntimeError(f"a step with the batch size {given}; this environment has {own}")
        self._check_now_and_then()
        action = self._action(tensordict)
        self.env_steps += self.num_envs
        self.refresh_pool()
        captures = self._loop.captures
        self._outcome, step, following = self._loop(action.detach() if captures else action)
        if captures:  # the next step overwrites it
            step, following = copied((step, following))
        self._restored = False
        carry_over(tensordict, following)
        following.get(GROUP).pop("reward", None)
        tensordict.set("next", step)
        return tensordict, following

    def make_step(
        self, world: WorldState, action: Tensor
    ) -> tuple[WorldState, tuple[Outcome, TensorDictBase, TensorDictBase]]:
        """Make a step and start new episodes where it ended one; can be captured.

        The counters of noise and reset pool go on, but the environment stays in its state.

        Args:
            world: before the step; it is not changed.
            action: see ``World.step``.

        Returns:
            What the next step starts from; and the outcome of the step, what it led to under
            TorchRL's keys, and likewise what the next step starts from.
        """
        self._actions.within(action, controlled(world.now))
        made = self.world.step(world, action, self.next_source(), self.new_episodes())
        self.reset_pool.advance(made.outcome.episode_done)
        step = self._as_tensordict(made.observation, made.controlled, made.outcome, made.outcome.statistics)
        return made.world, (made.outcome, step, self.to_tensordict(made.world))

    def new_episodes(self) -> NewEpisodes:
        """Return what the next episodes start from."""
        _, every = self._allowed or (None, None)
        return NewEpisodes(self._pool, self.reset_pool.next_index(), every)

    def no_episodes(self, noise: RandomSource) -> NewEpisodes:
        """Return arguments by which no episode starts in a step of this world's compiled code.

        Args:
            noise: what the noise of the step follows from.
        """
        none, _ = self._allowed or (None, None)
        entry = self.reset_pool.next_index()
        if isinstance(entry, RandomSource):
            # The code depends on that these are the same tensors.
            entry = entry._replace(seed=noise.seed, environment=noise.environment)
        return NewEpisodes(self._pool, entry, none)

    def refresh_pool(self) -> None:
        """Draw new entries of the reset pool when due; call once per vector step, on the host."""
        self.reset_pool.refresh(self.env_steps)

    def _start_episodes(self, done: Tensor) -> None:
        """Start new episodes where ``done`` [E, 1] is true."""
        over = done.view(-1)
        self.world_state = self.world.reset(self.world_state, over, self.new_episodes())
        self.reset_pool.advance(over)

    def next_source(self) -> RandomSource:
        """What the noise of the next step follows from; another one in each call."""
        return self._noise.take()

    def _present(self, outcome: Outcome | None = None) -> TensorDictBase:
        """Return the present state under TorchRL's keys, see ``to_tensordict``."""
        present = self.to_tensordict(self.world_state, outcome)
        return copied(present) if self._loop.captures else present

    def to_tensordict(self, world: WorldState, outcome: Outcome | None = None) -> TensorDictBase:
        """A world under TorchRL's keys.

        Args:
            world: the world.
            outcome: of the step that led to it; None at the start of a step.
        """
        now = world.now
        return self._as_tensordict(now.observation, controlled(now), outcome, now.statistics)

    def _as_tensordict(
        self,
        entries: TensorDictBase,
        active: Tensor,
        outcome: Outcome | None,
        statistics: Tensor | None,
    ) -> TensorDictBase:
        """See ``to_tensordict``; ``active`` is what ``controlled`` gives."""
        observation: Any = TensorDict(dict(entries.items()), active.shape, self.device)
        if self.flat:
            observation = flattened(observation, self.entries)
        return as_tensordict(observation, active, outcome, self.device, statistics)

    # Pictures -----------------------------------------------------------------------------------

    def render(self, mode: str = "rgb_array", fps: float | None = FPS) -> NDArray[np.uint8] | None:
        """Draw the first environment, with tracks of what has been drawn of its episode.

        Args:
            mode: ``rgb_array`` for pixels [height, width, 3], or ``human`` for a window.
            fps: frames a second of the window, for which it waits; None: it never waits, and
                leaves out frames that come too fast.

        Raises:
            ConfigError: when there is no such mode, or matplotlib is not installed.
        """
        require(mode in MODES, "mode", mode, " or ".join(MODES))
        levels = self._given.levels if isinstance(self._given, Curriculum) else ()
        self._renderer = self._renderer or Renderer(self.config, levels)
        if mode == "rgb_array":
            return self._renderer.image(self.world_state)
        self._renderer.show(self.world_state, fps)
        return None

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the environment and its window, and check its last actions."""
        if self._renderer is not None:
            self._renderer.close()
        super().close(raise_if_closed=raise_if_closed)
        self.check_actions()

    # Saving -------------------------------------------------------------------------------------

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Everything that a rollout depends on, as nested dicts of tensors and numbers."""
        self.check_actions()
        return {
            "now": self.world_state.now.to_tensordict().to_dict(),
            "parameters": self.world_state.parameters.to_tensordict().to_dict(),
            "starts": self.reset_pool.state_dict(),
            "constants": self._all_constants.to_tensordict().to_dict() if self._varying else {},
            "generator": self._generator.get_state(),
            "noise": {name: each.clone() for name, each in self._noise.state().items()},
            "env_steps": self.env_steps,
            "begun": self._begun or self.env_steps > 0,
        }

    def load_state_dict(self, state: Any, strict: bool = True, **kwargs: Any) -> None:
        """Restore a state; the rollout continues exactly.

        The next full reset starts no episode: it returns the observation of the saved state. Only
        a state from before the first reset or step leaves that reset to draw episodes.

        Args:
            state: what ``state_dict`` gave.
            strict: False restores nothing. TorchRL's EnvCreator, and so ParallelEnv, passes it to
                share statistics of transforms among workers; the episodes of each stay its own.
            kwargs: without effect.

        Raises:
            ConfigError: when the state is of another number of environments, robots or objects.
        """
        if not strict:
            return
        # Tensors that were returned share memory with the present state: do not write to it.
        now, parameters = self.world_state
        self.world_state = WorldState(now.clone(), parameters)
        try:
            restore(self.world_state.now, with_statistics(state["now"], now))
            restore(parameters, state["parameters"])
            if self._varying is not None:
                restore(self._all_constants, state["constants"])
            starts = state["starts"]
            whole = with_statistics(starts["starts"], self._pool.now)
            self.reset_pool.load_state_dict(starts | {"starts": whole})
            # States of earlier versions have no counter: they go on with other noise.
            own, steps = self._noise.state(), torch.tensor(state["env_steps"] // self.num_envs)
            given = state.get("noise", own | {"step": steps})
            restore(own, {name: given[name] for name in own})
            self._generator.set_state(state["generator"].cpu())
        except (RuntimeError, KeyError, AttributeError) as error:
            raise ConfigError(f"the saved world does not fit this one: {error}") from error
        self.env_steps = state["env_steps"]
        self._begun = self._restored = state.get("begun", True)
        self._outcome = None
