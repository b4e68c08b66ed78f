"""Off-policy learning: multi-step transitions are added to replay, from which batches are sampled."""

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marinenav_env import GROUP
from train_RL_agents.agents import Agent, Batch
from train_RL_agents.agents.trainer_configs import OffPolicyConfig
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.learning.algorithm import Algorithm, AlgorithmContext, MemoryPlanEntry
from train_RL_agents.learning.frame_store import PLACES, FrameStore, frame_bytes, with_places
from train_RL_agents.learning.host_replay import make_replay
from train_RL_agents.learning.learner import UpdateResult
from train_RL_agents.learning.replay import replay_bytes
from train_RL_agents.learning.transitions import MultiStep, example_transition, to_batch
from train_RL_agents.policy_wrapper import PolicyWrapper
from train_RL_agents.utils.memory import tree_bytes


class OffPolicy(Algorithm):
    """Algorithm with replay, multi-step returns and a schedule of updates."""

    config_type = OffPolicyConfig

    def __init__(self, context: AlgorithmContext) -> None:
        config, device = context.config, context.device
        assert isinstance(config.trainer, OffPolicyConfig)
        self.settings = settings = config.trainer
        tau = settings.tau if settings.target_update_interval == 0 else 0.0
        super().__init__(context, tau)
        shape, rates = context.example.get((GROUP, "mask")).shape, (settings.gamma, settings.reward_scale)
        self.frames: FrameStore | None = None
        """Observations that transitions refer to, if the agent remembers frames."""
        if context.agent.frames is not None:
            self.frames = FrameStore(context.agent.frames, shape, settings.buffer_size, settings.n_steps, device)
        self.example_transition = _example_row(context.agent, context.example)
        self.multi_step = MultiStep(self.example_transition, shape, settings.n_steps, *rates)
        self.replay = make_replay(self.example_transition, settings, context.generators["replay"], device)
        self._store = config.execution.make_loop(
            self._store_transitions,
            self.multi_step.closed_windows(),
            device,
            # Those that a GraphCollector captures, see there.
            static_inputs=config.env.is_built_in and settings.collector == "local" and settings.vector_steps == 1,
            name="storing",
            log=context.log,
        )
        if config.execution.compile and device.type == "cuda":
            context.clock.mark_compiling("insert")
        self._learn_captured = self.learner.make_update(self._learn, context.generators["replay"])
        self._last_env_steps = 0

    @classmethod
    def held_memory(cls, config: TrainConfig[Any], agent: Agent[Any], step: TensorDictBase) -> list[MemoryPlanEntry]:
        """Return the memory of replay and of unfinished n-step transitions; see Algorithm."""
        settings = config.trainer
        assert isinstance(settings, OffPolicyConfig)
        row = _example_row(agent, step)
        rows, priorities = replay_bytes(row, settings.buffer_size, settings.prioritized)
        closing = settings.num_envs * settings.steps_per_batch * settings.n_steps
        robots = step.get((GROUP, "mask")).shape[-1]
        on_host = settings.replay_storage == "host"
        items = [
            MemoryPlanEntry("replay", rows + priorities, on_host),
            MemoryPlanEntry("open windows", 2 * closing * robots * tree_bytes(row), False),
        ]
        stored = rows
        if agent.frames is not None:
            size = frame_bytes(agent.frames, (settings.num_envs, robots), settings.buffer_size, settings.n_steps)
            items.append(MemoryPlanEntry("frames", size, False))
            stored += size
        if config.save_replay:
            items.append(MemoryPlanEntry("copy of replay while saving", stored, True))
        return items

    def add_steps(self, steps: TensorDictBase) -> None:
        """Build multi-step transitions from steps [E, T] and insert them into replay."""
        with self._clock.phase("insert"):
            rows = self._store(steps)
            if rows is not None:
                self.replay.insert(rows)

    def _store_transitions(
        self, windows: TensorDictBase, steps: TensorDictBase
    ) -> tuple[TensorDictBase, TensorDictBase | None]:
        """Build multi-step transitions; insert them into a replay on the device, or else return them."""
        self.add_to_statistics(steps)
        if self.frames is not None:
            steps = self.frames.refer(steps)
        windows, rows = self.multi_step.advance(windows, steps)
        if not self.replay.inserts_on_device:
            return windows, rows
        self.replay.insert(rows)
        return windows, None

    def update(self, env_steps: int) -> None:
        """Make an update per ``train_freq`` env-steps after ``learning_starts``, and due updates of target networks."""
        before, self._last_env_steps = self._last_env_steps, env_steps
        due = (env_steps - self.settings.learning_starts) // self.settings.train_freq
        for _ in range(due - self.learner.updates):
            self._update()
        interval = self.settings.target_update_interval
        for _ in range(env_steps // interval - before // interval if interval else 0):
            self.learner.update_targets(self.settings.tau)

    def _learn(self) -> UpdateResult:
        """Sample a batch, learn from it and set its priorities, in operations that a CUDA graph can capture."""
        drawn = self.replay.sample()
        scalars, priority = self.learner.learn(self._to_batch(drawn))
        self.replay.update_priority(drawn, priority)
        return scalars, None

    def _to_batch(self, drawn: TensorDictBase) -> Batch:
        """Return transitions drawn from replay as a batch, with the frames that they refer to."""
        batch = to_batch(drawn)
        if self.frames is None:
            return batch
        before, after = (self.frames.observation(each[PLACES]) for each in (batch.observation, batch.next_observation))
        return batch._replace(observation=before, next_observation=after)

    def _update(self) -> None:
        """Make one update from a sampled batch, and add its losses to the meter."""
        if self.learner.captures and self.replay.inserts_on_device:
            with self._clock.phase("update"):
                self.meter.add(self._learn_captured()[0])
            return
        with self._clock.phase("sample"):
            drawn = self.replay.sample()
        with self._clock.phase("update"):
            scalars, priority = self.learner.update(self._to_batch(drawn))
            self.meter.add(scalars)
        self.replay.update_priority(drawn, priority)

    def set_progress(self, progress: float, policy: PolicyWrapper) -> None:
        """Set learning rate, exponent of importance weights and the exploration of ``policy``; see Algorithm."""
        super().set_progress(progress, policy)
        settings = self.settings
        first = settings.priority_beta_initial
        self.replay.set_beta(first + min(progress, 1.0) * (1.0 - first))
        decayed = min(progress / settings.exploration_fraction, 1.0)
        first, last = settings.exploration_initial_eps, settings.exploration_final_eps
        policy.set_exploration(first + decayed * (last - first), settings.exploration_spread)

    def resume_problem(self, state: dict[str, Any]) -> str:
        """Return why a state that was saved without its replay cannot be resumed; see Algorithm."""
        if "replay" not in state or state["replay"] is not None:  # a damaged state is detected when it is loaded
            return ""
        return "saved without its replay buffer (save_replay=false): not resumable; start a new run with load_model"

    def drop_unfinished_returns(self) -> None:
        """Drop the unfinished n-step transitions; see Algorithm."""
        self._store.state = self.multi_step.closed_windows()
        if self.frames is not None:
            self.frames.forget()
        self._store.reset()  # steps from workers have additional keys

    def device_scalars(self) -> dict[str, Tensor]:
        """Return the share of replay that is filled as ``replay_fill``, a scalar on the device."""
        return {"replay_fill": self.replay.num_stored / self.settings.buffer_size}

    def state_dict(self) -> dict[str, Any]:
        """Return the state with ``n_step`` (unfinished transitions), and ``replay`` and ``frames`` if there are any.

        The latter two are None without ``save_replay``.
        """
        state = super().state_dict() | {"n_step": self.multi_step.state_dict(self._store.state)}
        kept = {"replay": self.replay} | ({} if self.frames is None else {"frames": self.frames})
        return state | {name: part.state_dict() if self._config.save_replay else None for name, part in kept.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``, which must include replay."""
        super().load_state_dict(state)
        self.replay.load_state_dict(state["replay"])
        if self.frames is not None:
            self.frames.load_state_dict(state["frames"])
        self._store.state = self.multi_step.windows_from_state(state["n_step"])
        self._store.reset()
        self._last_env_steps = int(state["env_steps"])


def _example_row(agent: Agent[Any], step: TensorDictBase) -> TensorDict:
    """Return the transition of the first robot in a step [E], as it is stored in replay."""
    if agent.frames is not None:
        mask = step.get((GROUP, "mask"))
        places = torch.zeros(*mask.shape, agent.config.memory.number, dtype=torch.int64, device=mask.device)
        step = with_places(step, places, places)
    return example_transition(step)
