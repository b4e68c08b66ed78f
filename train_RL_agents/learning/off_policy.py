"""Off-policy learning: multi-step rows into replay, updates from batches of it."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env import GROUP
from marinenav_env.runtime.captured import Captured
from marinenav_env.runtime.compiling import compiled
from train_RL_agents.agents import Agent
from train_RL_agents.config.schema import OffPolicyConfig, TrainConfig
from train_RL_agents.learning.algorithm import Algorithm, Demand, Item, Setup
from train_RL_agents.learning.imitation import imitation_errors
from train_RL_agents.learning.learner import Updated
from train_RL_agents.memory.host import make_replay
from train_RL_agents.memory.packing import STORED, Rows
from train_RL_agents.memory.replay import replay_bytes, tree_bytes
from train_RL_agents.memory.transitions import MultiStep, batch_of, example_row
from train_RL_agents.policy_wrapper import PolicyWrapper

_MOST_TOGETHER = 16
"""Updates in one CUDA graph."""


class OffPolicy(Algorithm):
    """Replay, multi-step rows and the schedule of the updates.

    Args:
        setup: see Setup.
    """

    config_type = OffPolicyConfig

    def __init__(self, setup: Setup) -> None:
        config, device = setup.config, setup.device
        assert isinstance(config.trainer, OffPolicyConfig)
        self.settings = settings = config.trainer
        tau = settings.tau if settings.target_update_interval == 0 else 0.0
        super().__init__(setup, tau)
        # Generated CPU code is slower at turning layouts than torch itself.
        compile_rows = config.execution.compile and device.type == "cuda"
        alone = compile_rows and not setup.stores_in_place
        self.streams = MultiStep(settings.n_steps, settings.gamma, settings.reward_scale, alone)
        self.streams.in_place = setup.stores_in_place
        self.example_row = example_row(setup.example)
        self._robots = setup.example.get((GROUP, "mask")).shape
        self.replay = make_replay(self.example_row, settings, setup.generators["replay"], device)
        if compile_rows:
            setup.clock.compiles("insert")
        together = compile_rows and setup.stores_in_place
        self._write_rows: Any = compiled(self._store_rows, device) if together else self._store_rows
        self._store = Captured(
            self._observe, device, name="storing", say=setup.say, in_place=True,
            capture=setup.stores_in_place and device.type == "cuda",
        )  # fmt: skip
        self._drawn_in_place = setup.stores_in_place and self.replay.on_device
        self._together = 1
        if self._drawn_in_place:
            due = settings.num_envs * settings.vector_steps // settings.train_freq
            self._together = min(max(due, 1), _MOST_TOGETHER)
            self.learner.draw_by(self._learn, setup.generators["replay"], self._together)
        self._seen = 0

    @classmethod
    def demand(cls, config: TrainConfig[Any], agent: Agent[Any], step: TensorDictBase) -> Demand:
        """See Algorithm."""
        settings = config.trainer
        assert isinstance(settings, OffPolicyConfig)
        row = example_row(step)
        rows, priorities = replay_bytes(row, settings.buffer_size, settings.prioritized)
        closing = settings.num_envs * settings.steps_per_batch * settings.n_steps
        robots = step.get((GROUP, "mask")).shape[-1]
        on_host = settings.replay_storage == "host"
        items = [
            Item("replay", rows + priorities, on_host, True),
            Item("open windows", 2 * closing * robots * tree_bytes(row), False, False),
        ]
        if config.save_replay:
            items.append(Item("copy of replay while saving", rows, True, True))

        def loss(count: int) -> None:
            batch = batch_of(row.expand(count).clone())
            losses = agent.loss(batch, agent.loss_noise(count, torch.Generator()))
            if config.imitation_learning:
                errors = imitation_errors(agent, batch.observation, batch.action)
                losses["loss_imitation"] = batch.mean(errors)

        # Drawn rows are there twice: as they come from replay and as the losses want them.
        return Demand(items, loss, row=2 * tree_bytes(row))

    def observe(self, steps: TensorDictBase) -> None:
        """See Algorithm."""
        with self._clock.phase("insert"):
            rows = self._store(steps)
            if rows is not None:
                self.replay.insert(rows)

    def _observe(self, steps: TensorDictBase) -> Rows | None:
        """See ``_store_rows``; the first call makes the windows."""
        write = self._write_rows if self.streams.made else self._store_rows
        rows: Rows | None = write(steps)
        return rows

    def _store_rows(self, steps: TensorDictBase) -> Rows | None:
        """Make rows; a replay on the device takes them, another is given them."""
        self.accumulate(steps)
        rows = self.streams.rows(steps)
        if not self.replay.on_device:
            return rows
        self.replay.insert(rows)
        return None

    def update(self, env_steps: int) -> None:
        """See Algorithm: one update per ``train_freq`` env-steps."""
        before, self._seen = self._seen, env_steps
        due = self._due(env_steps)
        several = due // self._together if self._together > 1 else 0
        for _ in range(several):
            with self._clock.phase("update"):
                self.meter.add(self.learner.update_several(), self._together)
        for _ in range(due - several * self._together):
            self._update()
        interval = self.settings.target_update_interval
        for _ in range(env_steps // interval - before // interval if interval else 0):
            self.learner.update_targets(self.settings.tau)

    def _due(self, env_steps: int) -> int:
        """Updates to make now."""
        wanted = (env_steps - self.settings.learning_starts) // self.settings.train_freq
        return max(0, wanted - self.learner.updates)

    def _learn(self) -> Updated:
        """Draw a batch, learn from it and set its priorities; can be captured."""
        drawn = self.replay.sample()
        scalars, priority = self.learner.step(batch_of(drawn))
        self.replay.update_priority(drawn, priority)
        return scalars, None

    def _update(self) -> None:
        if self._drawn_in_place:
            with self._clock.phase("update"):
                self.meter.add(self.learner.update()[0])
            return
        with self._clock.phase("sample"):
            drawn = self.replay.sample()
        with self._clock.phase("update"):
            scalars, priority = self.learner.update(batch_of(drawn))
            self.meter.add(scalars)
        self.replay.update_priority(drawn, priority)

    def set_progress(self, progress: float, policy: PolicyWrapper) -> None:
        """See Algorithm.

        A batch is collected and learned from with the values at its begin, so the last one comes a
        batch short of the end of the schedules.
        """
        super().set_progress(progress, policy)
        settings = self.settings
        first = settings.priority_beta_initial
        self.replay.set_beta(first + min(progress, 1.0) * (1.0 - first))
        decayed = min(progress / settings.exploration_fraction, 1.0)
        first, last = settings.exploration_initial_eps, settings.exploration_final_eps
        policy.set_exploration(first + decayed * (last - first), settings.exploration_spread)

    def missing(self, state: dict[str, Any]) -> str:
        """See Algorithm."""
        if "replay" not in state or state["replay"] is not None:  # damage is found by loading
            return ""
        return (
            "saved without its replay buffer (save_replay=false), so it cannot be resumed; "
            "start a new run with load_model"
        )

    def restart(self) -> None:
        """See Algorithm: open windows go."""
        self.streams.restart()

    def device_scalars(self) -> dict[str, Tensor]:
        """See Algorithm."""
        return {"replay_fill": self.replay.filled / self.settings.buffer_size}

    def state_dict(self) -> dict[str, Any]:
        """See Algorithm; the replay only if it is to be saved."""
        return super().state_dict() | {
            "streams": self.streams.state_dict(),
            "replay": self.replay.state_dict() if self._config.save_replay else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See Algorithm."""
        super().load_state_dict(state)
        self.replay.load_state_dict(state["replay"])
        row = self.example_row.exclude("next_observation").set(STORED, torch.tensor(False))
        blank = row.expand(self.settings.n_steps, *self._robots).clone()
        # States of before have no windows until the first step.
        given = state["streams"] if state["env_steps"] else {"open": None} | state["streams"]
        self.streams.load_state_dict(given, blank)
        self._seen = int(state["env_steps"])
