"""Repeated evaluation on the same scenarios, in the environments of one world."""

from __future__ import annotations

import math

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marinenav_env import GROUP, MarineNavEnv
from marinenav_env.runtime.execution import EAGER_EXECUTION, Execution
from marinenav_env.runtime.host_reads import true_indices
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.reset import NewEpisodes, controlled_robots, reset_environments, select_entries
from marinenav_env.state import Outcome, WorldState
from train_RL_agents.evaluation.tally import CHECK_INTERVAL, Policy, ProgressCallback, StepCallback, Tally, Transition
from train_RL_agents.results.rows import Episodes

REFILL_INTERVAL = 5
"""Vector steps between two checks for environments in which the next episode can begin."""


def can_shrink_batch(env: MarineNavEnv) -> bool:
    """Return whether ended episodes may leave a batch, that is, whether counting them does not sync the device."""
    return true_indices(env.state.active[:, 0]) is not None


_RunState = tuple[WorldState, dict[str, Tensor]]
"""State of a running evaluation: the world, and the sums of its episodes by name (see Tally.initial_sums)."""


class RepeatedEvaluation:
    """Evaluation that runs the same scenarios repeatedly, with all state in the same tensors on a GPU.

    Thus a step can be compiled and captured once on a GPU, for all scenarios together. Whether all have ended is read
    on the host only every CHECK_EVERY steps.

    On a CPU the compiled step of a training environment can be used instead of the evaluation's own step, which is not
    compiled and takes ten times as long. The training's code is compiled for a fixed number of environments; if there
    are more scenarios, the next one begins in an environment whose episode has ended. For this, ended episodes are
    looked for at least every REFILL_INTERVAL steps.

    Args:
        policy: policy in evaluation mode, which writes actions.
        env: new environments of the N scenarios, with the seed.
        seed: seed of the measurement noise.
        stepper: environment whose world makes the steps of a batch of B environments, see ``same_code``; its
            state is not changed. None: ``env``.
        execution: settings of the execution: whether a step is compiled on a GPU, which requires a PolicyWrapper, and
            whether it is captured there; the next step overwrites the results of a captured one.
    """

    def __init__(
        self,
        policy: Policy,
        env: MarineNavEnv,
        seed: int,
        stepper: MarineNavEnv | None = None,
        execution: Execution = EAGER_EXECUTION,
    ) -> None:
        self.policy, self._env = policy, env
        self._stepper, self._tally = stepper or env, Tally(env)
        self._start, device = env.world_state, env.generator.device
        self._count = min(env.num_envs, self._stepper.num_envs)
        self._source = RandomSource.from_seed(seed, self._stepper.num_envs, device)
        # The compiled code of a training is reused only for calls with the same types of arguments.
        self._episodes = None if stepper is None else stepper.placeholder_episodes(self._source)
        self._has_callback = False
        self.loop = execution.make_loop(self._step, self._begin(), device, name="an evaluation step")
        """Loop that makes a control step of B environments at every call."""

    @torch.no_grad()
    def run(self, on_step: StepCallback | None = None, progress: ProgressCallback | None = None) -> Episodes:
        """Run every scenario once.

        Args:
            on_step: callback of every step.
            progress: callback with the number of ended episodes and the number of all episodes.

        Returns:
            The episodes, the same as those of ``evaluate``, up to rounding.
        """
        total, count = self._env.num_envs, self._count
        self.loop.state, waiting = self._begin(), total - count
        most, rounds = self._env.config.max_steps, -(-total // count)
        # A divisor of the largest number of steps, so that no episode continues when its time is up.
        every = CHECK_INTERVAL if rounds == 1 else math.gcd(most, REFILL_INTERVAL)
        for number in range(most * rounds):
            if number % every == 0:
                running = self._running()
                ended = total - waiting - int(running.sum())
                if progress is not None and number % CHECK_INTERVAL == 0:
                    progress(ended, total)
                if ended == total:
                    break
                if rounds > 1:
                    waiting = self._refill(running, waiting)
            self._has_callback = on_step is not None
            seen = self.loop()
            if on_step is not None and on_step(Transition(self._rows, *seen).first_episodes(count), self._env) is False:
                on_step = None
        self._store(slice(count))
        return self._tally.episodes(self._env.scenario)

    def _begin(self) -> _RunState:
        """Start the first scenario of each of the B environments; return the world's state and zero sums of metrics."""
        source = self._source.environment
        # With fewer scenarios than environments, the others run the last scenario; their results are not read.
        self._rows = torch.arange(len(source), device=source.device).clamp_max(self._env.num_envs - 1)
        source.copy_(self._rows)
        return select_entries(self._start, self._rows), self._tally.initial_sums(len(source))

    def _running(self) -> Tensor:
        """Return the bool mask [min(B, N)] of environments whose episode goes on, of B environments and N scenarios."""
        now, count = self.loop.state[0].now, self._count
        return controlled_robots(now)[:count].any(-1) & (now.state.steps[:count] < self._env.config.max_steps)

    def _refill(self, running: Tensor, waiting: int) -> int:
        """Begin waiting episodes in environments whose episode has ended.

        Args:
            running: [B] bool mask of the environments whose episode has not ended.
            waiting: number of episodes that have not begun; they are the last ones of the set.

        Returns:
            The number of episodes that have still not begun.
        """
        (now, parameters), sums = self.loop.state
        # Without waiting episodes, robots whose time is up are deactivated.
        due = ~running if waiting else ~running & now.state.active.any(-1)
        if not due.any():
            return waiting
        free = due.nonzero().squeeze(-1)[:waiting]
        self._store(free)
        first = self._env.num_envs - waiting
        self._rows = self._rows.index_put((free,), torch.arange(first, first + len(free), device=free.device))
        self._source.environment.copy_(self._rows)
        begins = torch.zeros_like(running).index_fill(0, free, True)
        now = now.clone(recurse=False)
        now.statistics = None  # only training environments have them
        world = reset_environments(begins, NewEpisodes(self._start, self._rows), WorldState(now, parameters))
        world.now.state.active &= (running | begins)[:, None]
        for name, blank in self._tally.initial_sums(len(free)).items():
            sums[name][free] = blank
        self.loop.state = world, sums
        return waiting - len(free)

    def _store(self, environments: Tensor | slice) -> None:
        """Store the sums of the episodes that ran in some environments in the tally."""
        for name, total in self.loop.state[1].items():
            self._tally.sums[name][self._rows[environments]] = total[environments]

    def _step(self, state: _RunState) -> tuple[_RunState, tuple[TensorDictBase, WorldState, WorldState, Outcome]]:
        """Make a control step of all environments, and return the fields of a Transition after ``rows``; see Loop."""
        world, sums = state
        if self.loop.captures:  # the transition must share no memory with the state
            world = WorldState(world.now.apply(Tensor.clone), world.parameters)
        acted = self._act(world)
        action = acted.get((GROUP, "action"))
        # A separate tensor, as in training, because compiled code depends on which arguments are the same tensor.
        noise = self._source._replace(step=world.now.state.steps.clone())
        result = self._stepper.world.step(world, action, noise, self._episodes)
        sums = self._tally.updated_sums(sums, world.now, action, result.outcome)
        after = WorldState(result.world.now, world.parameters)
        return (after, sums), (acted, world, after, result.outcome)

    def _act(self, world: WorldState) -> TensorDictBase:
        """Return the policy's input with its actions.

        On a CPU the policy acts only in environments with an active robot, and the input is complete only if there is
        a callback.
        """
        active = controlled_robots(world.now)
        acting = true_indices(active[: self._count].any(-1))
        if acting is None or self._episodes is None:
            return self.policy(self._env.to_tensordict(world))
        # Contiguous: PyTorch's norms take ten times as long with environments innermost.
        observation = {name: value[acting].contiguous() for name, value in world.now.observation.items()}
        mask = active[acting]
        group = TensorDict({"observation": TensorDict(observation, mask.shape), "mask": mask}, mask.shape)
        actions = self._stepper.action_spec.zero().get((GROUP, "action"))
        if len(acting):
            acted = self.policy(TensorDict({GROUP: group}, mask.shape[:1]))
            actions[acting] = acted.get((GROUP, "action")).to(actions)
        if self._has_callback:
            return self._env.to_tensordict(world).set((GROUP, "action"), actions)
        return TensorDict({(GROUP, "action"): actions}, active.shape[:1])
