"""Source of the episodes of an environment: scenarios, parameters and random numbers, and the reset pool of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.episode import Episode, config_for_batch, require_water, stack_episodes, with_weather
from marinenav_env.scenarios.map_bank import with_room_for_shores
from marinenav_env.scenarios.parameters import build_parameters
from marinenav_env.scenarios.reading import read_scenarios
from marinenav_env.scenarios.reset import NewEpisodes, select_entries
from marinenav_env.scenarios.varying import ParameterSampler
from marinenav_env.sensing.perception import with_thrust_limits
from marinenav_env.state import ResetState, Scenario, WorldState
from marinenav_env.stepping.behaviours import require_thrusters
from marinenav_env.stepping.reset_pool import (
    Curriculum,
    FixedPool,
    ResetPool,
    SampledPool,
    Sampler,
    first_entry_number,
    make_sampler,
    require_robots,
)
from marinenav_env.stepping.world import World
from marinenav_env.support import plugins
from marinenav_env.support.tensors import restore_tensors
from marinenav_env.support.validation import ConfigError, require

Scenarios = Curriculum | str | Path | Sequence[Episode] | Scenario | Sampler | None
"""Types of the argument ``scenarios`` of MarineNavEnv."""


def as_scenarios(scenarios: Any, config: WorldConfig | None = None) -> Any:
    """Return scenarios as a Curriculum, for None or a sampler too, as episodes, read from a file, or as a Scenario.

    Raises:
        ConfigError: when they are of another type, or empty.
    """
    if isinstance(scenarios, str | Path):
        scenarios = read_scenarios(scenarios, world=config)
    if scenarios is None or hasattr(scenarios, "sample"):
        return Curriculum() if scenarios is None else Curriculum(sampler=scenarios)
    if not isinstance(scenarios, Curriculum | Scenario):
        are_episodes = isinstance(scenarios, Sequence) and len(scenarios) > 0
        are_episodes = are_episodes and all(isinstance(episode, Episode) for episode in scenarios)
        allowed = "a Curriculum, a scenario file, a list of one Episode or more, a Scenario or a sampler"
        require(are_episodes, "scenarios", scenarios, allowed)
    return scenarios


@contextmanager
def convert_user_errors(config: WorldConfig, scenarios: Any) -> Iterator[str]:
    """Return a context that converts errors of user-defined sensors, rewards and samplers to ConfigErrors.

    Its value has their names, and is empty without any.

    Raises:
        ConfigError: when user-defined code fails or returns a wrong result.
    """
    parts = [*config.sensor.entries, config.reward.function]
    modules: list[str] = []
    if isinstance(scenarios, Curriculum) and scenarios.sampler:
        sampler: Any = scenarios.sampler
        factory = sampler if hasattr(sampler, "__name__") else type(sampler)
        parts.append(sampler if isinstance(sampler, str) else factory.__name__)
        modules = [factory.__module__]
    named = ", ".join(filter(None, parts))
    modules += [part.partition(":")[0] for part in parts]
    try:
        yield named
    except ConfigError:
        raise
    except Exception as error:
        if not named:
            raise
        raise ConfigError(f"{named}: failed in a world ({plugins.describe_error(error, modules)})") from error


class EpisodeSource:
    """Source of the episodes of a batch of E environments, with their world.

    ``scenarios`` are a Curriculum, episodes, or scenarios with the batch [P], at which ``total_envs`` environments
    take turns (None: each source uses all of them). Without ``noise``, its random source follows from the seed.
    """

    pool: ResetPool

    def __init__(
        self,
        config: WorldConfig,
        scenarios: Any,
        num_envs: int,
        device: torch.device,
        dtype: torch.dtype,
        noise: RandomSource | None,
        total_envs: int | None,
        **world_options: Any,
    ) -> None:
        self.config, self.scenarios, self._total_envs = config, scenarios, total_envs
        if not isinstance(scenarios, Curriculum | Scenario):
            self.config, self.scenarios = config_for_batch(config, scenarios), with_weather(scenarios, config.weather)
        self.generator = torch.Generator(device)
        """Generator that a user-defined sampler draws from."""
        self._device, self._dtype = self.generator.device, dtype
        self._is_seeded = noise is None
        self.noise = noise or RandomSource.from_seed(0, num_envs, self._device)
        """Random source of the next step."""
        self._none = torch.zeros(num_envs, dtype=torch.bool, device=self._device)
        self._all = ~self._none
        self._first_entry_number = first_entry_number(scenarios, self.noise, total_envs is not None)
        self._varying: ParameterSampler | None = None
        self._source, quantiles, spread = self._load()
        self.world = World(self.config, quantiles, **world_options)
        entries, extras = self.world.entries, self.parameters.extras
        self.world.entries = with_thrust_limits(entries, self._base_vessel, extras, spread)

    def _load(self) -> tuple[Any, Tensor, float]:
        """Return sampler or scenarios, the quantile table and the largest factor on thrusts; set the parameters."""
        scenarios, config, device, spread = self.scenarios, self.config, self._device, 1.0
        source: Any
        room = config.scenario.shore_segments
        if isinstance(scenarios, Curriculum):
            source = make_sampler(scenarios, config.scenario, device, self._dtype)
            robots, room = source.max_robots, getattr(source, "shore_segments", room)
        elif isinstance(scenarios, Scenario):

            def convert(tensor: Tensor) -> Tensor:
                return tensor.to(device, self._dtype if tensor.is_floating_point() else tensor.dtype)

            # Without a device, like sampled scenarios, so that both use the same compiled code.
            source, robots = scenarios.apply(convert, device=None), scenarios.robot_mask.shape[-1]
            room = max(room, 0 if source.shores is None else source.shores.shape[1])
        if isinstance(scenarios, Curriculum | Scenario):
            parameters, quantiles = build_parameters([config], robots, device, self._dtype)
            if isinstance(scenarios, Scenario):
                require_water(source, parameters)
        else:
            source, parameters, quantiles = stack_episodes(scenarios, device, self._dtype, config.scenario)
        self._base_vessel = parameters.vessel
        self.config = replace(config, scenario=replace(config.scenario, shore_segments=room))
        if isinstance(scenarios, Curriculum):
            varying = ParameterSampler(parameters, scenarios.levels, robots)
            if varying.has_variation:
                # At least two, since a batch of one means parameters that all environments share.
                level = torch.zeros(max(2, scenarios.pool_size), dtype=torch.int64, device=device)
                still = torch.zeros(len(level), robots, 3, dtype=self._dtype, device=device)
                parameters = varying.sample(level, still, self.noise._replace(environment=level))
                self._varying, spread = varying, varying.max_vessel_factor
        else:
            require_robots(source, "scenarios")
        self.parameters = parameters
        """Parameters of all scenarios, batch [P], or [1] when shared."""
        return source, quantiles, spread

    def reseed(self, seed: int) -> None:
        """Seed the random numbers and rebuild the reset pool."""
        self.generator.manual_seed(seed)
        if self._is_seeded:
            self.noise.reseed(seed)
        if isinstance(self.scenarios, Curriculum):
            self.pool = SampledPool(self._source, self.scenarios, self._make_reset_state, self.noise, self.generator)
        else:
            numbers = self.noise.environment
            if self._total_envs is None:
                numbers = torch.arange(len(numbers), device=numbers.device)
            self.pool = FixedPool(self._source, self._make_reset_state, numbers, self._total_envs or len(numbers))
        require_thrusters(self.pool.states.scenario, self.parameters.extras)
        self._states = WorldState(self.pool.states, self.parameters)

    def _make_reset_state(self, scenario: Scenario, index: Tensor, source: RandomSource | None) -> ResetState:
        """Return scenarios [P] with their first state and observation, and set their parameters, if these vary."""
        source = source or self.noise._replace(environment=index + self._first_entry_number)
        scenario = with_room_for_shores(scenario, self.config.scenario)
        if self._varying is not None:
            drawn = self._varying.sample(scenario.level, scenario.velocity, source)
            for name in drawn.keys(include_nested=True, leaves_only=True):
                self.parameters.get(name).index_copy_(0, index, drawn.get(name))
        parameters = self.parameters if self._shares_parameters else self.parameters[index]
        are_episodes = not isinstance(self.scenarios, Curriculum | Scenario)
        return self.world.initial_reset_state(scenario, parameters, source, are_episodes)

    @property
    def _shares_parameters(self) -> bool:
        """Return whether all episodes have the same parameters."""
        return bool(self.parameters.batch_size[0] == 1)

    def start_all(self, env_steps: int) -> WorldState:
        """Start new episodes in all environments, at a number of env-steps: advance the pool and return their state."""
        self.pool.prepare_full_reset(env_steps)
        index = self.next_episodes().entries()
        self.pool.advance(None)
        return select_entries(self._states, index)

    def next_episodes(self) -> NewEpisodes:
        """Return the states of the reset pool, with the index of the entry from which each next episode starts."""
        return NewEpisodes(self._states, self.pool.next_index(), self._all)

    def placeholder(self, noise: RandomSource) -> NewEpisodes:
        """Return new episodes for a step with this noise that starts none, of the same structure, for the same code."""
        entry = self.pool.next_index()
        if isinstance(entry, RandomSource):
            # The compiled code requires that noise and entry share these tensors.
            entry = entry._replace(seed=noise.seed, environment=noise.environment)
        return NewEpisodes(self._states, entry, self._none)

    def state_dict(self, world: WorldState) -> dict[str, Any]:
        """Return a state of the world, and all that later episodes depend on; some tensors share memory with these."""
        return {
            "now": world.now.to_tensordict().to_dict(),
            "parameters": world.parameters.to_tensordict().to_dict(),
            "reset_pool": self.pool.state_dict(),
            "constants": {} if self._shares_parameters else self.parameters.to_tensordict().to_dict(),
            "generator": self.generator.get_state(),
            "noise": {name: tensor.clone() for name, tensor in self.noise.tensors_to_save().items()},
        }

    def load_state_dict(self, state: dict[str, Any], world: WorldState) -> WorldState:
        """Restore the result of ``state_dict``, and return its state of the world, which has the form of ``world``.

        Raises:
            ConfigError: when the state does not fit; all is then as before.
        """
        before = deepcopy(self.state_dict(world))
        try:
            return self._restore(state, world)
        except (RuntimeError, KeyError, AttributeError, ConfigError) as error:
            self._restore(before, world)
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"the saved world does not fit this one: {error}") from error

    def _restore(self, state: dict[str, Any], world: WorldState) -> WorldState:
        """Restore the tensors of a saved state, up to the first one that does not fit."""
        # Tensors returned earlier share memory with the current state, so values are written to a copy of the state.
        now, parameters = world.now.clone(), world.parameters
        restore_tensors(now, state["now"])
        restore_tensors(parameters, state["parameters"])
        if state["constants"] or self._varying is not None:
            restore_tensors(self.parameters, state["constants"])
        self.pool.load_state_dict(state["reset_pool"])
        noise = self.noise.tensors_to_save()
        restore_tensors(noise, {name: state["noise"][name] for name in noise})
        self.generator.set_state(state["generator"].cpu())
        return WorldState(now, parameters)
