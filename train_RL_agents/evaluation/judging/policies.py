"""Evaluation of trained policies and baselines on sets of scenarios."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from marinenav_env import ConfigError, WorldConfig, observation_entries
from marinenav_env.config import RewardConfig, VesselConfig
from marinenav_env.rules.reward import custom_reward_function
from marinenav_env.scenarios.parameters import COMMAND_FIELDS
from marinenav_env.state import Scenario
from marinenav_env.stepping.actions import commands_of_discrete_actions
from marinenav_env.support.validation import is_number, require
from marinenav_env.vessels import largest_value
from train_RL_agents.evaluation.judging.shield import Shield
from train_RL_agents.evaluation.running import episodes as evaluation
from train_RL_agents.evaluation.running.baselines import BASELINES
from train_RL_agents.evaluation.running.estimates import returns_scale, with_estimates, with_risk
from train_RL_agents.evaluation.running.others import (
    OBJECT_ENTRIES,
    control_robot_0,
    with_continuous_actions,
    with_object_slots,
    with_others,
    without_objects,
)
from train_RL_agents.evaluation.running.recording import Recording, concatenate, record
from train_RL_agents.evaluation.running.steps import Policy, ProgressCallback, StepCallback, StepShare
from train_RL_agents.evaluation.suites.sets import Part, ScenarioSet
from train_RL_agents.networks.encoder_config import SELF_STATE
from train_RL_agents.policy_wrapper import PolicyWrapper
from train_RL_agents.run.checkpoint import LoadedPolicy, load_policy
from train_RL_agents.run.finding import BLIND_PREFIX, locate_policy
from train_RL_agents.run.onnx_policy import ONNX_SUFFIX, load_onnx_policy
from train_RL_agents.utils.rows import Episodes, concatenate_episodes
from train_RL_agents.utils.shipped import shipped_paths


@dataclass(frozen=True)
class ActingOptions:
    """Options of how evaluated policies act; of these, only ``others`` and ``shield`` apply to baselines."""

    risk: float | None = None
    """Share of the worst outcomes to act on, in (0, 1]; None: as the policy is configured."""
    stochastic: bool = False
    """True to act as in training, but without added exploration: PPO, A2C and SAC sample their actions."""
    seed: int = 0
    """Seed of the random numbers of stochastic policies."""
    estimates: bool = False
    """True to record the returns that the agent estimates for its actions and for the alternatives."""
    others: EvaluatedPolicy | None = None
    """Policy or baseline that steers the other vessels where the evaluated one controls robot 0 alone; None: that of
    the suite, if any."""
    shield: StepShare | None = None
    """Counter of the control steps in which the safety shield replaces a command; None: the policy has no shield."""


@dataclass(frozen=True)
class EvaluatedPolicy:
    """A trained policy or a baseline that is evaluated."""

    name: str
    """Name of the baseline, or agent type of the policy."""
    trained: LoadedPolicy | None = None
    """Trained policy; None for a baseline, which has neither settings nor a file."""
    is_blind: bool = False
    """True if the policy observes no objects, as if every robot were alone."""

    @classmethod
    def from_loaded(cls, loaded: LoadedPolicy) -> EvaluatedPolicy:
        """Return the evaluated form of a trained policy."""
        return cls(loaded.config.agent_type, loaded)

    @property
    def continuous(self) -> bool:
        """Return whether actions are continuous (rates of change of the thrust), not discrete (indices of commands)."""
        return self.trained is None or self.trained.agent.continuous

    @property
    def label(self) -> str:
        """Return the name that tables and pictures show, with the env-steps of a trained policy."""
        name = f"{BLIND_PREFIX}{self.name}" if self.is_blind else self.name
        if self.trained is None:
            return name
        return f"{name} after {self.trained.env_steps:,} env-steps"

    def about(self) -> dict[str, Any]:
        """Return ``checkpoint`` (path), ``agent_type`` and ``env_steps`` by name; None where a baseline has none."""
        trained = self.trained
        return {
            "checkpoint": None if trained is None else str(trained.path.resolve()),
            "agent_type": self.name,
            "env_steps": None if trained is None else trained.env_steps,
        }

    def with_own_slots(self, world: WorldConfig) -> WorldConfig:
        """Return a world with as many object slots as the policy was trained with; unchanged for a baseline."""
        if self.trained is None:
            return world
        self.trained.config.env.require_built_in("levels, suites and scenario files")
        slots = self.trained.config.world.sensor.max_objects
        return replace(world, sensor=replace(world.sensor, max_objects=slots))

    def make_policy(self, world: WorldConfig, acting: ActingOptions) -> Policy:
        """Return the policy as a function that writes actions; a blind one must not detect objects by other entries."""
        if self.is_blind:
            allowed = "one that observes objects only as such, with neither a scan nor custom entries"
            observed = {*self.trained.agent.spec.entries} if self.trained else set[str]()
            require(observed <= {SELF_STATE, *OBJECT_ENTRIES}, "policy", f"{BLIND_PREFIX}{self.name}", allowed)
            return without_objects(replace(self, is_blind=False).make_policy(world, acting))
        if self.trained is None:
            return BASELINES[self.name](world)
        agent = self.trained.agent
        rng = torch.Generator(next(agent.parameters()).device).manual_seed(acting.seed)
        # The strength of a PolicyWrapper's exploration is 0 until it is set.
        policy: Policy = PolicyWrapper(agent, generator=rng if acting.stochastic else None)
        policy = policy if acting.risk is None else with_risk(policy, acting.risk)
        return with_estimates(policy, self.trained, world) if acting.estimates else policy


def find_evaluated(name: str, which: str, device: torch.device) -> EvaluatedPolicy:
    """Return the trained policy or baseline of a name; with the prefix ``blind:`` it observes no objects.

    It is the name of a baseline or a shipped policy, or the path of a run folder (``which`` chooses its policy, such as
    "best"), policy file or exported ONNX file.
    """
    if name.startswith(BLIND_PREFIX):
        return replace(find_evaluated(name.removeprefix(BLIND_PREFIX), which, device), is_blind=True)
    path = locate_policy(name, BASELINES)
    if path is None:
        return EvaluatedPolicy(name)
    loaded = load_onnx_policy(path) if path.suffix == ONNX_SUFFIX else load_policy(path, which, device)
    return EvaluatedPolicy.from_loaded(loaded)


def shipped_policy(name: str, device: torch.device) -> EvaluatedPolicy:
    """Return the baseline or shipped policy with a name, even if the working directory has a run of that name."""
    plain = name.removeprefix(BLIND_PREFIX)
    path = shipped_paths("pretrained").get(plain)
    found = EvaluatedPolicy(plain) if path is None else EvaluatedPolicy.from_loaded(load_policy(path, device=device))
    return replace(found, is_blind=plain != name)


_COMPARED_SETTINGS = ("vessel", "sensor", "dt", "substeps")
"""Names of the world settings that must be equal for policies to be compared, but for ``differing_setting``."""
_ADDED_ENTRIES = ("duties", "objects_id")
"""Names of the settings of a sensor with which robots observe more, and which change nothing else."""


def differing_setting(world: WorldConfig, other: WorldConfig) -> str | None:
    """Return a setting in which two worlds may not differ if policies of both are to be compared, and do; or None.

    The number of object slots is each policy's own, and robots may observe more than a policy does.
    """
    alike = {name: getattr(other.sensor, name) for name in ("max_objects", *_ADDED_ENTRIES)}
    world = replace(world, sensor=replace(world.sensor, **alike))
    return next((name for name in _COMPARED_SETTINGS if getattr(world, name) != getattr(other, name)), None)


def with_available_reward(world: WorldConfig) -> WorldConfig:
    """Return a world with the published reward, and warn, if this process may not load the reward that it names."""
    try:
        custom_reward_function(world)
    except ConfigError as error:
        warnings.warn(f"returns are those of the published reward: {error}", stacklevel=3)
        return replace(world, reward=RewardConfig())
    return world


def common_world(policies: Sequence[EvaluatedPolicy]) -> WorldConfig:
    """Return the world to evaluate in: that of the first trained policy, with what all observe and room for all shores.

    Without a trained policy it is the published one.

    A warning names the settings in which the worlds of other policies differ from it; other vessels, sensors (but for
    the number of object slots) or time steps are refused.
    """
    loaded = [evaluated.trained for evaluated in policies if evaluated.trained is not None]
    if not loaded:
        return WorldConfig()
    first = loaded[0]
    for other in loaded[1:]:
        other.config.env.require_built_in("levels, suites and scenario files")
        if key := differing_setting(first.config.world, other.config.world):
            raise ConfigError(f"{other.path}: world.{key} is not that of {first.path}, so that they cannot be compared")
        names = [item.name for item in fields(WorldConfig) if item.name not in _COMPARED_SETTINGS]
        changed = [name for name in names if getattr(first.config.world, name) != getattr(other.config.world, name)]
        if changed:
            settings = ", ".join(f"world.{name}" for name in changed)
            warnings.warn(f"{other.path}: is evaluated with {settings} of {first.path}, not its own", stacklevel=2)
    worlds = [each.config.world for each in loaded]
    scenario = replace(worlds[0].scenario, shore_segments=max(each.scenario.shore_segments for each in worlds))
    observed: dict[str, Any] = {name: any(getattr(each.sensor, name) for each in worlds) for name in _ADDED_ENTRIES}
    return with_available_reward(replace(worlds[0], scenario=scenario, sensor=replace(worlds[0].sensor, **observed)))


def require_effect(policies: Mapping[str, EvaluatedPolicy], risk: Any = None, stochastic: bool = False) -> None:
    """Check that a risk level and ``stochastic`` (see ActingOptions) are valid, and change what every policy does."""
    is_valid = risk is None or (is_number(risk) and 0.0 < risk <= 1.0)
    require(is_valid, "--risk", risk, "above 0 and at most 1")
    for name, evaluated in policies.items():
        agent = None if evaluated.trained is None else evaluated.trained.agent
        takes_risk, random = (
            agent is not None and getattr(agent, ability) for ability in ("supports_risk", "acts_at_random")
        )
        require(risk is None or takes_risk, "--risk", risk, f"left out: {name} takes no risk level")
        require(random or not stochastic, "--stochastic", True, f"left out: {name} acts the same while training")


def steering_policy(part: Part, acting: ActingOptions, device: torch.device) -> EvaluatedPolicy | None:
    """Return the policy that steers the vessels that the evaluated policy does not control; None if none does."""
    if not part.only_own:
        return None
    return acting.others or (shipped_policy(part.others, device) if part.others else None)


def _equivalent_commands(vessel: VesselConfig) -> Tensor:
    """Return the continuous actions [A, 2] that command the same as the A discrete actions."""
    most = largest_value(vessel.max_thrust_rate)
    for name in COMMAND_FIELDS:
        values = getattr(vessel, name)
        allowed = f"at most {most:g} N/s (max_thrust_rate) where another policy steers the other vessels"
        require(max(map(abs, values)) <= most, f"world.vessel.{name}", values, allowed)
    return commands_of_discrete_actions(vessel)


def combine_with_others(policy: Policy, others: EvaluatedPolicy, world: WorldConfig) -> Policy:
    """Combine a policy with continuous actions, for robot 0, with another one, for all other robots of a world.

    The other policy has as many object slots as it was trained with; what the world does not measure is refused.
    """
    theirs = others.make_policy(world, ActingOptions())
    if others.trained is not None:
        sensor, needed = others.with_own_slots(world).sensor, set(others.trained.agent.spec.entries)
        is_measured = needed <= {*observation_entries(world)}
        require(is_measured, "--others", others.name, f"a policy that observes {', '.join(observation_entries(world))}")
        theirs = with_object_slots(theirs, sensor.slots)
        if not others.continuous:
            theirs = with_continuous_actions(theirs, _equivalent_commands(others.trained.config.world.vessel))
    return with_others(policy, theirs)


def _policy_for_part(
    evaluated: EvaluatedPolicy,
    policy: Policy,
    part: Part,
    world: WorldConfig,
    acting: ActingOptions,
    device: torch.device,
) -> tuple[Policy, bool]:
    """Return a policy for all robots of a part, shielded if requested, and whether its actions are continuous."""
    others = steering_policy(part, acting, device)
    if acting.shield is not None:
        policy = Shield(policy, world, part, evaluated.continuous, acting.shield)
    if others is not None:
        pairs = None if evaluated.continuous else _equivalent_commands(world.vessel)
        return combine_with_others(with_continuous_actions(policy, pairs), others, world), True
    if part.only_own:
        policy = control_robot_0(policy, None if evaluated.continuous else world.vessel)
    return policy, evaluated.continuous


def run_set(
    evaluated: EvaluatedPolicy,
    chosen: ScenarioSet,
    world: WorldConfig,
    acting: ActingOptions,
    device: torch.device,
    name: str | None = None,
    on_step: StepCallback | None = None,
    progress: ProgressCallback | None = None,
) -> tuple[Episodes, Recording | None]:
    """Run all scenarios of a set, made from a world, once; return the episodes in its order, and the recording.

    Nothing is recorded without the name of the policy in the recording. Progress is the number of ended episodes and
    that of all. A policy that does not fit the commands or object slots of the set is refused.
    """
    _check_fit(evaluated, chosen)
    policy = evaluated.make_policy(world, acting)
    episodes, recordings, ended = [], [], 0
    for part in chosen.parts:
        observed = evaluated.with_own_slots(part.world)
        steers, is_continuous = _policy_for_part(evaluated, policy, part, world, acting, device)
        # If every episode has its own world, the shield has parameters of every environment, so none may be dropped.
        is_fixed = acting.stochastic or (acting.shield is not None and not isinstance(part.scenarios, Scenario))
        options: dict[str, Any] = {
            "continuous": is_continuous,
            "device": device,
            "seed": chosen.seed if part.seed is None else part.seed,
            "drop_ended": not is_fixed,
            "only_own": part.only_own,
            "on_step": on_step,
            "progress": shifted_progress(progress, ended, len(chosen)),
        }
        ended += len(part.scenarios)
        if name is None:
            seen = evaluation.run_episodes(steers, part.scenarios, observed, **options)
        else:
            levels = part.scenarios.level.tolist() if isinstance(part.scenarios, Scenario) else part.levels
            groups = [chosen.groups[level] for level in levels or () if chosen.groups] or ["all"] * len(part.scenarios)
            seen, recording = record(steers, part.scenarios, observed, name=name, groups=groups, **options)
            recordings.append(recording)
        episodes.append(seen if part.levels is None else replace(seen, level=torch.tensor(part.levels)))
    joined = concatenate_episodes(episodes)
    if not recordings:
        return joined, None
    scale = None if evaluated.trained is None else returns_scale(evaluated.trained)
    return joined, replace(concatenate(recordings), reward_scale=scale)


def shifted_progress(progress: ProgressCallback | None, before: int, total: int) -> ProgressCallback | None:
    """Return a progress callback for a part, to whose episodes the ``before`` ones of earlier parts are added."""
    return None if progress is None else lambda ended, _: progress(before + ended, total)


def _check_fit(evaluated: EvaluatedPolicy, chosen: ScenarioSet) -> None:
    """Check that a policy fits the numbers of commands and of object slots that vessels of scenario files have."""
    if evaluated.trained is None:
        return
    agent, config = evaluated.trained.agent, evaluated.trained.config
    listed = (part.scenarios for part in chosen.parts if not isinstance(part.scenarios, Scenario))
    for episode in chain.from_iterable(listed):
        slots, commands = episode.world.sensor.slots, episode.world.vessel.num_actions
        pairs, most = agent.num_actions, config.world.sensor.slots
        has_room = slots <= most or config.agent.encoder != "concat"
        require(has_room, "max_obj_num", slots, f"at most {most}, as the policy was trained with")
        allowed = f"{pairs} pairs, which the policy {evaluated.trained.path} chooses from"
        require(agent.continuous or commands == pairs, "thrust commands", commands, allowed)
