"""Evaluations during a training, by the compiled code of the training world.

A step of generated code takes a tenth of the time of one of PyTorch's operators. The code is made
for a number of environments, so scenarios are evaluated in batches of that number; all episodes of
a batch start together, since the measurement noise follows from the step of the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from tensordict import TensorDict
from torch import Tensor

from marinenav_env import GROUP, MarineNavEnv, WorldConfig
from marinenav_env.config import RewardConfig
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.restart import steered
from marinenav_env.state import Outcome
from marinenav_env.stepping.world import WorldState
from train_RL_agents.evaluation.episodes import (
    CHECK_EVERY,
    GAMMA,
    Episodes,
    Moment,
    Progress,
    Tally,
    Watch,
)
from train_RL_agents.policy_wrapper import PolicyWrapper

_TENSORS = ("timestep_penalty", "COLREGs_penalty", "collision_penalty", "goal_reward")
"""Settings of the reward that compiled code reads from tensors (see Rules)."""


def same_code(training: MarineNavEnv, evaluation: MarineNavEnv) -> bool:
    """Return whether the compiled step of a training world also computes an evaluation.

    Args:
        training: whose code is compiled.
        evaluation: the world of the evaluation, which never ends at the first collision.
    """

    def in_code(world: WorldConfig) -> WorldConfig:
        published = {name: getattr(RewardConfig(), name) for name in _TENSORS}
        return replace(world, reward=replace(world.reward, **published))

    ours, theirs = training.world, evaluation.world
    return (
        in_code(training.config) == in_code(evaluation.config)
        and training.num_robots == evaluation.num_robots
        # Constants of the code: noise of measured radii, and whether detections can be missed.
        and torch.equal(ours.quantiles, theirs.quantiles)
        and (ours.weather or not theirs.weather)
    )


class BatchedEvaluation:
    """Evaluates a policy on the same scenarios again and again, in a compiled world.

    Args:
        policy: acts; in evaluation mode.
        env: the world of the evaluation, with its N scenarios; see ``same_code``.
        compiled_env: whose compiled code steps B environments at a time; its state is not touched.
        seed: of the measurement noise.
    """

    def __init__(
        self, policy: PolicyWrapper, env: MarineNavEnv, compiled_env: MarineNavEnv, seed: int
    ) -> None:
        self.policy, self._env, self._stepper, self._seed = policy, env, compiled_env, seed
        self._tally = Tally(env)

    @torch.no_grad()
    def run(self, watch: Watch | None = None, progress: Progress | None = None) -> Episodes:
        """Run every scenario once.

        Args:
            watch: see ``evaluate``.
            progress: is told how many episodes have ended.

        Returns:
            What happened, by episode; the same as ``evaluate`` gives, to rounding.
        """
        self._tally.clear()
        total, ended = self._env.num_envs, 0
        device = self._env.generator.device
        for rows in torch.arange(total, device=device).split(self._stepper.num_envs):
            for running in self._run_batch(rows, watch):
                if progress is not None:
                    progress(ended + len(rows) - running, total)
            ended += len(rows)
        return self._tally.episodes(self._env.scenario)

    def _run_batch(self, rows: Tensor, watch: Watch | None) -> Iterator[int]:
        """Run some scenarios, and add them to the tally.

        Args:
            rows: [n] ascending: which scenarios, at most B.
            watch: see ``evaluate``.

        Yields:
            Episodes that have not ended, every few steps.
        """
        count, slots = len(rows), self._stepper.num_envs
        # The other environments of the batch hold the last scenario, and nobody looks at them.
        padded = torch.cat((rows, rows[-1:].expand(slots - count)))
        world = self._env.world.begin(self._env.world_state, padded)
        source = RandomSource.seeded(self._seed, slots, rows.device)
        source = source._replace(environment=padded)
        sums = {name: each[padded] for name, each in self._tally.sums.items()}
        actions = self._stepper.action_spec.zero().get((GROUP, "action"))
        for number in range(self._env.config.max_steps):
            active = steered(world.now)[:count]
            if number % CHECK_EVERY == 0:
                running = int(world.now.state.active[:count].any(-1).sum())
                yield running
                if not running:
                    break
            before, acting = world, active.any(-1).nonzero().squeeze(-1)
            actions.zero_()
            if len(acting):
                actions[acting] = self._chosen(world.now.observation, active, acting).to(actions)
            world, outcome = self._stepper.step_without_reset(before, actions, source.take())
            if watch is not None:
                moment = self._moment(rows, before, actions, world, outcome)
                watch = watch if watch(moment, self._env) is not False else None
            sums = self._tally.after(sums, GAMMA**number, before.now, actions, outcome)
        for name, each in sums.items():
            self._tally.sums[name][rows] = each[:count]

    def _chosen(self, observation: TensorDict, active: Tensor, acting: Tensor) -> Tensor:
        """Return the actions [M, R, ...] in the environments in which a robot acts.

        Args:
            observation: every entry by name, [B, R, ...].
            active: [n, R] bool: robots that actions control.
            acting: [M] int64: the environments.
        """
        # Contiguous: PyTorch's norms take ten times as long with environments innermost.
        seen = {name: each[acting].contiguous() for name, each in observation.items()}
        mask = active[acting]
        group = TensorDict({"observation": TensorDict(seen, mask.shape), "mask": mask}, mask.shape)
        acted = self.policy(TensorDict({GROUP: group}, mask.shape[:1]))
        return acted.get((GROUP, "action"))

    def _moment(
        self, rows: Tensor, before: WorldState, action: Tensor, after: WorldState, outcome: Outcome
    ) -> Moment:
        """A step as those who look on see it: of the scenarios of the batch alone."""
        count, parameters = len(rows), before.parameters
        kept = parameters if parameters.batch_size[0] == 1 else parameters[:count]

        def cut(world: WorldState) -> WorldState:
            return WorldState(world.now[:count], kept)

        step = self._env.to_tensordict(cut(before)).set((GROUP, "action"), action[:count].clone())
        return Moment(rows, step, cut(before), cut(after), outcome[:count])
