"""Evaluation of trained policies and baselines on the same scenario sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from marinenav_env import GROUP, ConfigError, WorldConfig
from marinenav_env.config import VesselConfig
from marinenav_env.state import Scenario
from marinenav_env.support.validation import is_number, require
from train_RL_agents.agents.base import Agent
from train_RL_agents.agents.quantile import nearness_risk
from train_RL_agents.baselines import BASELINES
from train_RL_agents.evaluation import episodes as evaluation
from train_RL_agents.evaluation.episodes import Episodes, step_bytes
from train_RL_agents.evaluation.recording import DOUBTFUL, Recording, concatenate, record
from train_RL_agents.evaluation.suites import Part, ScenarioSet
from train_RL_agents.evaluation.tally import Policy, Progress, Watch
from train_RL_agents.networks.observation import OBSERVATION, Observation, observation_of
from train_RL_agents.policy_wrapper import QUANTILES, RISK, SCORES, PolicyWrapper, command_pairs
from train_RL_agents.run.checkpoint import LoadedPolicy, load_policy
from train_RL_agents.run.finding import POLICIES, proposal, resolve_path
from train_RL_agents.utils.memory import require_room
from train_RL_agents.utils.shipped import shipped

ACTION = (GROUP, "action")
DOUBT = 0.25
"""Critics differ on a command if they do by more than this share of the range of all scores; so do
those of the page in which a policy steers (figures/pages/sessions.js)."""
_RECORDED = 300
"""Bytes of a robot in a step of a recording, about."""


@dataclass(frozen=True)
class ActingOptions:
    """How trained policies act; baselines have only one."""

    risk: float | Literal["adaptive"] | None = None
    """Share of the worst outcomes to act on, in (0, 1], or adapted to the closest object; None:
    all."""
    stochastic: bool = False
    """Act as while training, but without added exploration."""
    seed: int = 0
    """Of the random numbers of stochastic policies."""
    estimates: bool = False
    """Leave for a recording what the agent expects of its actions and of the alternatives."""


@dataclass(frozen=True)
class Contender:
    """Who steers in an evaluation: a baseline, or a trained policy."""

    name: str
    """Name of the baseline, or agent type of the policy."""
    trained: LoadedPolicy | None = None
    """The policy; None: a baseline, which has neither settings nor a file of its own."""

    @classmethod
    def of(cls, loaded: LoadedPolicy) -> Contender:
        """Make a trained policy a contender."""
        return cls(loaded.config.agent_type, loaded)

    @property
    def continuous(self) -> bool:
        """Say whether its actions are rates of thrust, not indices of commands."""
        return self.trained is None or self.trained.agent.continuous

    @property
    def label(self) -> str:
        """Return its name in pictures."""
        if self.trained is None:
            return self.name
        return f"{self.name} after {self.trained.env_steps:,} env-steps"

    @property
    def reward_scale(self) -> float | None:
        """Return the factor on rewards in what it estimates; a baseline estimates nothing."""
        return None if self.trained is None else returns_scale(self.trained)

    def about(self) -> dict[str, Any]:
        """Return what it is as plain values."""
        trained = self.trained
        return {
            "checkpoint": None if trained is None else str(trained.path.resolve()),
            "agent_type": self.name,
            "env_steps": None if trained is None else trained.env_steps,
        }

    def observing(self, world: WorldConfig) -> WorldConfig:
        """Return a world in which as many objects are observed as the policy has slots for."""
        if self.trained is None:
            return world
        slots = self.trained.config.world.sensor.max_objects
        return replace(world, sensor=replace(world.sensor, max_objects=slots))

    def policy(self, world: WorldConfig, acting: ActingOptions) -> Policy:
        """Return the policy that acts.

        Args:
            world: where it acts.
            acting: how a trained policy acts.
        """
        if self.trained is None:
            return BASELINES[self.name](world)
        agent = self.trained.agent
        rng = torch.Generator(next(agent.parameters()).device).manual_seed(acting.seed)
        # The strength of its exploration is 0 until it is set.
        policy: Policy = PolicyWrapper(agent, generator=rng if acting.stochastic else None)
        policy = policy if acting.risk is None else with_risk(policy, acting.risk)
        return with_estimates(policy, self.trained, world) if acting.estimates else policy


def find(name: str, which: str, device: torch.device) -> Contender:
    """Find a trained policy or a baseline.

    Args:
        name: a baseline's name, a run folder, a policy file or a shipped policy's name.
        which: of a run, see load_policy.
        device: where a trained policy goes.

    Raises:
        ConfigError: when there is neither.
    """
    path = resolve_path(Path(name), POLICIES)
    if path.exists():
        return Contender.of(load_policy(path, which, device))
    if name in BASELINES:
        return Contender(name)
    near = proposal(path, [*BASELINES, *shipped("pretrained")])
    if len(path.parts) > 1:  # a path, so that no name was meant
        raise ConfigError(f"{name}: there is no such run folder or policy file{near}")
    raise ConfigError(
        f"{name}: neither a checkpoint nor a baseline ({', '.join(BASELINES)}) nor a policy that "
        f"is shipped ({', '.join(shipped('pretrained'))})"
        f"{near}"
    )


IN_COMMON = ("vessel", "sensor", "dt", "substeps")
"""What worlds of policies that are compared have in common."""


def common_world(found: Sequence[Contender], default: WorldConfig) -> WorldConfig:
    """Return the world to evaluate in: that of the first trained policy.

    Args:
        found: who is evaluated.
        default: the world if all are baselines.

    Raises:
        ConfigError: when others were trained with other vessels, sensors or time steps; numbers
            of object slots may differ.
    """
    loaded = [each.trained for each in found if each.trained is not None]
    if not loaded:
        return default
    first = loaded[0]
    for other in loaded[1:]:
        world = Contender.of(other).observing(first.config.world)
        for key in IN_COMMON:
            if getattr(world, key) != getattr(other.config.world, key):
                raise ConfigError(
                    f"{other.path}: world.{key} is not that of {first.path}, so that they cannot be compared"
                )
    return first.config.world


def require_effect(found: Mapping[str, Contender], risk: Any = None, stochastic: bool = False) -> None:
    """Refuse options of acting that are out of range, or change nothing for one of the policies.

    Args:
        found: who is evaluated, by name.
        risk: see ActingOptions.
        stochastic: likewise.

    Raises:
        ConfigError: for the first option and policy.
    """
    fine = risk in (None, "adaptive") or (is_number(risk) and 0.0 < risk <= 1.0)
    require(fine, "--risk", risk, "adaptive, or above 0 and at most 1")
    for name, each in found.items():
        agent = None if each.trained is None else each.trained.agent
        takes_risk, random = (
            agent is not None and getattr(agent, ability) for ability in ("supports_risk", "acts_at_random")
        )
        fine = risk is None or takes_risk
        require(fine, "--risk", risk, f"left out: {name} takes no risk level")
        fine = random or not stochastic
        require(fine, "--stochastic", True, f"left out: {name} acts the same while training")


def require_which(found: Iterable[Contender], given: Mapping[str, Any]) -> None:
    """Refuse ``--which`` where only baselines act, which have no checkpoints.

    Args:
        found: who acts.
        given: the options given, by name.

    Raises:
        ConfigError: when it is there.
    """
    fine = "which" not in given or not all(each.trained is None for each in found)
    require(fine, "--which", given.get("which"), "left out: a baseline has no checkpoints")


def with_risk(policy: Policy, risk: float | Literal["adaptive"]) -> Policy:
    """Make a policy act on the worst outcomes.

    Args:
        policy: reads the risk level, if its agent knows return distributions.
        risk: share of the worst outcomes, in (0, 1], or adapted to the closest object.
    """

    def act(step: Any) -> Any:
        if risk == "adaptive":
            level = nearness_risk(observation_of(step.get(OBSERVATION)))
        else:
            mask = step.get((RISK[0], "mask"))
            level = torch.full(mask.shape, risk, device=mask.device)
        return policy(step.set(RISK, level))

    return act


def returns_scale(loaded: LoadedPolicy) -> float:
    """Factor on rewards in what an agent estimates; 1 for logits."""
    return loaded.config.trainer.reward_scale if loaded.agent.scores_are_returns else 1.0


def with_estimates(policy: Policy, loaded: LoadedPolicy, world: WorldConfig) -> Policy:
    """Make a policy leave what its agent expects of its actions and of the alternatives.

    Args:
        policy: of the agent.
        loaded: the agent.
        world: whose vessels it steers.
    """
    agent, scale, pairs = loaded.agent, returns_scale(loaded), command_pairs(world.vessel)

    def act(step: Any) -> Any:
        acted = policy(step)
        seen, action = observation_of(acted.get(OBSERVATION)), acted.get(ACTION)
        known = agent.return_quantiles(seen, action)
        if known is not None:
            acted.set(QUANTILES, known)
        scores: Tensor | None
        if known is not None and agent.continuous:
            scores, doubtful = _rated(agent, seen, action, pairs.to(action))
            if doubtful is not None:
                acted.set(DOUBTFUL, doubtful)
        else:
            scores = agent.scores(agent.outputs(seen, acted.get(RISK, None)))
        return acted if scores is None else acted.set(SCORES, scores / scale)

    return act


def _rated(agent: Agent[Any], seen: Observation, action: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor | None]:
    """Rate all pairs of commands [A, 2]: mean returns [..., A], and which of them are doubtful."""
    others = [pair.expand_as(action) for pair in pairs]
    by_critic: Any = [agent.critic_quantiles(seen, each) for each in (action, *others)]
    if by_critic[0] is None:
        expected: Any = [agent.return_quantiles(seen, each) for each in others]
        return torch.stack([each.mean(-1) for each in expected], -1), None
    chosen, *means = (each.mean(-1) for each in by_critic)
    by_command = torch.stack(means, -1)
    scores = by_command.mean(0)
    several = len(chosen) > 1
    return scores, critics_differ(by_command, chosen, scores) if several else None


def critics_differ(means: Tensor, chosen: Tensor, scores: Tensor) -> Tensor:
    """Find the actions of which critics differ on how much better or worse than another they are.

    They do if they differ by more than DOUBT of the range of all scores.

    Args:
        means: [C, ..., A] mean returns of A actions by each of C critics.
        chosen: [C, ...] of the action that they are compared with.
        scores: [..., A] of the actions.

    Returns:
        [..., A] bool.
    """
    better = means - chosen[..., None]
    spread, extent = better.amax(0) - better.amin(0), scores.amax(-1) - scores.amin(-1)
    return spread > DOUBT * extent[..., None]


def only_own(policy: Policy, discrete: VesselConfig | None) -> Policy:
    """Make a policy steer robot 0 alone; the others do not change their thrust.

    Args:
        policy: steers all.
        discrete: the commands that actions are indices of; None: actions are continuous.
    """
    hold = 0
    if discrete is not None:
        left, right = (
            min(range(len(commands)), key=lambda index: abs(commands[index]))
            for commands in (discrete.left_thrust_change, discrete.right_thrust_change)
        )
        hold = left * len(discrete.right_thrust_change) + right

    def act(step: Any) -> Any:
        acted = policy(step)
        action = acted.get(ACTION).clone()
        action[:, 1:] = hold
        return acted.set(ACTION, action)

    return act


def run_set(
    found: Contender,
    chosen: ScenarioSet,
    world: WorldConfig,
    acting: ActingOptions,
    device: torch.device,
    name: str | None = None,
    watch: Watch | None = None,
    progress: Progress | None = None,
) -> tuple[Episodes, Recording | None]:
    """Run all scenarios of a set once.

    Args:
        found: who steers.
        chosen: the scenarios.
        world: that the set was made from; what the policy knows of its vessels.
        acting: how a trained policy acts.
        device: where to run.
        name: of the policy in a recording; nothing is recorded if None.
        watch: looks on.
        progress: is told how many episodes of the set have ended.

    Returns:
        What happened, by episode, in the order of the set; and the recording.

    Raises:
        ConfigError: when the vessels of the set are not such as a policy was trained for.
    """
    _check_fit(found, chosen)
    for part in chosen.parts:
        require_room(f"running {len(part.scenarios):,} episodes", _part_bytes(part, name))
    policy, continuous = found.policy(world, acting), found.continuous
    episodes, recordings = [], []
    ended = 0
    for part in chosen.parts:
        observed = found.observing(part.world)
        options: dict[str, Any] = {
            "continuous": continuous,
            "device": device,
            "seed": chosen.seed,
            "drop_ended": not acting.stochastic,
            "watch": watch,
            "progress": _further(progress, ended, len(chosen)),
        }
        ended += len(part.scenarios)
        steers = only_own(policy, None if continuous else world.vessel) if part.only_own else policy
        if name is None:
            episodes.append(evaluation.evaluate(steers, part.scenarios, observed, **options))
            continue
        groups = _groups(part.scenarios, chosen.groups)
        seen, recording = record(steers, part.scenarios, observed, name=name, groups=groups, **options)
        episodes.append(seen)
        recordings.append(recording)
    names = [item.name for item in fields(Episodes)]
    joined = Episodes(**{each: torch.cat([getattr(seen, each) for seen in episodes]) for each in names})
    if not recordings:
        return joined, None
    return joined, replace(concatenate(recordings), reward_scale=found.reward_scale)


def _further(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Count the episodes of a part of a set after those of the parts before it."""
    return None if progress is None else lambda ended, _: progress(before + ended, total)


def _part_bytes(part: Part, name: str | None) -> int:
    """Bytes that running a part of a set takes, and recording it if there is a name."""
    if isinstance(part.scenarios, Scenario):
        shapes = (part.scenarios.robot_mask.shape[-1], part.scenarios.obstacle_mask.shape[-1])
    else:
        shapes = (max(len(each.start) for each in part.scenarios), max(len(each.obstacles) for each in part.scenarios))
    recorded = 0 if name is None else part.world.max_steps * shapes[0] * _RECORDED
    return len(part.scenarios) * (step_bytes(part.world, *shapes) + recorded)


def _check_fit(found: Contender, chosen: ScenarioSet) -> None:
    """Refuse scenario files whose vessels have other commands or see more objects than a policy."""
    if found.trained is None:
        return
    agent, config = found.trained.agent, found.trained.config
    listed = (part.scenarios for part in chosen.parts if not isinstance(part.scenarios, Scenario))
    for episode in (each for scenarios in listed for each in scenarios):
        slots, commands = episode.world.sensor.slots, episode.world.vessel.num_actions
        known, most = agent.num_actions, config.world.sensor.slots
        fine = slots <= most or config.agent.encoder != "concat"
        require(fine, "max_obj_num", slots, f"at most {most}, as the policy was trained with")
        require(
            agent.continuous or commands == known,
            "thrust commands",
            commands,
            f"{known} pairs, which the policy {found.trained.path} chooses from",
        )


def _groups(scenarios: Any, names: Sequence[str]) -> list[str]:
    """The group of each scenario; a file has none."""
    if isinstance(scenarios, Scenario) and names:
        return [names[index] for index in scenarios.level.tolist()]
    return ["all"] * len(scenarios)
