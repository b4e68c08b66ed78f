"""Functions to train, load and compare policies in a program, as the commands do."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack, get_type_hints

import torch
from numpy.typing import NDArray
from torch import Tensor

from marinenav_env.support import plugins
from marinenav_env.support.validation import NonNegativeInt, PositiveInt, check_fields, is_number, require
from train_RL_agents.config.environment import LIBRARY_NAMES
from train_RL_agents.config.overrides import flatten_overrides
from train_RL_agents.config.reading import load_config
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.environments.scoring import evaluate_all
from train_RL_agents.evaluation.comparing.tables import Evaluation, Result
from train_RL_agents.evaluation.judging.policies import EvaluatedPolicy, find_evaluated
from train_RL_agents.experiments.run import run_to_the_end
from train_RL_agents.experiments.seeds import new_runs, resumed_runs
from train_RL_agents.networks.memory import MEMORY
from train_RL_agents.policy_wrapper import PolicyWrapper
from train_RL_agents.run.checkpoint import STOPPED_POLICY_FILE, LoadedPolicy, find_run, load_policy, read_manifest
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.torchrl_trainer import Callback
from train_RL_agents.utils.closest import did_you_mean
from train_RL_agents.utils.compiling import silence_compiler_logs
from train_RL_agents.utils.device import resolve_device

_MAX_OBSERVED_VALUE = 1e15
"""Largest accepted magnitude of an observed number; squares of much larger ones are infinite in single precision."""


class EvaluationOptions(TypedDict, total=False):
    """Options of an evaluation: scenarios, and how policies act; see ``marinenav evaluate``."""

    levels: Sequence[int]
    """Levels, from 1; by default all."""
    suite: str
    """Name of a suite instead of levels; see docs/evaluation.md."""
    scenarios: str | Path
    """Scenario file instead of levels."""
    strict: bool
    """True to reject a file with goals in obstacles, contact at the start or positions off the map."""
    episodes: PositiveInt
    """Number of episodes per level, or per group of a suite; by default that of the evaluations during training, or of
    the suite."""
    seed: NonNegativeInt
    """Seed of scenarios and noise; by default that of the evaluations during training, or of the suite."""
    fresh: bool
    """True for new scenarios and noise."""
    risk: float
    """Share of the worst outcomes to act on (CVaR level) in (0, 1], for agents that estimate distributions."""
    others: str
    """Policy or baseline that steers the other vessels of the suites that end in ``_own``; with the prefix ``blind:``
    it sees no objects."""
    stochastic: bool
    """True to act as in training, but without added exploration: PPO, A2C and SAC sample, Rainbow keeps its noise, IQN
    samples its fractions if agent.random_fractions is set."""
    shield: bool
    """True to replace commands after which no escape manoeuvre would be left; see docs/evaluation.md."""
    judge: tuple[str, ...]
    """Profiles of the rules of the sea that judge the same encounters; see docs/evaluation.md."""


_EXCLUSIVE_OPTIONS = {"levels", "suite", "scenarios"}, {"seed", "fresh"}, {"risk", "stochastic"}
"""Groups of evaluation options that exclude each other."""


@dataclass(frozen=True)
class Policy:
    """Trained policy, with the configuration and the metrics of its run."""

    name: str
    """Name or path that the user gave, and which policy of the run unless it is the best."""
    loaded: LoadedPolicy
    """Agent, configuration, file, env-steps and evaluation metrics of the policy."""
    _memories: dict[Any, Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Memory of a recurrent policy after the latest call of ``act`` for each robot and batch shape."""

    def __repr__(self) -> str:
        return f"<Policy {self.name}: {self.config.agent_type} after {self.loaded.env_steps:,} env-steps>"

    @property
    def config(self) -> TrainConfig[Any]:
        """Return the configuration of the run that trained the policy."""
        return self.loaded.config

    @property
    def continuous(self) -> bool:
        """Return whether actions are commands in [-1, 1] instead of indices of thrust-change pairs."""
        return self.loaded.agent.continuous

    @property
    def module(self) -> PolicyWrapper:
        """Return a module that acts in a MarineNavEnv, as in ``env.rollout(100, policy.module)``."""
        return PolicyWrapper(self.loaded.agent)

    def reset(self) -> None:
        """Forget what ``act`` observed; call it at the start of an episode, if the policy has a memory."""
        self._memories.clear()

    def act(
        self, observation: Mapping[str, Any], risk: float | None = None, is_init: Any = None, robot: Hashable = None
    ) -> NDArray[Any]:
        """Return the best action for an observation; a recurrent policy remembers the calls since ``reset``.

        Args:
            observation: entries by name, [..., S] with the shape S of the entry, as the environments of Gymnasium and
                PettingZoo return them.
            risk: share of the worst outcomes to act on (CVaR level), in (0, 1]; by default as configured.
            is_init: [...] bool, where an episode begins: what was observed there before is forgotten.
            robot: name of the robot, if several ask in turn, since each has a memory of its own.

        Returns:
            Left and right command [..., 2] in [-1, 1], or indices [...] of thrust-change pairs.

        Raises:
            ConfigError: if an entry is missing or not as specified, or the risk is out of range.
        """
        require(risk is None or (is_number(risk) and 0.0 < risk <= 1.0), "risk", risk, "in (0, 1]")
        is_usable = risk is None or self.loaded.agent.supports_risk
        require(is_usable, "risk", risk, f"left out: {self.name} takes no risk level")
        agent, entries = self.loaded.agent, self.loaded.agent.spec.entries
        device = next(agent.parameters()).device
        missing = ", ".join(entries.keys() - observation.keys())
        require(not missing, "observation", "...", f"with the entries {missing}")
        given = {name: torch.as_tensor(observation[name], device=device) for name in entries}
        first, entry = next(iter(entries.items()))
        batch = tuple(given[first].shape[: max(given[first].ndim - len(entry.shape), 0)])
        inputs: dict[str, Tensor] = {}
        for name, entry in entries.items():
            key, value, shape = f"observation[{name!r}]", given[name], (*batch, *entry.shape)
            require(value.shape == shape, key, tuple(value.shape), f"of shape {shape}")
            in_range = bool((value.double().abs() <= _MAX_OBSERVED_VALUE).all())
            require(in_range, key, value, f"finite, at most {_MAX_OBSERVED_VALUE:g} in size")
            inputs[name] = value.to(entry.dtype(torch.float32)).reshape(-1, *entry.shape)
        level = None if risk is None else torch.full((math.prod(batch),), risk, device=device)
        if agent.memory_size:
            blank = torch.zeros(math.prod(batch), agent.memory_size, device=device)
            begins = torch.as_tensor(False if is_init is None else is_init, device=device).bool()
            pairs = zip(begins.shape, batch, strict=False)
            fits = begins.ndim in (0, len(batch)) and all(size in (1, most) for size, most in pairs)
            require(fits, "is_init", tuple(begins.shape), f"of shape {batch}")
            begins = begins.expand(batch).reshape(-1, 1)
            inputs[MEMORY] = torch.where(begins, blank, self._memories.get((robot, batch), blank))
        with torch.no_grad():
            outputs = agent.outputs(inputs, level)
            action = agent.select(outputs)
        if agent.memory_size:
            self._memories[robot, batch] = agent.remember(inputs, outputs)
        return action.reshape((*batch, *action.shape[1:])).cpu().numpy()

    def evaluate(self, device: str = "cpu", **options: Unpack[EvaluationOptions]) -> Result:
        """Evaluate the policy, and return its metrics by level and overall.

        Args:
            device: auto, cpu, cuda or cuda:N.
            options: scenarios, and how the policy acts; see EvaluationOptions.

        Raises:
            ConfigError: if an option cannot be used.
        """
        return compare(self, device=device, **options).results[0]


def load(path: str | Path, which: str = "best", device: str = "cpu") -> Policy:
    """Load a policy.

    Args:
        path: name of a shipped policy (``iqn``), run folder or policy file.
        which: policy of a run: best, latest or a file's name.
        device: auto, cpu, cuda or cuda:N.

    Raises:
        ConfigError: if there is no such policy, or it is damaged.
    """
    name = str(path) if which == "best" else f"{path} ({which})"
    return Policy(name, load_policy(path, which, resolve_device(device)))


def compare(*policies: str | Path | Policy, device: str = "cpu", **options: Unpack[EvaluationOptions]) -> Evaluation:
    """Evaluate policies and baselines on the same scenarios, and compare the others to the first.

    Args:
        policies: names of shipped policies or baselines (straight, apf, orca), run folders, policy files, or
            results of ``load``.
        device: auto, cpu, cuda or cuda:N; loaded policies are moved there.
        options: scenarios, and how policies act; see EvaluationOptions.

    Returns:
        The results, which are printed as a table; ``rows`` can be made into a data frame.

    Raises:
        ConfigError: if there is no such policy, or an option cannot be used.
    """
    require(len(policies) > 0, "policies", 0, "one or more")
    allowed_options = EvaluationOptions.__annotations__
    for name, value in options.items():
        allowed = f"left out; there are {', '.join(allowed_options)}{did_you_mean(name, allowed_options)}"
        require(name in allowed_options, name, value, allowed)
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    types = get_type_hints(EvaluationOptions, include_extras=True)
    types |= {"levels": tuple[int, ...]}
    stated: Any = make_dataclass("Options", [(name, types[name]) for name in given])(**given)
    check_fields(stated)
    stated = vars(stated)
    for group in _EXCLUSIVE_OPTIONS:
        both = sorted(stated.keys() & group)
        require(len(both) <= 1, " and ".join(both), "...", "given one at a time")
    target = resolve_device(device)
    found: dict[str, EvaluatedPolicy] = {}
    for policy in policies:
        if isinstance(policy, Policy):
            policy.loaded.agent.to(target)
            found[policy.name] = EvaluatedPolicy.from_loaded(policy.loaded)
        else:
            found[str(policy)] = find_evaluated(str(policy), "best", target)
    require(len(found) == len(policies), "policies", ", ".join(found), "given once each")
    if "others" in stated:
        stated["others"] = find_evaluated(stated["others"], "best", target)
    return evaluate_all(found, stated, target)


@dataclass(frozen=True)
class TrainedRun:
    """Result of a training run."""

    folder: Path
    """Path of the run folder."""
    finished: bool
    """True if the run reached its end; false if a signal or a callback stopped it, and it can be resumed."""
    evaluations: list[dict[str, Any]]
    """Metrics of each evaluation by name, with its ``env_steps``."""
    best: dict[str, Any]
    """Metrics of the best policy by name, such as ``success_rate``; empty without an evaluation."""

    @classmethod
    def read(cls, folder: RunFolder, finished: bool) -> TrainedRun:
        """Return the result of a run from what its folder has."""
        manifest = read_manifest(folder.checkpoints)
        # The policy of a run that stopped was not evaluated.
        evaluations = {
            entry["file"]: {"env_steps": entry["env_steps"], **entry["metrics"]}
            for entry in manifest["policies"]
            if entry["file"] != STOPPED_POLICY_FILE
        }
        best = evaluations.get(manifest.get("best", ""), {})
        return cls(folder.path, finished, list(evaluations.values()), best)

    def __repr__(self) -> str:
        state = "finished" if self.finished else "stopped"
        best = self.best.get("success_rate")
        shown = "" if best is None else f", best success {best:.3f}"
        return f"<TrainedRun {self.folder}: {state}, {len(self.evaluations)} evaluations{shown}>"

    def load(self, which: str = "best") -> Policy:
        """Load a policy of the run, as the function ``load`` does."""
        return load(self.folder, which)


def train(
    agent: str = "",
    /,
    *,
    config: str | Path | None = None,
    resume: str | Path | None = None,
    profile: str = "auto",
    quiet: bool = False,
    bar: bool = True,
    callbacks: Iterable[Callback] = (),
    **settings: Any,
) -> TrainedRun:
    """Train an agent with one seed; settings are those of ``marinenav train``.

    Args:
        agent: name of the agent, also by keyword; by default that of the configuration.
        config: JSON file with settings, or name of a shipped one.
        resume: run folder to resume; only the settings that ``marinenav train --help`` lists may change.
        profile: name of a profile with sizes for a device; see docs/scaling.md.
        quiet: true to print nothing.
        bar: true to show a progress bar.
        callbacks: functions that are called with the TorchRLTrainer after every iteration of the training loop.
        settings: values such as ``total_timesteps=500_000``, ``trainer={"batch_size": 256}``, or
            ``**{"trainer.batch_size": 256}``; levels may be ``Level`` objects.

    Returns:
        The run and its evaluations, even if it was stopped.

    Raises:
        ConfigError: if a setting cannot be used.
    """
    for name, value, usual in (("config", config, None), ("profile", profile, "auto")):
        require(resume is None or value == usual, name, value, "left out with resume: a run has its own")
    if isinstance(settings.get("agent"), str):  # a mapping has settings of the agent
        require(not agent, "agent", settings["agent"], "given once")
        agent = settings.pop("agent")
    if ":" in agent:
        # A plugin that a program names may be imported, as on the command line.
        plugins.allow(agent)
    env = str(flatten_overrides(settings).get("env.name", ""))
    if ":" in env and env.partition(":")[0] not in LIBRARY_NAMES:
        plugins.allow(env)
    silence_compiler_logs()
    overrides = ({"agent_type": agent} if agent else {}) | settings
    options: dict[str, Any] = {"quiet": quiet, "bar": bar, "callbacks": tuple(callbacks)}
    if resume is None:
        file = Path(config) if config else None
        seeds = load_config(file, overrides).seed
        require(len(seeds) == 1, "seed", seeds, "one number; call train for each")
        (run,) = new_runs(file, overrides, profile, **options)
    else:
        (run,) = resumed_runs(find_run(Path(resume)), overrides, **options)
    return TrainedRun.read(run.folder, run_to_the_end(run).finished)
