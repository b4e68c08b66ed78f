"""On-policy learning: rollouts of the current policy, advantages, and minibatches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.objectives.value.functional import generalized_advantage_estimate

from marinenav_env import GROUP
from marinenav_env.runtime.host_reads import true_indices
from train_RL_agents.agents import Agent
from train_RL_agents.agents.actor_critic import ActorCriticAgent
from train_RL_agents.agents.batches import RolloutBatch, weighted_mean
from train_RL_agents.agents.trainer_configs import OnPolicyConfig
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.learning.algorithm import Algorithm, AlgorithmContext, MemoryPlanEntry
from train_RL_agents.networks.memory import MEMORY, STARTS
from train_RL_agents.networks.observation import ACTIVE_KEY, Observation, to_observation
from train_RL_agents.policy_wrapper import RECALLED, PolicyWrapper
from train_RL_agents.utils.memory import tree_bytes

_STEP_ENTRIES = ("observation", "mask", "action", "done", "terminated", "truncated", MEMORY, RECALLED)
"""Entries of a group in a step that are not further outputs of ``Agent.explore``, or are inputs of it."""


class OnPolicy(Algorithm):
    """Algorithm with rollouts, generalised advantage estimation, epochs and minibatches.

    A sample is a robot-step, or an environment-step with all its robots if the value is that of a fleet. With a memory
    it is a window of such steps (``MemoryConfig.window``), from the memory before the first one on.
    """

    config_type = OnPolicyConfig

    def __init__(self, context: AlgorithmContext) -> None:
        assert isinstance(context.config.trainer, OnPolicyConfig)
        assert isinstance(context.agent, ActorCriticAgent)
        super().__init__(context)
        self.settings, self.agent = context.config.trainer, context.agent
        self._window = self.agent.config.memory.window_of(self.settings.vector_steps)
        self._rollout: RolloutBatch | None = None
        self._progress = torch.zeros((), device=context.device)

    @classmethod
    def held_memory(cls, config: TrainConfig[Any], agent: Agent[Any], step: TensorDictBase) -> list[MemoryPlanEntry]:
        """Return the memory of rollouts; see Algorithm."""
        # A rollout exists four times: as collected, as stored, as flat robot-steps, and permuted.
        held = 4 * config.trainer.num_envs * config.trainer.vector_steps * tree_bytes(step)
        return [MemoryPlanEntry("rollout", held, False)]

    def add_steps(self, steps: TensorDictBase) -> None:
        """Store steps [E, T] as the rollout of the next update, with advantages."""
        with self._clock.phase("insert"), torch.no_grad():
            self.add_to_statistics(steps)
            self._rollout = self._rollout_batch(steps)

    def _samples(self, tensor: Tensor) -> Tensor:
        """Return an entry [E, T, R, ...] of a rollout as samples [B], [B, R], [B, W] or [B, W, R], in new memory."""
        joint = self.agent.samples_are_joint
        if self.agent.is_recurrent:
            windows = tensor.unflatten(1, (-1, self._window)).flatten(0, 1)
            return windows.contiguous() if joint else windows.transpose(1, 2).flatten(0, 1)
        return tensor.flatten(0, 1 if joint else 2)

    def _next_values(self, group: TensorDictBase, following: TensorDictBase, truncated: Tensor) -> Tensor:
        """Return the values [E, T, R] of the observations after the steps; within a rollout they are stored."""
        value = group.get("value")
        if self.agent.memory_size:  # that after the step, before it is reset
            following = following.clone(recurse=False).set(MEMORY, group.get(MEMORY))
        # Contiguous, because rounding depends on the memory layout, which differs in the graph collector.
        last = self._value(following[:, -1].contiguous())
        values = torch.cat((value[:, 1:], last[:, None]), 1)
        # External environments mask truncated robots at once, but the value of their fleet after the step uses them.
        present = following.get("mask") | (group.get("mask") & truncated)
        following = following.clone(recurse=False).set("mask", present)
        rows = true_indices(truncated.flatten(0, 1).any(-1))
        if rows is None:
            return torch.where(truncated, self._value(following), values)
        if len(rows):
            flat = values.flatten(0, 1)
            last_values = self._value(following.flatten(0, 1)[rows])
            flat[rows] = torch.where(truncated.flatten(0, 1)[rows], last_values, flat[rows])
            values = flat.view_as(values)
        return values

    def _value(self, group: TensorDictBase) -> Tensor:
        """Return the values [..., R] of robots; a fleet's value uses the robots that are still active."""
        observation: Observation = to_observation(group.get("observation"))
        observation[ACTIVE_KEY] = group.get("mask")
        if self.agent.memory_size:
            observation[MEMORY] = group.get(MEMORY)
        value: Tensor = self.agent.networks["policy"](observation)[1]
        return value

    def update(self, env_steps: int) -> None:
        """Run all epochs of updates on the latest rollout; do nothing if it was used already."""
        rows, self._rollout = self._rollout, None
        if rows is None:
            return
        for batch in self._batches(rows):
            with self._clock.phase("update"):
                scalars, _ = self.learner.update(batch)
                self.meter.add(scalars)

    def _rollout_batch(self, steps: TensorDictBase) -> RolloutBatch:
        """Return the robot-steps (if joint, environment-steps) of a rollout [E, T], with advantages."""
        settings, group, following = self.settings, steps.get(GROUP), steps.get(("next", GROUP))
        active, value = group.get("mask"), group.get("value")
        done, terminated = (following.get(name).squeeze(-1) for name in ("done", "terminated"))
        advantage, target = generalized_advantage_estimate(
            settings.gamma,
            settings.gae_lambda,
            value,
            self._next_values(group, following, done & ~terminated),
            settings.reward_scale * following.get("reward").squeeze(-1),
            done,
            terminated,
        )
        flat = self._samples
        # Flattened before any sum, because its order must not depend on the memory layout of the collector.
        advantage, target, weight = (flat(tensor) for tensor in (advantage, target, active.to(value)))
        self.meter.add({"explained_variance": explained_variance(advantage, target, weight)})
        if settings.normalize_advantages:
            advantage = normalize(advantage, weight)
        observation = {name: flat(tensor) for name, tensor in group.get("observation").items()}
        if self.agent.memory_size:
            observation[MEMORY] = flat(group.get(RECALLED))
        if self.agent.is_recurrent:
            observation[MEMORY] = observation[MEMORY][:, 0]
            observation[STARTS] = flat(steps.get(STARTS).expand(active.shape))
            observation[ACTIVE_KEY] = flat(active)
        return RolloutBatch(
            observation,
            flat(group.get("action")),
            {name: flat(tensor) for name, tensor in group.items() if name not in _STEP_ENTRIES},
            advantage,
            target,
            weight,
            self._progress,
        )

    def _batches(self, rows: RolloutBatch) -> Iterator[RolloutBatch]:
        """Yield the minibatches of all epochs of a rollout, each a permutation of the samples with active robots.

        Their size counts robots at steps; with a memory, it is that of whole windows.

        On a CPU with one rank, an epoch is one pass over those samples without the remainder. Otherwise their number is
        known only on the device, or differs between ranks: an epoch has as many batches as if all robots were active,
        and samples are repeated to fill them.
        """
        active = rows.active.flatten(1).any(-1) if rows.weight.ndim > 1 else rows.active
        size = max(1, self.settings.batch_size // math.prod(rows.weight.shape[1:]))
        slots = int(active.shape[0])
        count = active.sum()
        # All ranks must make the same number of updates.
        indices = true_indices(active) if self._ranks.size == 1 else None
        filled = slots if indices is None else len(indices)
        size = min(size, slots)  # not the number of active samples, because compiled code has fixed shapes
        for _ in range(self.settings.epochs):
            chance = torch.rand(slots, generator=self._generator, device=active.device)
            order = torch.where(active, chance, 2.0).argsort()
            for begin in range(0, max(filled // size, 1) * size, size):
                place = torch.arange(begin, begin + size, device=active.device)
                yield rows.take(order[place % count.clamp_min(1)])

    def set_progress(self, progress: float, policy: PolicyWrapper) -> None:
        """Set the learning rate, and the progress that the entropy weight depends on; see Algorithm."""
        super().set_progress(progress, policy)
        self._progress.fill_(progress)


def normalize(advantage: Tensor, weight: Tensor) -> Tensor:
    """Return advantages [B] shifted and scaled to mean 0 and standard deviation 1 over samples with weight [B] 1."""
    centred = advantage - weighted_mean(advantage, weight)
    return centred / (weighted_mean(centred.square(), weight).sqrt() + 1e-6)


def explained_variance(advantage: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Return the explained variance 1 - Var(target - value) / Var(target); the advantage is target - value."""

    def variance(values: Tensor) -> Tensor:
        return weighted_mean((values - weighted_mean(values, weight)).square(), weight)

    return 1.0 - variance(advantage) / variance(target).clamp_min(1e-8)
