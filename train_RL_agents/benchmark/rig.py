"""One trainer taken apart: every part that is measured, with its input ready.

Everything comes from the trainer itself, so what is measured is what training runs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env import GROUP
from train_RL_agents.benchmark.stopwatch import Stopwatch
from train_RL_agents.benchmark.timing import Subject, no_notes, synchronize
from train_RL_agents.collecting.graphs import InPlaceCollector
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.memory.host import HostReplay
from train_RL_agents.memory.replay import STORED, Replay
from train_RL_agents.memory.transitions import batch_of, example_row
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.torchrl_trainer import TorchRLTrainer

AnyReplay = TypeVar("AnyReplay", bound=Replay | HostReplay)
ENV_STEPS, BATCHES, UPDATES = "env-steps/s", "batches/s", "updates/s"
_CHUNK = 65_536
"""Rows that replay is filled with at a time."""
_EXPLORATION = 0.5
"""Strength of exploration while the policy is measured."""


class MeasuredTrainer(TorchRLTrainer):
    """A trainer that stops after some vector steps, and neither evaluates nor saves."""

    watch = Stopwatch(torch.device("cpu"))
    """Measures the parts of the loop, if any are watched."""
    _left, _before, _began = 0, 0, 0.0

    def train_for(self, steps: int) -> float:
        """Train for so many vector steps; seconds they took."""
        self.stopped, self._left = False, steps
        self.train()
        synchronize(self.device)
        seconds = time.perf_counter() - self._began
        if self._left > 0:
            raise KeyboardInterrupt  # the trainer itself only notes the signal
        return seconds

    def collect(self) -> Iterator[Any]:
        """Batches, the first of them before the measurement: it sets up the collector."""
        for number, batch in enumerate(super().collect()):
            self._left -= number > 0
            self.stopped = self.stopped or self._left <= 0
            yield batch
            if number == 0:
                synchronize(self.device)
                self._before, self._began = self.learner.updates, time.perf_counter()
                self.watch.clear()

    @property
    def updates_measured(self) -> int:
        """Updates since the measurement began."""
        return self.learner.updates - self._before

    def batches(self) -> Iterator[Any]:
        """Batches as they are trained on, None where they are stored already."""
        return super().collect()

    def example_row(self) -> TensorDictBase:
        """A row of replay, for shapes and types."""
        return example_row(self.env, self.experience.streams)

    def make_replay(self, capacity: int) -> Replay:
        """Another buffer of another size."""
        settings = self.config.trainer
        alpha = settings.priority_exponent if settings.prioritized else None
        generator = self._generators["replay"]
        return Replay(self.example_row(), capacity, settings.batch_size, generator, alpha)

    def evaluate(self) -> None:
        """Left out."""

    def save(self) -> None:
        """Left out."""

    def _close(self) -> None:
        """Left out: the run goes on with the next measurement."""


def fill(replay: Replay | HostReplay, example: TensorDictBase, num_actions: int) -> None:
    """Fill a buffer with random rows; what is in them makes no difference to the time.

    Args:
        replay: to be filled.
        example: one of its rows.
        num_actions: whole numbers are drawn below it.
    """
    capacity, device = replay.capacity, replay.filled.device
    generator = torch.Generator(device).manual_seed(0)

    def draw(leaf: Tensor, count: int) -> Tensor:
        shape = (count, *leaf.shape)
        options: dict[str, Any] = {"generator": generator, "device": device}
        if leaf.dtype == torch.bool:
            return torch.rand(shape, **options) < 0.5
        if not leaf.dtype.is_floating_point:
            return torch.randint(num_actions, shape, dtype=leaf.dtype, **options)
        return 2.0 * torch.rand(shape, dtype=leaf.dtype, **options) - 1.0

    for start in range(0, capacity, _CHUNK):
        count = min(_CHUNK, capacity - start)
        rows = example.apply(
            lambda leaf, count=count: draw(leaf, count), batch_size=[count, *example.batch_size]
        )
        rows.set(STORED, torch.ones(count, dtype=torch.bool, device=device))
        replay.extend(rows)


class Rig:
    """A trainer's parts in one mode. Another way to run them is a subclass with its own parts.

    Args:
        config: of the trainer, with the sizes that are measured.
        mode: its name, for the tables.
    """

    def __init__(self, config: TrainConfig[Any], mode: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="marinenav_bench_")
        run = RunFolder.create(config, config.seed[0], parent=Path(self._folder.name))
        self.config, self.mode = config, mode
        self.trainer = MeasuredTrainer(run, quiet=True)
        self.device = self.trainer.device

    def close(self) -> None:
        """Remove what the trainer wrote."""
        self.trainer.run.close()
        self._folder.cleanup()

    # Parts --------------------------------------------------------------------------------------

    def world(self) -> Subject:
        """The world under random actions."""
        env = self.trainer.env
        active = torch.zeros((), dtype=torch.int64, device=self.device)
        generator = torch.Generator(self.device).manual_seed(0)

        def act(step: TensorDictBase) -> TensorDictBase:
            active.add_(step.get((GROUP, "mask")).sum())
            return step.set((GROUP, "action"), self._random_actions(generator))

        step = env.reset()

        def plain() -> None:
            nonlocal step
            step = env.step_and_maybe_reset(act(step))[1]

        one_step = plain
        experience = self.trainer.experience
        if experience.in_place:
            generators = [generator, env.generator]
            one_step = InPlaceCollector(env, act, experience.streams, None, generators).step

        def advance(steps: int) -> None:
            for _ in range(steps):
                one_step()

        def notes(seconds: float) -> dict[str, float]:
            count = float(active)
            active.zero_()
            return {"active robot-steps/s": count / seconds}

        return self._of_envs(advance, 1, notes)

    def policy(self) -> Subject:
        """The policy on the first observation of every environment."""
        policy, step = self.trainer.policy, self.trainer.env.reset()
        policy.set_exploration(_EXPLORATION, self.config.trainer.exploration_spread)

        def advance(steps: int) -> None:
            for _ in range(steps):
                policy(step)

        return self._of_envs(advance, 1)

    def insertion(self) -> Subject:
        """One batch of the collector, written again and again."""
        experience = self.trainer.experience
        batch = next(experience.collected())

        def advance(steps: int) -> None:
            for _ in range(steps):
                experience.insert(batch)

        return self._of_envs(advance, self.config.trainer.steps_per_batch)

    def sampling(self) -> Subject:
        """Draws from the full replay."""
        replay = self._full(self.trainer.replay)

        def advance(steps: int) -> None:
            for _ in range(steps):
                batch_of(replay.sample())

        labels = {"replay": replay.capacity}
        return self._of_batches(BATCHES, advance, labels)

    def update(self) -> Subject:
        """Updates from one batch, the same each time."""
        learner = self.trainer.learner
        batch = batch_of(self._full(self.trainer.replay).sample())

        def advance(steps: int) -> None:
            for _ in range(steps):
                learner.update(batch)

        return self._of_batches(UPDATES, advance)

    def update_from(self, capacity: int) -> Subject:
        """Sampling, update and new priorities, from a full replay of so many entries."""
        learner, replay = self.trainer.learner, self._full(self.trainer.make_replay(capacity))

        def advance(steps: int) -> None:
            for _ in range(steps):
                drawn = replay.sample()
                _, priority = learner.update(batch_of(drawn))
                replay.update_priority(drawn, priority)

        return self._of_batches(UPDATES, advance, {"replay": capacity})

    def collect(self) -> Subject:
        """World, policy and insertion, through the collector or as CUDA graphs."""
        trainer, batches = self.trainer, self.trainer.batches()

        def advance(steps: int) -> None:
            for _ in range(steps):
                trainer.experience.insert(next(batches))

        return self._of_envs(advance, self.config.trainer.steps_per_batch)

    def loop(self) -> Subject:
        """The whole loop of training, with a watch on what takes its time."""
        trainer, settings = self.trainer, self.config.trainer
        watch = trainer.watch = Stopwatch(self.device)
        watched = self.mode != "captured"  # within a graph there is nothing to watch
        if watched:
            watch_parts(watch, trainer)

        def notes(seconds: float) -> dict[str, float]:
            rate = {UPDATES: trainer.updates_measured / seconds}
            return rate | (shares(watch.seconds(), seconds) if watched else {})

        subject = self._of_envs(trainer.train_for, settings.steps_per_batch, notes)
        subject.labels["batch"] = settings.batch_size
        # Far enough for a few updates, however rare they are.
        wanted = settings.learning_starts + 3 * settings.train_freq
        subject.least = max(3, -(-wanted // (settings.num_envs * settings.steps_per_batch)))
        return subject

    # Helpers ------------------------------------------------------------------------------------

    def _of_envs(
        self,
        advance: Callable[[int], float | None],
        vector_steps: int,
        notes: Callable[[float], dict[str, float]] = no_notes,
    ) -> Subject:
        """A subject that makes env-steps."""
        envs = self.config.trainer.num_envs
        labels = {"mode": self.mode, "environments": envs}
        amount = envs * vector_steps
        return Subject(labels, ENV_STEPS, amount, self.device, advance, notes)

    def _of_batches(
        self,
        unit: str,
        advance: Callable[[int], float | None],
        labels: dict[str, Any] | None = None,
    ) -> Subject:
        """A subject that handles a batch of transitions per step."""
        batch = self.config.trainer.batch_size
        shown = {"mode": self.mode, "batch": batch} | (labels or {})
        return Subject(shown, unit, 1, self.device, advance)

    def _full(self, replay: AnyReplay) -> AnyReplay:
        """The same replay, filled."""
        fill(replay, self.trainer.example_row(), self.trainer.env.num_discrete_actions)
        return replay

    def _random_actions(self, generator: torch.Generator) -> Tensor:
        """Uniform actions of all robots, [E, R, 2] or [E, R]."""
        env = self.trainer.env
        shape = (env.num_envs, env.num_robots)
        options: dict[str, Any] = {"generator": generator, "device": self.device}
        if env.continuous:
            return torch.rand((*shape, 2), **options) * 2.0 - 1.0
        return torch.randint(env.num_discrete_actions, shape, **options)


# Where the time of the loop goes ----------------------------------------------------------------


def watch_parts(watch: Stopwatch, trainer: TorchRLTrainer) -> None:
    """Measure the parts of a trainer's loop under the names that shares reads."""
    for owner, name, label in (
        (trainer.env.world, "step", "world"),
        (trainer.env.world, "draw_noise", "world"),
        (trainer.env, "start_episodes", "world"),
        (trainer.env, "refresh_pool", "world"),
        (trainer.policy, "_behave", "policy"),
        (trainer.learner, "update", "update"),
        (trainer.experience.streams, "rows", "insertion"),
        (trainer.replay, "extend", "insertion"),
        (trainer.replay, "sample", "sampling"),
        (trainer.replay, "update_priority", "sampling"),
    ):
        watch.watch(owner, name, label)


def shares(spent: dict[str, float], seconds: float) -> dict[str, float]:
    """Shares of the time of a run.

    Args:
        spent: seconds by part.
        seconds: of the whole run.

    Returns:
        A share for each part, ``rest`` for what is none of them, and ``outside``: what is neither
        the world (noise, step, new episodes), the policy's forward pass nor the update.
    """
    names = ("world", "policy", "update", "insertion", "sampling")
    found = {name: spent.get(name, 0.0) / seconds for name in names}
    within = found["world"] + found["policy"] + found["update"]
    rest = max(0.0, 1.0 - sum(found.values()))
    return {f"share {name}": share for name, share in found.items()} | {
        "share rest": rest,
        "share outside": max(0.0, 1.0 - within),
    }


# Modes ------------------------------------------------------------------------------------------


def eager(config: TrainConfig[Any]) -> Rig:
    """Every operation on its own."""
    return Rig(replace(config, compile=False, capture=False), "eager")


def compiled(config: TrainConfig[Any]) -> Rig:
    """World, policy and losses in generated code."""
    return Rig(replace(config, compile=True, capture=False), "compiled")


def captured(config: TrainConfig[Any]) -> Rig:
    """The same, launched as CUDA graphs."""
    return Rig(replace(config, compile=True, capture=True), "captured")


FACTORIES: dict[str, Callable[[TrainConfig[Any]], Rig]] = {
    "eager": eager, "compiled": compiled, "captured": captured
}  # fmt: skip
"""Makes what is measured in each mode. A further mode is one line here, named in MODES."""
