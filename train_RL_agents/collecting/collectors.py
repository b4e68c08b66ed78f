"""Where experience comes from, and where it goes: world, policy, multi-step rows, replay.

There are three ways to collect, and the trainer does not notice which it is: through TorchRL's
collector in this process; by worker processes or other hosts; or in tensors that stay where they
are, so that a GPU takes a step as a CUDA graph. The last one stores what it collects by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.collectors import Collector

from train_RL_agents.agents import Agent
from train_RL_agents.collecting.graphs import InPlaceCollector
from train_RL_agents.collecting.workers import Workers
from train_RL_agents.collecting.worlds import make_world
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.memory.host import make_replay
from train_RL_agents.memory.transitions import MultiStep, example_row
from train_RL_agents.policy_wrapper import PolicyWrapper
from train_RL_agents.utils.progress import Clock, Display


class Experience:
    """Collects transitions and keeps them.

    Args:
        config: with what this process holds of the run's totals.
        agent: acts.
        device: of world, policy and batches.
        seed: of this process.
        generators: sources of randomness of ``policy`` and ``replay``.
        clock: told how long workers take to start, and what compiles.
        display: where to say what becomes of it.
    """

    def __init__(
        self,
        config: TrainConfig[Any],
        agent: Agent[Any],
        device: torch.device,
        seed: int,
        generators: dict[str, torch.Generator],
        clock: Clock,
        display: Display,
    ) -> None:
        settings = config.trainer
        self._config, self._seed, self._clock, self._display = config, seed, clock, display
        self.env = make_world(config, agent, device, seed)
        self.policy = PolicyWrapper(
            agent, settings.num_envs, generators["policy"],
            uniform=settings.exploration == "uniform", compile=config.compile,
        )  # fmt: skip
        # Generated CPU code is slower at turning layouts than torch itself.
        compile_rows = config.compile and device.type == "cuda"
        self.streams = MultiStep(
            settings.n_steps, settings.gamma, settings.reward_scale, compile_rows
        )
        row = example_row(self.env, self.streams)
        self.replay = make_replay(row, settings, generators["replay"], device)
        self._drawn_from = [generators["policy"], self.env.generator]
        self.in_place = config.capture and device.type == "cuda" and settings.collector == "local"
        """Whether batches are stored as they are made, captured where there is a GPU."""
        if compile_rows and not self.in_place:
            clock.compiles("insert")
        self._workers: Workers | None = None
        self._in_place: InPlaceCollector | None = None

    def batches(self, env_steps: int) -> Iterator[TensorDictBase | None]:
        """Batches [E, T] for ``insert``, None for each that is stored already; without an end.

        Args:
            env_steps: made by this process so far.
        """
        if self.in_place:
            return self._stored()
        if self._config.trainer.collector != "local":
            try:
                return self._from_workers(env_steps)
            except Exception as error:  # whatever it is, the run can go on without them
                self._display.fell_back(self._config.trainer.collector, error)
                self.env.env_steps = env_steps  # which workers made, before a resume
        return self.collected()

    def _from_workers(self, env_steps: int) -> Iterator[TensorDictBase]:
        """Batches that other processes make."""
        with self._clock.phase("compile"):  # no time of training either
            device = self.replay.filled.device
            self._workers = Workers(self._config, self.policy, device, self._seed, env_steps)
        # Windows may be open from a part of the run that went on without workers.
        self.streams.load_state_dict({})
        return self._workers.batches()

    def collected(self) -> Iterator[TensorDictBase]:
        """Batches that TorchRL's collector makes in this process."""
        settings = self._config.trainer
        collector = Collector(
            self.env,
            self.policy,
            frames_per_batch=settings.num_envs * settings.steps_per_batch,
            total_frames=-1,
            track_traj_ids=False,
            use_buffers=False,
            no_cuda_sync=True,
            auto_register_policy_transforms=False,
        )
        return iter(collector)

    def _stored(self) -> Iterator[None]:
        """The same batches, each stored as it is made."""
        if self._in_place is None:
            generators = self._drawn_from if self.env.generator.device.type == "cuda" else None
            self._in_place = InPlaceCollector(
                self.env, self.policy, self.streams, self.replay, generators, self._display.say
            )
        while True:
            for _ in range(self._config.trainer.steps_per_batch):
                self._in_place.step()
            yield

    def insert(self, batch: TensorDictBase | None) -> None:
        """Store the rows that a batch brings, unless that is done."""
        if batch is not None:
            self.replay.extend(self.streams.rows(batch))

    @property
    def active(self) -> Tensor:
        """Robots under way per environment, a mean; a scalar on the device."""
        if self._workers is not None:
            return self._workers.active
        active = self.env.state.active
        return active.float().mean() * active.shape[-1]

    def close(self) -> None:
        """End workers, if there are any."""
        if self._workers is not None:
            self._workers.close()

    def state_dict(self) -> dict[str, Any]:
        """World, open windows and replay, as far as they are to be saved."""
        # Worlds of workers stay with them: a resumed run starts new ones, with new streams.
        local = self._workers is None
        return {
            "world": self.env.state_dict() if local else None,
            "streams": self.streams.state_dict() if local else {},
            "replay": self.replay.state_dict() if self._config.save_replay else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where ``state_dict`` was taken."""
        if state["world"] is not None:
            self.env.load_state_dict(state["world"])
        self.replay.load_state_dict(state["replay"])
        self.streams.load_state_dict(state["streams"])
