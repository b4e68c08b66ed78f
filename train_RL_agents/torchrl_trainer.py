"""Trainer: environments, collector, algorithm, evaluations and log of a run on one device."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import torch

from marinenav_env.runtime.philox import RandomSource
from marinenav_env.support.validation import ConfigError
from train_RL_agents.agents.trainer_configs import OffPolicyConfig
from train_RL_agents.config.building import describe_late_starts
from train_RL_agents.config.overrides import flatten
from train_RL_agents.config.reading import to_dict
from train_RL_agents.environments import make_environment
from train_RL_agents.learning import ALGORITHMS, AlgorithmContext
from train_RL_agents.learning.checks import (
    DivergedError,
    describe_divergence,
    non_finite_names,
    warn_of_clipped_rewards,
)
from train_RL_agents.learning.collectors import StepCollector
from train_RL_agents.learning.learner import NotEnoughMemoryError, is_out_of_memory
from train_RL_agents.learning.watchdog import StoppedWaitingError
from train_RL_agents.run.checkpoint import (
    FORMAT_VERSION,
    STATE_FILE,
    TEACHER_FILE,
    TRAINING_FORMAT,
    find_policy,
    load_policy,
    require_resumable,
    saved_settings,
)
from train_RL_agents.run.monitor import read_utilisation
from train_RL_agents.run.ranks import Ranks
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.run.tags import top_scalars
from train_RL_agents.utils.compiling import CompilationStoppedError, compile_problem
from train_RL_agents.utils.device import random_stream, set_up_process
from train_RL_agents.utils.progress import PhaseTimer, ProgressDisplay
from train_RL_agents.utils.signals import call_on_first_signal
from train_RL_agents.utils.threads import follow_load, set_threads

Callback = Callable[["TorchRLTrainer"], None]
"""Function that is called with the trainer after every iteration of the training loop."""


class TorchRLTrainer:
    """Trainer of one agent with one seed.

    Args:
        run: run folder, new or to be resumed, with configuration and seed.
        quiet: whether nothing is printed.
        bar: whether a progress bar is shown.
        callbacks: functions called after every iteration of the loop, after log, evaluation and checkpoint.
        json_lines: whether JSON is printed for other programs; see ProgressDisplay.

    Raises:
        ConfigError: when the device is missing or the saved state does not fit the configuration.
    """

    def __init__(
        self,
        run: RunFolder,
        quiet: bool = False,
        bar: bool = True,
        callbacks: Sequence[Callback] = (),
        json_lines: bool = False,
    ) -> None:
        config, ranks = run.config, Ranks()
        self.run, self.config, self.ranks = run, config, ranks
        self.callbacks: list[Callback] = [*DEFAULT_CALLBACKS, *callbacks]
        with ranks.barrier():
            # The configuration with this process's share of the totals; a single process has all of them.
            self.device, self._rank_config = ranks.rank_device(config.execution.device), ranks.rank_config(config)
            if ranks.is_main:
                run.writer.begin()
        set_up_process(self.device, config.trainer.precision, config.trainer.tf32)
        self.env_steps, self._before, self._logged_at, self.stopped = 0, 0, 0, False
        self._checked_at = 0
        self._saved_at: int | None = None
        self._unsaved = self.asked_to_save = False
        self.clock = PhaseTimer(self._on_first_pass)
        quiet = quiet or not ranks.is_main
        json_lines = json_lines and ranks.is_main
        self.display = ProgressDisplay(config.total_timesteps, quiet, bar, run.writer.write_log_line, json_lines)
        set_threads(ranks.num_threads(config.execution.threads))
        read_utilisation(self.device)  # the next is of the time since
        with run.writer.writing(ends=False):
            self._set_up()

    # Set-up -------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        """Create generators, collector, algorithm and evaluations, and restore the saved state if there is one."""
        run, ranks = self.run, self.ranks
        self._generators = self._make_generators(ranks.rank_seed(run.seed))
        with torch.random.fork_rng(devices=[]):
            # Weights are drawn on the CPU, so that a GPU's global generator is not used.
            torch.default_generator.manual_seed(run.seed)
            self._build(ranks.rank_seed(run.seed))
            if ranks.broadcast_result((run.checkpoints / STATE_FILE).exists):
                state = ranks.read_state(run.checkpoints, self.device)
                # For a damaged state, torch may warn of an invalid index before it raises an error.
                with ranks.barrier(), warnings.catch_warnings(action="ignore"):
                    self._load_state(state)
            else:
                with ranks.barrier():
                    self._start()

    def _make_generators(self, seed: int) -> dict[str, torch.Generator]:
        """Return the random generators ``policy``, ``learner`` and ``replay``, whose draws do not affect each other."""
        settings = self.config.trainer
        on_host = isinstance(settings, OffPolicyConfig) and settings.replay_storage == "host"
        devices = {"replay": torch.device("cpu")} if on_host else {}
        return {
            name: random_stream(seed, number, devices.get(name, self.device))
            for number, name in enumerate(("policy", "learner", "replay"), start=1)
        }

    def _build(self, seed: int) -> None:
        """Create the agent, the collector of its steps, and the algorithm that learns from them."""
        config, device = self._rank_config, self.device
        environment = make_environment(config, self.ranks.size)
        agent = environment.make_agent(device)
        if self.ranks.is_main and config.env.is_built_in:
            warn_of_clipped_rewards(config, agent.return_range)
        envs = config.trainer.num_envs
        noise = RandomSource.from_seed(self.run.seed, envs, device, self.ranks.rank * envs)
        self._environment = environment
        self.collector = StepCollector(
            environment, agent, device, seed, noise, self._generators["policy"], self.clock, self.display
        )
        with self.ranks.barrier():
            teacher = load_policy(self.run.path / TEACHER_FILE, device=device) if config.imitation_learning else None
        context = AlgorithmContext(
            config,
            agent,
            self.collector.env.fake_tensordict(),
            self._generators,
            self.ranks,
            self.clock,
            self.display.log,
            self.collector.env.statistics,
            environment.checked_entries,
            teacher,
            environment.action_table,
        )
        self.algorithm = ALGORITHMS[type(config.trainer)](context)
        self.collector.on_worlds_replaced = self.algorithm.drop_unfinished_returns
        # Ranks stop together, at the end of an iteration.
        self.collector.is_stopping = lambda: self.stopped and self.ranks.size == 1
        self.history = environment.make_evaluator(self.run, device, self.collector.env)

    def _start(self) -> None:
        """Load the weights that a new run starts from, and write its evaluation scenarios."""
        self.run.start()
        if self.config.load_model:
            self.algorithm.learner.start_from(load_policy(self.config.load_model, device=self.device))
        if self.ranks.is_main:
            self.history.begin()

    # The loop -----------------------------------------------------------------------------------

    def train(self) -> None:
        """Train to the end, or until a signal asks to stop; then save and return."""
        with self.run.writer.writing(ends=True):
            with self._running():
                if self.finished:
                    self.display.log(f"nothing is left to do; total_timesteps=N above {self.env_steps} goes on")
                while not (self.finished or self.ranks.any_rank(self.stopped)):
                    try:
                        self.iterate()
                    except DivergedError:
                        with self.ranks.barrier():
                            raise
                    except StoppedWaitingError:
                        pass  # nothing was collected in this iteration
                    except (CompilationStoppedError, Exception) as error:
                        # An exception in a destructor is lost; the ended compilers then raise another one.
                        if not (self.stopped and compile_problem(error)):
                            raise
                        self._unsaved = True
                if not self.finished:
                    self._save_stopped()  # here, where further signals of a scheduler do not end the process
            self._close()

    def iterate(self) -> None:
        """Make one iteration: collect, learn, and call the callbacks."""
        follow_load(self.display.log)
        self._before = self.env_steps
        progress = self.env_steps / self.config.total_timesteps
        self.algorithm.set_progress(progress, self.collector.policy)
        with self.clock.phase("collect"):
            steps = self.collector.collect()
        self.env_steps += steps.shape[0] * steps.shape[1] * self.ranks.size
        self.algorithm.add_steps(steps)
        try:
            self.algorithm.update(self.env_steps)
        except (IndexError, RuntimeError):
            # Losses fail for invalid indices; after an error on a GPU nothing can be read.
            if self.ranks.size == 1:
                with suppress(RuntimeError):
                    self.check()
            raise
        for callback in self.callbacks:
            callback(self)

    def crossed(self, interval: int) -> bool:
        """Return whether the latest iteration passed a multiple of an interval of env-steps (0: never)."""
        return bool(interval) and self.env_steps // interval > self._before // interval

    @property
    def finished(self) -> bool:
        """Return whether the run has made all its env-steps."""
        return self.env_steps >= self.config.total_timesteps

    def stop(self) -> None:
        """Request that the loop saves and returns after this iteration."""
        self.stopped = True

    def _on_stop_signal(self) -> None:
        """Stop after this iteration, or at once while code is compiled, which takes minutes."""
        self.stop()
        if self.config.execution.compile and self.clock.is_compiling and self.ranks.size == 1:
            raise CompilationStoppedError

    def _on_user_signal(self, number: int) -> None:
        """Stop or save after this iteration, as configured."""
        if self.config.on_user_signal == "save":
            self.asked_to_save = True
        else:
            self._on_stop_signal()

    # Divergence ---------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise a DivergedError if an observation, action, reward, loss, gradient or weight is not valid."""
        invalid = non_finite_names(self.ranks.average_scalars(self.algorithm.read_check_sums()))
        if invalid:
            between = self._checked_at, self.env_steps
            raise DivergedError(describe_divergence(invalid, between, self._saved_at, self.config, self.run.path))
        self._checked_at = self.env_steps

    # Evaluation and log -------------------------------------------------------------------------

    def evaluate(self) -> None:
        """Evaluate the EMA of the weights on the fixed scenarios; log, record and save the results."""
        agent, history = self.algorithm.learner.ema, self.history
        with self.ranks.barrier():
            if not self.ranks.is_main:
                return
            with self.clock.phase("evaluate"):
                history.evaluate(agent, self.display.show_evaluation_progress)
            times = {"train_time": self.clock.training_seconds, "wall_time": self.clock.total_seconds}
            overall, best = history.record(agent, self.env_steps, times)
            self.display.show_evaluation(self.env_steps, times["wall_time"], overall, best)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the metrics of the evaluations so far by name, a dict for each evaluation."""
        return self.history.rows

    def log(self) -> None:
        """Write one entry of the log, with one transfer from the device, and move the progress bar."""
        episodes = self.algorithm.episodes
        on_device = {
            "exploration": self.collector.policy.exploration.max(),
            **self.algorithm.device_scalars(),
            **episodes.sums(),
        }
        on_device |= self._environment.device_scalars(self.collector.env)
        values = self.ranks.average_scalars(self.algorithm.meter.read(on_device))
        if not values.get("scenarios_kept", True):
            del values["scenarios_kept"]
        ended = episodes.read(values, self.ranks.size)
        phases, seconds = self.clock.lap()
        rate = (self.env_steps - self._logged_at) / max(seconds, 1e-9)
        self._logged_at = self.env_steps
        scalars: dict[str, float | None] = {
            f"{'train' if name in on_device else 'losses'}/{name}": value for name, value in values.items()
        }
        scalars |= {f"train/{name}": value for name, value in ended.items()}
        scalars |= {f"time/{name}": share for name, share in phases.items()}
        scalars |= self.algorithm.log_scalars()
        scalars |= {"charts/SPS": rate, "charts/compile_seconds": self.clock.seconds.get("compile")}
        if self.config.monitor:
            scalars |= read_utilisation(self.device)
        if self.device.type == "cuda":
            scalars["gpu/memory_gb"] = torch.cuda.max_memory_allocated(self.device) / 1e9
        with self.ranks.barrier():
            if self.ranks.is_main:
                self.run.writer.log(scalars | top_scalars("Training", ended), self.env_steps)
        latest = self.rows[-1] if self.rows else {}
        success = latest.get("success_rate", latest.get("avg_return"))
        self.display.show_log_entry(
            self.env_steps, rate, success, ended.get("episode_return"), ended.get("success_rate")
        )

    # Saving -------------------------------------------------------------------------------------

    def save(self) -> None:
        """Save the state that the rest of the run depends on, if ``check`` passes."""
        self.check()
        with self.clock.phase("save"):
            # First, so that no earlier event is missing after a resume.
            self.run.writer.flush()
            self.ranks.write_state(self.run.checkpoints, self._state())
        self._saved_at = self.env_steps

    def _state(self) -> dict[str, Any]:
        return {
            "format": TRAINING_FORMAT,
            "version": FORMAT_VERSION,
            "config": json.dumps(to_dict(self.config)),
            "ranks": self.ranks.size,
            "env_steps": self.env_steps,
            "threads": torch.get_num_threads(),
            **self.collector.state_dict(),
            **self.algorithm.state_dict(),
            "clock": self.clock.state_dict(),
            "generators": {name: generator.get_state() for name, generator in self._generators.items()},
            **self.history.state_dict(),
        }

    def _load_state(self, state: dict[str, Any]) -> None:
        """Restore the state that ``save`` wrote."""
        path = self.run.checkpoints / STATE_FILE
        before, now = saved_settings(state, path), flatten(to_dict(self.config))
        require_resumable(before, now, state.get("env_steps"), self.run.path)
        if missing := self.algorithm.resume_problem(state):
            raise ConfigError(f"{self.run.path}: {missing}")
        try:
            self.env_steps = self._logged_at = self.run.writer.resumed_at = state["env_steps"]
            if not self.config.execution.threads:  # the sums of the same number of threads have the same order
                set_threads(self.ranks.num_threads(0), state.get("threads", 0))
            self.collector.load_state_dict(state, self.env_steps // self.ranks.size)
            self.algorithm.load_state_dict(state)
            self.clock.load_state_dict(state["clock"])
            for name, generator in self._generators.items():
                generator.set_state(state["generators"][name].cpu())
            self.history.load_state_dict(state)
        except (RuntimeError, ValueError, LookupError, TypeError, AttributeError) as error:
            # torch lists all mismatches in lines after a headline; the first one is enough.
            lines = (str(error) or type(error).__name__).splitlines()
            reason = lines[:2][-1].strip()
            raise ConfigError(f"{path}: does not fit the run's configuration ({reason})") from error
        self._saved_at = self._checked_at = self.env_steps
        invalid = non_finite_names(self.algorithm.read_check_sums())
        if invalid:
            raise ConfigError(f"{path}: infinite or NaN ({', '.join(invalid)}); start a new run")

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Show progress and handle signals in this context; at its end, always close the display and end workers."""
        for line in (f"updates: {self.algorithm.learner.describe()}", *describe_late_starts(self.config)):
            self.display.log(line)
        self.display.start(self.env_steps, self.config.execution.compile)
        try:
            with call_on_first_signal(self._on_stop_signal, self._on_user_signal):
                yield
        except NotEnoughMemoryError as error:
            raise NotEnoughMemoryError(f"{error}; {self._save_without_memory()}") from error
        finally:
            self.display.stop()
            self.collector.close()
            self.history.close()

    def _on_first_pass(self, phase: str, seconds: float) -> None:
        """Log the time of the first pass through a phase, which compiles it."""
        if self.config.execution.compile:
            self.display.log(f"first {phase}: {seconds:.1f} s, compilation included")

    def _save_stopped(self) -> None:
        """Save a run that stops: its state if that is complete, and in any case a policy."""
        if not self._unsaved:
            self.save()
        with self.ranks.barrier():
            if self.ranks.is_main:
                # No update is made while code is compiled, so the weights are those of the saved state.
                self.run.save_stopped_policy(self.algorithm.learner.ema, self._saved_at or 0)

    def _save_without_memory(self) -> str:
        """Save when memory is short; return whether the state was saved or the last checkpoint is kept, as text."""
        try:
            self.save()
        except (RuntimeError, MemoryError, DivergedError) as error:
            if not (isinstance(error, DivergedError) or is_out_of_memory(error)):
                raise
            return "the last checkpoint is kept"
        return "saved"

    def _close(self) -> None:
        self.stopped = self.ranks.any_rank(self.stopped)
        self.run.writer.close()
        best = find_policy(self.run.path) if self.ranks.is_main else None
        resumable, program = self.config.is_resumable, self.ranks.launch_command()
        kept = self._saved_at or 0 if self._unsaved else None
        self.display.finish(self.run.path, best, self.finished, resumable, program, kept)


def check_and_log(trainer: TorchRLTrainer) -> None:
    """Check for infinite values or NaN, and write a log entry, every ``log_freq`` env-steps and at the end."""
    if trainer.crossed(trainer.config.log_freq) or trainer.finished:
        trainer.check()
        trainer.log()


def evaluate_and_save(trainer: TorchRLTrainer) -> None:
    """Check for infinite values or NaN, evaluate and save, every ``eval_freq`` env-steps and at the end."""
    if trainer.crossed(trainer.config.eval_freq) or trainer.finished:
        trainer.check()
        trainer.evaluate()
        trainer.save()


def save_if_asked(trainer: TorchRLTrainer) -> None:
    """Save when a user's signal has requested it, and continue."""
    if trainer.config.on_user_signal == "save" and trainer.ranks.any_rank(trainer.asked_to_save):
        trainer.asked_to_save = False
        trainer.save()
        trainer.display.log(f"saved at {trainer.env_steps:,} env-steps, as a signal asked")


DEFAULT_CALLBACKS: tuple[Callback, ...] = (check_and_log, evaluate_and_save, save_if_asked)
"""Callbacks of every training run after each iteration of the loop."""


def resume(run: RunFolder, total_timesteps: int | None = None, **options: Any) -> TorchRLTrainer:
    """Return a trainer that resumes a run, to ``total_timesteps`` if given; ``options`` are those of TorchRLTrainer.

    A run that was stopped before its first checkpoint, or before it began, starts at 0 env-steps.
    """
    if total_timesteps is not None:
        run.config = replace(run.config, total_timesteps=total_timesteps)
    trainer = TorchRLTrainer(run, **options)
    if trainer.ranks.is_main:
        run.write_config()  # changes also hold for the next resume
    return trainer
