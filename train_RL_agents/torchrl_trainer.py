"""Training: world -> collector -> replay -> update -> log, all on one device."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from marinenav_env.scenario_file import episodes_of
from marinenav_env.validation import ConfigError
from train_RL_agents.collecting.collectors import Experience
from train_RL_agents.config.building import make_agent
from train_RL_agents.config.reading import flatten, saved_config, to_dict
from train_RL_agents.config.resuming import changes
from train_RL_agents.evaluation.history import History
from train_RL_agents.figures.snapshot import EvaluationProbe
from train_RL_agents.learning.learner import Learner, NoRoomError, out_of_memory
from train_RL_agents.learning.meter import Meter
from train_RL_agents.memory.host import CPU
from train_RL_agents.memory.transitions import batch_of
from train_RL_agents.run.checkpoint import (
    STATE,
    TRAINING,
    VERSION,
    find_policy,
    load_policy,
    load_weights,
)
from train_RL_agents.run.monitor import Monitor
from train_RL_agents.run.ranks import Ranks
from train_RL_agents.run.run_folder import CONFIG, RunFolder
from train_RL_agents.utils.device import set_precision
from train_RL_agents.utils.progress import Clock, Display
from train_RL_agents.utils.signals import first_signal


class TorchRLTrainer:
    """Trains one agent with one seed.

    Args:
        run: a run folder, new or to be resumed; it knows configuration and seed.
        quiet: print nothing.
        bar: show a progress bar.

    Raises:
        ConfigError: when the device is missing or the saved state does not fit.
    """

    def __init__(self, run: RunFolder, quiet: bool = False, bar: bool = True) -> None:
        config, ranks = run.config, Ranks()
        self.run, self.config, self.ranks = run, config, ranks
        with ranks.together():
            # What this process holds of the run's totals; in a single process all of it.
            self.device, self._own = ranks.device(config.device), ranks.share(config)
        torch.set_num_threads(ranks.threads(config.threads))
        set_precision(self.device, config.precision, config.tf32)
        self.env_steps, self._logged_at, self.stopped = 0, 0, False
        self.clock, self.meter = Clock(self._compiled), Meter()
        self._seed = ranks.seed(run.seed)
        self.display = Display(config.total_timesteps, quiet or not ranks.leads, bar)
        self.monitor = Monitor.of(self.device) if config.monitor else Monitor({})
        # Separate streams, so that what the learner draws does not depend on the policy's coins.
        drawn_on = {"replay": CPU} if config.trainer.replay_storage == "host" else {}
        self._generators = {
            name: torch.Generator(drawn_on.get(name, self.device)).manual_seed(
                1_000_003 * self._seed + offset
            )
            for offset, name in enumerate(("policy", "learner", "replay"), start=1)
        }
        with torch.random.fork_rng(devices=[]):
            # Weights are drawn on the CPU, so a GPU's global generator is left alone.
            torch.default_generator.manual_seed(run.seed)
            self._build()
            if ranks.led((run.checkpoints / STATE).exists):
                state = ranks.read_state(run.checkpoints, self.device)
                with ranks.together():
                    self._load_state(state)
            else:
                with ranks.together():
                    self._start()

    # Set-up -------------------------------------------------------------------------------------

    def _build(self) -> None:
        """Make the agent, where its experience comes from, and what learns from it."""
        config, device = self._own, self.device
        agent = make_agent(config, config.world.vessel.num_actions, device)
        self.experience = Experience(
            config, agent, device, self._seed, self._generators, self.clock, self.display
        )
        self.env, self.policy = self.experience.env, self.experience.policy
        self.replay = self.experience.replay
        self.learner = Learner(
            agent, config.trainer, self._generators["learner"], config.compile, ranks=self.ranks,
            precision=config.precision, fused_optimizer=config.fused_optimizer,
            capture=config.capture, say=self.display.say,
        )  # fmt: skip
        self.history = History(
            self.run, device, partial(EvaluationProbe, device=device, draws=config.draw_evaluations)
        )

    def _start(self) -> None:
        """Load the weights that a new run starts from, and record what it is evaluated on."""
        if self.config.load_model:
            policy = load_policy(self.config.load_model, device=self.device)
            for agent in (self.learner.agent, self.learner.ema):
                load_weights(agent, policy.agent.networks.state_dict(), policy.path)
        seed = self.config.eval_schedule.seed
        episodes = episodes_of(self.history.scenarios, self.config.world, seed)
        if self.ranks.leads:
            self.run.write_scenarios(episodes)

    # The loop -----------------------------------------------------------------------------------

    def train(self) -> None:
        """Train to the end, or until a signal asks to stop; then save and return."""
        config = self.config.trainer
        with self._under_way():
            for batch in self.collect():
                with self.clock.phase("insert"):
                    self.experience.insert(batch)
                for _ in range(self._updates_due()):
                    with self.clock.phase("sample"):
                        drawn = self.replay.sample()
                    with self.clock.phase("update"):
                        scalars, priority = self.learner.update(batch_of(drawn))
                        self.meter.add(scalars)
                    self.replay.update_priority(drawn, priority)
                for _ in range(self._crossed(config.target_update_interval)):
                    self.learner.update_targets()
                if self._crossed(self.config.log_freq):
                    self._log()
                if self._crossed(self.config.eval_freq) or self._finished:
                    self.evaluate()
                    self.save()
                if self._finished or self.ranks.any(self.stopped):
                    break
        if not self._finished:
            self.save()
        self._close()

    def collect(self) -> Iterator[Any]:
        """Batches [E, T] of experience, or None if stored already, for as long as anyone asks."""
        if self._finished:
            return
        settings = self._own.trainer
        batches = self.experience.batches(self.env_steps // self.ranks.size)
        while True:
            self._set_schedules()
            with self.clock.phase("collect"):
                batch = next(batches)
            self.env_steps += settings.num_envs * settings.steps_per_batch * self.ranks.size
            yield batch

    def _set_schedules(self) -> None:
        """Set step size and exploration for the share of the run done.

        A batch is collected and learned from with the values at its begin, so the last one comes a
        batch short of the end of the schedules; nothing is done at their very end.
        """
        settings, progress = self.config.trainer, self.env_steps / self.config.total_timesteps
        self.learner.set_progress(progress)
        first = settings.priority_beta_initial
        self.replay.set_beta(first + min(progress, 1.0) * (1.0 - first))
        decayed = min(progress / settings.exploration_fraction, 1.0)
        first, last = settings.exploration_initial_eps, settings.exploration_final_eps
        self.policy.set_exploration(first + decayed * (last - first), settings.exploration_spread)

    def _updates_due(self) -> int:
        """Updates to make now, so that one is made per train_freq env-steps."""
        settings = self.config.trainer
        wanted = (self.env_steps - settings.learning_starts) // settings.train_freq
        return max(0, wanted - self.learner.updates)

    def _crossed(self, interval: int) -> int:
        """How many multiples of an interval of env-steps the last batch went past (0: never)."""
        settings = self.config.trainer
        before = self.env_steps - settings.num_envs * settings.steps_per_batch
        return self.env_steps // interval - before // interval if interval else 0

    @property
    def _finished(self) -> bool:
        return self.env_steps >= self.config.total_timesteps

    # Evaluation and log -------------------------------------------------------------------------

    def evaluate(self) -> None:
        """Evaluate the averaged weights on the fixed set; log, record and keep them."""
        with self.ranks.together():
            if self.ranks.leads:
                self._evaluate()

    def _evaluate(self) -> None:
        agent, history = self.learner.ema, self.history
        with self.clock.phase("evaluate"):
            history.evaluate(agent, self.env_steps)
        times = {"train_time": self.clock.training, "wall_time": self.clock.total}
        overall, best = history.record(agent, self.env_steps, times, self._finished)
        self.display.evaluation(self.env_steps, times["train_time"], overall, best)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Figures of the evaluations so far."""
        return self.history.rows

    def _log(self) -> None:
        """One transfer from the device, one entry in TensorBoard, one step of the bar."""
        on_device = {
            "replay": self.replay.filled,
            "exploration": self.policy.exploration.max(),
            "active": self.experience.active,
        }
        values = self.ranks.mean(self.meter.read(on_device))
        phases, seconds = self.clock.lap()
        rate = self._steps_since_log() / max(seconds, 1e-9)
        scalars: dict[str, float | None] = {
            f"losses/{name}": value for name, value in values.items() if name not in on_device
        }
        scalars |= {f"time/{name}": share for name, share in phases.items()}
        scalars |= {
            "charts/SPS": rate,
            "charts/active_robot_steps_per_second": rate * values["active"],
            "train/replay_fill": values["replay"] / self._own.trainer.buffer_size,
            "train/exploration": values["exploration"],
            "train/learning_rate": self.learner.learning_rate,
            "train/updates": float(self.learner.updates),
            "train/micro_batches": float(self.learner.micro_batches),
            "charts/compile_seconds": self.clock.seconds.get("compile"),
        }
        scalars |= self.monitor.read()
        if self.device.type == "cuda":
            scalars["gpu/memory_gb"] = torch.cuda.max_memory_allocated(self.device) / 1e9
        with self.ranks.together():
            if self.ranks.leads:
                self.run.log(scalars, self.env_steps)
        success = self.rows[-1]["success_rate"] if self.rows else None
        self.display.step(self.env_steps, rate, success)

    def _steps_since_log(self) -> int:
        since, self._logged_at = self.env_steps - self._logged_at, self.env_steps
        return since

    # Saving -------------------------------------------------------------------------------------

    def save(self) -> None:
        """Save everything that the rest of the run depends on."""
        with self.clock.phase("save"):
            # First, so that no event from before the checkpoint is missing after a resume.
            self.run.flush()
            self.ranks.write_state(self.run.checkpoints, self._state())

    def _state(self) -> dict[str, Any]:
        return {
            "format": TRAINING,
            "version": VERSION,
            "config": json.dumps(to_dict(self.config)),
            "ranks": self.ranks.size,
            "env_steps": self.env_steps,
            **self.experience.state_dict(),
            "learner": self.learner.state_dict(),
            "meter": self.meter.state_dict(),
            "clock": self.clock.state_dict(),
            "generators": {name: each.get_state() for name, each in self._generators.items()},
            **self.history.state_dict(),
        }

    def _load_state(self, state: dict[str, Any]) -> None:
        """Go on where ``save`` was.

        Raises:
            ConfigError: when the state lacks its replay buffer or is of another configuration.
        """
        self._refuse_changes(state.get("config"))
        if state["replay"] is None:
            raise ConfigError(
                f"{self.run.path}: saved without its replay buffer (save_replay=false), so it "
                "cannot be resumed; start a new run with load_model"
            )
        try:
            self.env_steps = self._logged_at = self.run.resumed_at = state["env_steps"]
            self.experience.load_state_dict(state)
            self.learner.load_state_dict(state["learner"])
            self.meter.load_state_dict(state["meter"])
            self.clock.load_state_dict(state["clock"])
            for name, each in self._generators.items():
                each.set_state(state["generators"][name].cpu())
            self.history.load_state_dict(state)
        except (RuntimeError, ValueError, LookupError, TypeError, AttributeError) as error:
            # torch lists every misfit, a line each after a headline: one is enough.
            first = (str(error) or type(error).__name__).splitlines()[:2][-1].strip()
            path = self.run.checkpoints / STATE
            raise ConfigError(f"{path}: does not fit the run's configuration ({first})") from error

    def _refuse_changes(self, saved: str | None) -> None:
        """Refuse to go on with settings under which the run would not be the same one.

        Args:
            saved: the configuration in the training state.
        """
        path = self.run.checkpoints / STATE
        if saved is None:
            raise ConfigError(f"{path}: does not say which settings it was made with; start anew")
        before, now = (
            flatten(to_dict(each)) for each in (saved_config(json.loads(saved)), self.config)
        )
        changed = changes(before, now)
        if changed:
            raise ConfigError(
                f"{path}: was made with other settings than {self.run.path / CONFIG} has: "
                f"{'; '.join(changed)}"
            )

    def _ask_to_stop(self) -> None:
        self.stopped = True

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        """Show how the run goes on and heed signals; end workers, whatever ends the run."""
        self.display.say(f"updates: {self._manner()}")
        self.display.start(self.env_steps, self.config.compile)
        self.monitor.start()
        try:
            with first_signal(self._ask_to_stop):
                yield
        except NoRoomError as error:
            raise NoRoomError(f"{error}; {self._save_in_need()}") from error
        finally:
            self.monitor.stop()
            self.display.stop()
            self.experience.close()

    def _manner(self) -> str:
        """How updates are computed here, in words."""
        config, on_gpu = self.config, self.device.type == "cuda"
        parts = self.learner.micro_batches
        words = {
            config.precision: True,
            "TF32": config.tf32 and on_gpu,
            "fused optimiser": config.fused_optimizer,
            "compiled": config.compile,
            "captured as a CUDA graph": self.learner.captures,
            f"batches in {parts} parts": parts > 1,
        }
        return ", ".join(word for word, holds in words.items() if holds)

    def _compiled(self, phase: str, seconds: float) -> None:
        """Say how long the first pass through a phase took, which compiles it."""
        if self.config.compile:
            self.display.say(f"first {phase}: {seconds:.1f} s, compilation included")

    def _save_in_need(self) -> str:
        """Save when memory is short; says whether that could be done."""
        try:
            self.save()
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            return "the last checkpoint is kept"
        return "saved"

    def _close(self) -> None:
        """The line that says where everything is."""
        self.stopped = self.ranks.any(self.stopped)
        self.run.close()
        best = find_policy(self.run.path) if self.rows else None
        self.display.finish(
            self.run.path, best, self._finished, self.config.save_replay, self.ranks.command()
        )


def resume(run: RunFolder, total_timesteps: int | None = None, **display: bool) -> TorchRLTrainer:
    """A trainer that goes on with a run; with more env-steps if asked for.

    A run that was stopped before its first checkpoint, or before its turn, starts anew.
    """
    if total_timesteps is not None:
        run.config = replace(run.config, total_timesteps=total_timesteps)
    trainer = TorchRLTrainer(run, **display)
    if trainer.ranks.leads:
        run.write_config()  # what was changed holds for the next resume, too
    return trainer


__all__ = ["TorchRLTrainer", "resume"]
