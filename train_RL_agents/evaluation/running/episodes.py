"""Episodes of a policy in the built-in world, many at once.

As published, an episode is a success when every robot arrives, and for success, collision,
time, energy and return it stops at the first collision. The world continues after the collision,
so that the share of single robots that arrive is known from the same run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marinenav_env import GROUP, Episode, Level, MarineNavEnv, WorldConfig
from marinenav_env.runtime.execution import EAGER_EXECUTION, Execution
from marinenav_env.runtime.host_reads import host_reads_are_free, true_indices
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.complete import CompleteSampler
from marinenav_env.scenarios.parameters import with_default_weights
from marinenav_env.scenarios.reset import controlled_robots, select_entries
from marinenav_env.specs import INIT
from marinenav_env.state import Outcome, Scenario, WorldState
from train_RL_agents.evaluation.running.others import MEMORIES
from train_RL_agents.evaluation.running.steps import (
    PROGRESS_INTERVAL,
    EpisodeSums,
    Policy,
    ProgressCallback,
    StepCallback,
    Transition,
    add_step,
    episode_rows,
    run_until_ended,
    zero_sums,
)
from train_RL_agents.policy_wrapper import PolicyWrapper
from train_RL_agents.utils.rows import Episodes

MIN_BATCH_SIZE = 32
"""Smallest number of episodes to which a batch is reduced."""


def draw_scenarios(world: WorldConfig, levels: Sequence[Level], episodes: Sequence[int], seed: int) -> Scenario:
    """Draw a fixed evaluation set, level after level, float64 on the CPU.

    The same seed gives the same scenarios on every machine. ``episodes`` are the numbers of scenarios of the levels,
    which the section ``scenario`` of the world constrains.
    """
    sampler = CompleteSampler(world.scenario, tuple(levels), torch.device("cpu"), torch.float64)
    level = torch.repeat_interleave(torch.arange(len(levels)), torch.tensor(list(episodes)))
    return sampler.sample(level, torch.Generator().manual_seed(seed))


def run_episodes(
    policy: Policy,
    scenarios: Scenario | Sequence[Episode],
    world: WorldConfig,
    *,
    drop_ended: bool = True,
    only_own: bool = False,
    seed: int = 0,
    on_step: StepCallback | None = None,
    progress: ProgressCallback | None = None,
    **options: Any,
) -> Episodes:
    """Run each of N scenarios once, all in one batch, with a policy in evaluation mode; return the episodes.

    The measurement noise depends only on the seed, the index of the episode and the number of the step in it, so the
    same arguments give the same numbers. On a CPU ended episodes leave the batch, unless ``drop_ended`` is false, as it
    must be for policies that draw random numbers. With ``only_own`` the results are those of robot 0, the only one that
    the policy controls. The further options are ``continuous``, whether actions are, ``device``, ``dtype`` and others
    of MarineNavEnv.
    """
    env = make_evaluation_env(scenarios, world, seed=seed, **options)
    return EpisodeRunner(policy, env, seed, drop_ended=drop_ended, only_own=only_own).run(on_step, progress)


def make_evaluation_env(scenarios: Scenario | Sequence[Episode], world: WorldConfig, **options: Any) -> MarineNavEnv:
    """Return environments, one for each of N scenarios, which go on after the first collision; see MarineNavEnv."""
    return MarineNavEnv(replace(world, ends_at_first_collision=False), scenarios=scenarios, **options)


def can_share_code(training: MarineNavEnv, evaluation: MarineNavEnv) -> bool:
    """Return whether the compiled step of a training environment serves the environments of an evaluation as well."""
    return (
        training.num_envs >= evaluation.num_envs
        and with_default_weights(training.config) == with_default_weights(evaluation.config)
        and training.num_robots == evaluation.num_robots
        and torch.equal(training.world.quantiles, evaluation.world.quantiles)  # a constant of the code
        # Code of a world without weather would be compiled once more.
        and (training.constants.weather is not None or evaluation.constants.weather is None)
    )


def rows_to_keep(running: Tensor) -> Tensor | None:
    """Return the rows of a batch that remain in it, ascending, given the mask [B] of running episodes; None if all do.

    Sizes are powers of two, filled up with episodes that have ended, because matrix products of other sizes may be
    rounded differently.
    """
    size = max(MIN_BATCH_SIZE, 1 << (int(running.sum()) - 1).bit_length())
    if size >= len(running):
        return None
    return running.to(torch.int8).argsort(descending=True, stable=True)[:size].sort().values


def _with_entries(step: TensorDictBase, entries: dict[str, Tensor]) -> TensorDictBase:
    """Return a step with entries [E, R, ...] of the robots set by their names."""
    for name, entry in entries.items():
        step.set((GROUP, name), entry)
    return step


_RunState = tuple[WorldState, EpisodeSums, dict[str, Tensor]]
"""State of running episodes: the world, their sums, and the memories [B, R, H] of recurrent policies (MEMORIES)."""


class EpisodeRunner:
    """Loop that runs the same N scenarios with a policy, once in every call of ``run``; all begin at once.

    - On a GPU all scenarios stay in the same tensors, so that a step can be compiled and captured as
      ``execution`` says, which requires a PolicyWrapper; the next step overwrites the results of a captured one.
    - On a CPU with compiled code, that of the environments ``compiled``, the batch has as many environments as these.
      There is one for each scenario; the others run the last one, and their results are not read.
    - Elsewhere on a CPU ended episodes leave the batch if ``drop_ended`` is true.

    ``env`` are new environments of the scenarios; see ``run_episodes`` for ``seed`` and ``only_own``.
    """

    def __init__(
        self,
        policy: Policy,
        env: MarineNavEnv,
        seed: int,
        compiled: MarineNavEnv | None = None,
        *,
        drop_ended: bool = True,
        only_own: bool = False,
        execution: Execution = EAGER_EXECUTION,
    ) -> None:
        self.policy, self._env, self._only_own = policy, env, only_own
        self._stepper, self._start, device = compiled or env, env.world_state, env.generator.device
        self._on_cpu = host_reads_are_free(device)
        self._drops_ended = drop_ended and compiled is None and self._on_cpu
        self._seconds = env.config.control_step
        self._num_actions = None if env.continuous else env.num_discrete_actions
        self._no_action = self._stepper.action_spec.zero().get((GROUP, "action"))
        rows = torch.arange(self._stepper.num_envs, device=device).clamp_max(env.num_envs - 1)
        self._first_source = RandomSource.from_seed(seed, 1, device)._replace(environment=rows)
        # Compiled code is reused only for calls with the same types of arguments.
        self._episodes = None if compiled is None else compiled.episodes.placeholder(self._first_source)
        self.loop = execution.make_loop(self._step, self._begin(), device, name="an evaluation step")
        """Loop that makes a control step of B environments at every call."""

    def run(self, on_step: StepCallback | None = None, progress: ProgressCallback | None = None) -> Episodes:
        """Run every scenario once, and return the episodes; with code of other environments there is no callback."""
        self.loop.state = self._begin()

        def make_step() -> None:
            seen = self.loop()
            if on_step is not None:
                on_step(Transition(self._source.environment, *seen), self._env)

        # Counting synchronises a GPU.
        every = 1 if self._on_cpu and self._episodes is None else PROGRESS_INTERVAL
        numbers = range(self._env.config.max_steps)
        run_until_ended(make_step, self._count_ended, self._env.num_envs, numbers, every, progress)
        self._store()
        return episode_rows(self._all_sums, self._env.scenario, self._num_actions, self._only_own)

    def _begin(self) -> _RunState:
        """Return the state in which the scenarios start."""
        self._source, self._count = self._first_source, self._env.num_envs
        rows, like = self._source.environment, self._env.state.pose[:1, :, 0]
        self._all_sums = zero_sums(like, self._count)  # new ones, which the results of a run share memory with
        memories = {}
        if isinstance(self.policy, PolicyWrapper):
            blank = self.policy.blank_memory(torch.Size([len(rows), self._env.num_robots]))
            memories = {} if blank is None else {MEMORIES[0]: blank}
        return select_entries(self._start, rows), zero_sums(like, len(rows)), memories

    def _count_ended(self) -> int:
        """Return how many of all episodes have ended, and let these leave the batch where they do."""
        now, count = self.loop.state[0].now, self._count
        running = controlled_robots(now)[:count].any(-1) & (now.state.steps[:count] < self._env.config.max_steps)
        ended = self._env.num_envs - int(running.sum())
        kept = rows_to_keep(running) if self._drops_ended else None
        if kept is not None:
            self._store()
            world, sums, memories = self.loop.state
            self._source, self._count = self._source._replace(environment=self._source.environment[kept]), len(kept)
            sums, memories = ({name: tensor[kept] for name, tensor in each.items()} for each in (sums, memories))
            self.loop.state = select_entries(world, kept), sums, memories
        return ended

    def _store(self) -> None:
        """Store the sums of the episodes of the batch."""
        for name, total in self.loop.state[1].items():
            self._all_sums[name][self._source.environment[: self._count]] = total[: self._count]

    def _step(self, state: _RunState) -> tuple[_RunState, tuple[TensorDictBase, WorldState, WorldState, Outcome]]:
        """Make a control step of all environments, and return the fields of a Transition after ``rows``; see Loop."""
        world, sums, memories = state
        if self.loop.captures:  # the transition must share no memory with the state
            world = WorldState(world.now.apply(Tensor.clone), world.parameters)
        acted = self._act(world, memories)
        found = {name: acted.get((GROUP, name), None) for name in MEMORIES}
        memories = {name: memory.clone() for name, memory in found.items() if memory is not None}
        action = acted.get((GROUP, "action"))
        # A separate tensor, as in training, because compiled code depends on which arguments are the same tensor.
        noise = self._source._replace(step=world.now.state.steps.clone())
        result = self._stepper.world.step(world, action, noise, self._episodes)
        sums = add_step(sums, world.now, action, result.outcome, self._seconds, self._num_actions)
        after = WorldState(result.world.now, world.parameters)
        return (after, sums, memories), (acted, world, after, result.outcome)

    def _act(self, world: WorldState, memories: dict[str, Tensor]) -> TensorDictBase:
        """Return the policy's input with its actions and the memories after them."""
        active = controlled_robots(world.now)
        acting = true_indices(active[: self._count].any(-1))
        if acting is None or self._episodes is None:
            return self.policy(_with_entries(self._env.to_tensordict(world), memories))
        # Contiguous: PyTorch's norms take ten times as long with environments innermost.
        observation = {name: value[acting].contiguous() for name, value in world.now.observation.items()}
        mask = active[acting]
        group = TensorDict({"observation": TensorDict(observation, mask.shape), "mask": mask}, mask.shape)
        written = {"action": self._no_action.clone(), **memories}
        if len(acting):
            begins = world.now.state.steps[acting, None] == 0
            step = TensorDict({GROUP: group, INIT: begins}, mask.shape[:1])
            acted = self.policy(_with_entries(step, {name: memory[acting] for name, memory in memories.items()}))
            for name, rows in written.items():
                rows[acting] = acted.get((GROUP, name)).to(rows)
        return _with_entries(TensorDict({}, active.shape[:1]), written)
