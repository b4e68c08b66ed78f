"""Typed configuration of a training run: every setting with default, unit and meaning.

The defaults are the main job: AC-IQN on the six published levels, on a CPU with two cores.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from marinenav_env import LEVELS, Curriculum, Level, WorldConfig
from marinenav_env.runtime.execution import Execution
from marinenav_env.support import plugins
from marinenav_env.support.validation import (
    Count,
    Fraction,
    NonNegative,
    Positive,
    Share,
    Whole,
    at_least,
    at_most,
    check_fields,
    require,
)
from train_RL_agents.agents import AgentConfig, agent_class
from train_RL_agents.config.levels import EvalLevel, TrainingLevel, as_levels

ConfigType = TypeVar("ConfigType", bound=AgentConfig)
LOGGERS = ("tensorboard", "csv", "wandb", "mlflow")
LARGEST_SEED = 2**32 - 1
"""Of a run, an evaluation set or a search."""
Penalty = Annotated[float, at_most(0.0)]


@dataclass(frozen=True)
class TrainingReward:
    """Values of world.reward that hold while training alone; null: those of world.reward."""

    collision_penalty: Penalty | None = -50.0
    """Reward of a collision, by default only where neither world.reward.collision_penalty nor a
    scenario file states one; null: as these have it."""
    give_way_penalty: Penalty | None = None
    """Rules of the sea by role: for vessels that must give way and do not keep clear."""
    stand_on_penalty: Penalty | None = None
    """For vessels that must keep course and speed and do not."""
    port_turn_penalty: Penalty | None = None
    """For vessels that turn to port before the other has passed."""
    slowing_penalty: Penalty | None = None
    """For vessels that meet head-on and slow down."""
    steerage_speed: NonNegative | None = None
    """Least speed ahead of vessels that meet head-on (m/s)."""
    astern_penalty: Penalty | None = None
    """For vessels that go astern."""
    off_course_penalty: Penalty | None = None
    """For vessels that detect nothing and leave the line to the goal."""
    passing_distance: NonNegative | None = None
    """Distance that vessels are to keep when they pass (m)."""
    passing_margin: NonNegative | None = None
    """Distance over which half of the penalty for keeping clear rises (m)."""

    def __post_init__(self) -> None:
        check_fields(self, "training.reward")


@dataclass(frozen=True)
class Training:
    """What holds while training, and not in evaluations."""

    reward: TrainingReward = field(default_factory=TrainingReward)
    """Rewards."""


TRAINED = tuple(item.name for item in fields(TrainingReward))
"""Settings of world.reward that may have other values while training."""


@dataclass(frozen=True)
class TrainingSchedule:
    """Training scenarios: levels, all at once or one after another, or a scenario file."""

    levels: tuple[TrainingLevel, ...] = as_levels(TrainingLevel, LEVELS)
    """Levels of the scenarios that are drawn, as objects. With {"like": NAME} what is not stated is
    as in a level with a name: published_1 to published_6, crossing, traffic, narrow_crossing,
    currents, crowd."""
    sampler: str = ""
    """A sampler of scenarios of your own, as package.module:Class, in place of the built-in one."""
    scenarios: str = ""
    """A scenario file whose episodes are trained on in turn, in place of levels."""
    strict: bool = False
    """Refuse a scenario file with goals in obstacles, contact at the start or places off the map,
    which a warning counts otherwise."""

    def __post_init__(self) -> None:
        check_fields(self, "training_schedule")
        useful = bool(self.scenarios) or not self.strict
        require(useful, "training_schedule.strict", True, "false without a scenario file")
        require(len(self.levels) > 0, "training_schedule.levels", self.levels, "one or more")
        weights, starts = self._weights(), self._starts()
        require(sum(weights) > 0.0, "training_schedule.levels: weight", weights, "above 0 in sum")
        fine = starts[0] == 0 and list(starts) == sorted(starts)
        require(fine, "training_schedule.levels: starts_at", starts, "increasing, the first 0")
        fine = not any(starts) or {*weights} == {1.0}
        require(fine, "training_schedule.levels: weight", weights, "left out beside starts_at")

    def _weights(self) -> tuple[float, ...]:
        return tuple(level.weight for level in self.levels)

    def _starts(self) -> tuple[int, ...]:
        return tuple(level.starts_at for level in self.levels)

    @property
    def most_robots(self) -> int:
        """Most robots of a level."""
        return max(level.num_robots for level in self.levels)

    def curriculum(self) -> Curriculum:
        """Return the schedule as a curriculum of the world."""
        weights, starts = self._weights(), self._starts()
        return Curriculum(
            as_levels(Level, self.levels),
            weights if {*weights} != {1.0} else (),
            starts if any(starts) else (),
            sampler=self.sampler,
        )


@dataclass(frozen=True)
class EvalSchedule:
    """Scenarios of the evaluations during training: a fixed set, the same for all runs."""

    levels: tuple[EvalLevel, ...] = as_levels(EvalLevel, LEVELS)
    """Levels of the scenarios, as objects; see training_schedule.levels."""
    seed: Annotated[int, at_least(0), at_most(LARGEST_SEED)] = 0
    """Seed that the set is drawn from."""

    def __post_init__(self) -> None:
        check_fields(self, "eval_schedule")
        require(len(self.levels) > 0, "eval_schedule.levels", self.levels, "one or more")
        fine = sum(self.num_episodes) > 0
        require(fine, "eval_schedule.levels: num_episodes", self.num_episodes, "above 0 in sum")

    @property
    def num_episodes(self) -> tuple[int, ...]:
        """Scenarios of each level."""
        return tuple(level.num_episodes for level in self.levels)


LEVEL_KINDS: dict[str, type[Level]] = {"training_schedule": TrainingLevel, "eval_schedule": EvalLevel}
"""Levels of each schedule."""


@dataclass(frozen=True)
class TrainerConfig:
    """Collecting and learning; settings of all algorithms."""

    shared: ClassVar[tuple[str, ...]] = ("num_envs", "batch_size")
    """Totals that are divided among the processes of a run."""
    recipe: ClassVar[tuple[str, ...]] = ("num_envs", "batch_size")
    """Sizes that belong together: how often each step is learned from, or the number of updates per
    rollout, depends on all of them."""
    least_updates: ClassVar[int]
    """Updates, or rollouts, that a profile leaves a run: a few large ones do not replace many."""
    # What follows without a type is a setting of some algorithms only, and so of theirs.
    learning_starts = 0
    buffer_size = 0
    replay_storage = "device"
    prioritized = False
    exploration = ""
    num_envs: Count = 256
    """Environments in the batch."""
    collector: Literal["local", "processes", "ray"] = "local"
    """Where environments are stepped: in this process, in others on this host, or where Ray has
    processors."""
    collectors: Count = 1
    """Processes that the environments are divided among, unless local (CPU)."""
    batch_size: Count = 512
    """Transitions, or robot-steps of a rollout, per update."""
    optimizer: Literal["adam", "rmsprop"] = "adam"
    """The optimiser."""
    learning_rate: Positive = 5e-4
    """Step size of the optimiser at the start."""
    learning_rate_final: NonNegative = 5e-5
    """At the end; in between it falls along a cosine."""
    max_grad_norm: Positive = 10.0
    """Gradients are clipped to this norm."""
    gamma: Fraction = 0.99
    """Discount per control step."""
    reward_scale: Positive = 0.1
    """Factor on rewards inside the learner."""
    imitation_weight: NonNegative = 1.0
    """Weight of the error of imitation, with imitation_learning."""
    ema_decay: Annotated[float, at_least(0.0), at_most(0.999999)] = 0.999
    """Decay per update of the exponential moving average (EMA) of the weights that is evaluated and
    saved; 0: the latest weights."""

    @property
    def vector_steps(self) -> int:
        """Vector steps that the collector makes at a time."""
        return 1

    @property
    def learning_interval(self) -> int:
        """Env-steps between updates, or between rollouts."""
        return self.num_envs * self.vector_steps

    def smallest(self, robots: int) -> dict[str, int]:
        """The least values of settings that depend on others.

        Args:
            robots: most robots of a training level.
        """
        return {}

    def __post_init__(self) -> None:
        check_fields(self, "trainer")
        fine = self.num_envs % self.collectors == 0
        require(fine, "trainer.collectors", self.collectors, f"a divisor of num_envs, {self.num_envs}")
        fine = self.collector != "local" or self.collectors == 1
        require(fine, "trainer.collectors", self.collectors, "1 with trainer.collector=local")

    def check(self, robots: int) -> None:
        """Check what depends on other sections.

        Args:
            robots: most robots of a training level.

        Raises:
            ConfigError: when a setting does not fit.
        """


@dataclass(frozen=True)
class OffPolicyConfig(TrainerConfig):
    """Settings of off-policy algorithms: replay, updates, exploration."""

    shared: ClassVar[tuple[str, ...]] = ("num_envs", "batch_size", "buffer_size")
    recipe: ClassVar[tuple[str, ...]] = ("num_envs", "batch_size", "train_freq")
    least_updates: ClassVar[int] = 15_000
    steps_per_batch: Count = 1
    """Vector steps between updates of the collector's consumer."""
    buffer_size: Count = 1_000_000
    """Transitions held in replay."""
    replay_storage: Literal["device", "host"] = "device"
    """Where they are held: on the device, or in the host's memory, from which batches are drawn
    ahead of time (then up to two batches before the latest transitions)."""
    learning_starts: Whole = 50_000
    """Env-steps before the first update."""
    train_freq: Count = 128
    """Env-steps per update."""
    n_steps: Count = 3
    """Steps of the multi-step return."""
    prioritized: bool = False
    """Draw transitions by the size of their errors; only agents that give priorities."""
    priority_exponent: Fraction = 0.5
    """How strongly priorities count: 0 not at all, 1 in proportion."""
    priority_beta_initial: Fraction = 0.4
    """Exponent of the importance weights at first; it rises linearly to 1."""
    tau: Share = 0.01
    """Share of the learned weights mixed into the target networks at each of their updates."""
    target_update_interval: Whole = 0
    """Env-steps between updates of the target networks; 0: with every update."""
    exploration: Literal["noise", "uniform"] = "noise"
    """How continuous actions explore: each with Gaussian noise, or some replaced by uniform ones,
    as discrete actions always do."""
    exploration_initial_eps: Fraction = 1.0
    """Epsilon, or standard deviation of the action noise, at first, in the environment that
    explores most."""
    exploration_final_eps: Fraction = 0.05
    """The same at the end of its decay."""
    exploration_fraction: Share = 0.2
    """Share of the run over which it falls, linearly."""
    exploration_spread: Share = 0.5
    """Strength in the environment that explores least as a share of that in the one that explores
    most; the others lie between, geometrically."""

    @property
    def vector_steps(self) -> int:
        """See TrainerConfig."""
        return self.steps_per_batch

    @property
    def learning_interval(self) -> int:
        """See TrainerConfig."""
        return self.train_freq

    def smallest(self, robots: int) -> dict[str, int]:
        """See TrainerConfig."""
        # The first update comes train_freq later; until n steps are made there is nothing to draw.
        first = max(0, self.num_envs * self.n_steps - self.train_freq)
        rows = self.num_envs * self.steps_per_batch * self.n_steps * robots
        return {"learning_starts": first, "buffer_size": rows}

    def check(self, robots: int) -> None:
        """See TrainerConfig."""
        first, rows = self.smallest(robots).values()
        require(
            self.learning_starts >= first,
            "trainer.learning_starts",
            self.learning_starts,
            f"at least num_envs * n_steps - train_freq, {first}",
        )
        require(
            rows <= self.buffer_size,
            "trainer.buffer_size",
            self.buffer_size,
            f"at least {rows}, what one batch may bring",
        )


@dataclass(frozen=True)
class OnPolicyConfig(TrainerConfig):
    """Settings of on-policy algorithms: rollouts and how often they are learned from."""

    least_updates: ClassVar[int] = 240
    num_envs: Count = 1024
    """Environments in the batch."""
    rollout_steps: Count = 16
    """Vector steps of a rollout."""
    epochs: Count = 1
    """Times that every rollout is learned from."""
    batch_size: Count = 1024
    """Transitions, or robot-steps of a rollout, per update."""
    gae_lambda: Fraction = 0.95
    """Decay of generalised advantage estimation (Schulman et al. 2016)."""
    normalize_advantages: bool = True
    """Shift and scale the advantages of a rollout to mean 0 and standard deviation 1."""
    scale_returns: bool = False
    """Divide rewards by the running standard deviation of the discounted return."""
    learning_rate: Positive = 1e-3
    """Step size of the optimiser at the start."""
    learning_rate_final: NonNegative = 1e-5
    """At the end; in between it falls along a cosine."""
    max_grad_norm: Positive = 1.0
    """Gradients are clipped to this norm."""
    ema_decay: Annotated[float, at_least(0.0), at_most(0.999999)] = 0.998
    """Decay per update of the exponential moving average (EMA) of the weights that is evaluated and
    saved; 0: the latest weights."""

    @property
    def vector_steps(self) -> int:
        """See TrainerConfig."""
        return self.rollout_steps


TRAINER_CONFIGS: dict[str, type[TrainerConfig]] = {"off-policy": OffPolicyConfig, "on-policy": OnPolicyConfig}
"""Settings of each kind of algorithm."""


@dataclass(frozen=True)
class TrainConfig(Generic[ConfigType]):
    """A training run."""

    agent: ConfigType = None  # type: ignore[assignment]
    """The agent's own settings; by default those of its type."""
    agent_type: str = "AC-IQN"
    """Which agent."""
    seed: Annotated[tuple[int, ...], at_least(0), at_most(LARGEST_SEED)] = (0,)
    """One run for each seed."""
    total_timesteps: Count = 6_000_000
    """Env-steps of a run, over all its environments."""
    eval_freq: Count = 250_000
    """Env-steps between evaluations (and checkpoints)."""
    log_freq: Count = 20_000
    """Env-steps between log entries."""
    save_dir: str = "runs"
    """Folder that run folders are made in."""
    loggers: tuple[str, ...] = ("tensorboard",)
    """What scalars are logged to: tensorboard, csv, wandb, mlflow, or package.module:Class."""
    monitor: bool = True
    """Log use of processors, memory and GPU."""
    on_divergence: Literal["stop", "rewind"] = "stop"
    """When rewards, losses or weights become infinite or NaN: stop, or go back to the last saved
    state with half the step size, at most three times."""
    on_user_signal: Literal["stop", "save"] = "stop"
    """At SIGUSR1 or SIGUSR2, as Slurm sends ahead of a job's end: save and stop, or save and go
    on."""
    load_model: str = ""
    """Checkpoint whose weights training starts from."""
    imitation_learning: bool = False
    """Imitate the teacher's actions beside learning from rewards."""
    teacher: str = ""
    """Policy that is imitated; the run keeps a copy."""
    trainer: TrainerConfig = None  # type: ignore[assignment]
    """Collecting and learning; by default as the agent has it."""
    training: Training = field(default_factory=Training)
    """What holds while training, and not in evaluations."""
    execution: Execution = field(default_factory=Execution)
    """Device, threads, generated code, CUDA graphs and precision."""
    world: WorldConfig = field(default_factory=WorldConfig)
    """The world."""
    training_schedule: TrainingSchedule = field(default_factory=TrainingSchedule)
    """Training scenarios."""
    eval_schedule: EvalSchedule = field(default_factory=EvalSchedule)
    """Evaluation scenarios."""
    draw_evaluations: bool = True
    """Draw an episode of each level, for TensorBoard, after the last evaluation and after others in
    at most 2% of the time; needs matplotlib."""
    save_replay: bool = True
    """Keep the replay buffer in the latest checkpoint: needed to resume exactly."""

    def __post_init__(self) -> None:
        agent = agent_class(self.agent_type)
        kind = TRAINER_CONFIGS[agent.algorithm]
        if self.agent is None:
            object.__setattr__(self, "agent", agent.config_type())
        if self.trainer is None:
            object.__setattr__(self, "trainer", kind(**agent.trainer_defaults))
        check_fields(self)
        require(len(set(self.seed)) == len(self.seed) > 0, "seed", self.seed, "one or more different numbers")
        known = (*LOGGERS, *plugins.registered(plugins.LOGGERS))
        fine = all(":" in each or each in known for each in self.loggers)
        names = f"{', '.join(known)}, or package.module:Class"
        require(fine, "loggers", self.loggers, f"some of {names}")
        fine = len(set(self.loggers)) == len(self.loggers)
        require(fine, "loggers", self.loggers, "different from one another")
        fine = bool(self.teacher) == self.imitation_learning
        require(fine, "teacher", self.teacher, "a policy with imitation_learning=true, else empty")
        fine = self.save_replay or not self.trainer.buffer_size or self.on_divergence == "stop"
        require(fine, "on_divergence", self.on_divergence, "stop with save_replay=false")
        fine = isinstance(self.trainer, kind)
        require(fine, "trainer", type(self.trainer).__name__, f"{kind.__name__} for this agent")
        fine = agent.uses_priorities or not self.trainer.prioritized
        require(fine, "trainer.prioritized", True, f"false for {self.agent_type}")
        self.trainer.check(self.training_schedule.most_robots)


def with_execution(config: TrainConfig[Any], **changes: Any) -> TrainConfig[Any]:
    """Return a configuration with other settings of its execution."""
    return replace(config, execution=replace(config.execution, **changes))
