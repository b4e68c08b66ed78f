"""Typed configuration of a training run: every setting with default, unit and meaning.

The defaults train AC-IQN on the six published levels, on a CPU with two cores.
"""

from dataclasses import dataclass, field, make_dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

from marinenav_env.config import RewardConfig, WorldConfig
from marinenav_env.levels import LEVELS, Level
from marinenav_env.runtime.execution import Execution
from marinenav_env.support import plugins
from marinenav_env.support.validation import PositiveInt, at_least, at_most, check_fields, field_types, require
from train_RL_agents.agents import agent_traits
from train_RL_agents.agents.agent_configs import AgentConfig
from train_RL_agents.agents.trainer_configs import TRAINER_CONFIGS, OffPolicyConfig, TrainerConfig
from train_RL_agents.config.environment import EnvConfig
from train_RL_agents.config.levels import EvalLevel, TrainingLevel, convert_levels
from train_RL_agents.utils.shipped import DEFAULT_SAVE_DIR

if TYPE_CHECKING:
    from marinenav_env.stepping.reset_pool import Curriculum

AgentConfigType = TypeVar("AgentConfigType", bound=AgentConfig)
LOGGER_NAMES = ("tensorboard", "csv", "wandb")
MAX_SEED = 2**32 - 1
"""Largest seed of a run, an evaluation set or a search."""
TRAINING_REWARD_NAMES = tuple(
    name
    for name in field_types(RewardConfig)
    if name not in ("timestep_penalty", "COLREGs_penalty", "goal_reward", "function")
)
"""Names of the settings of world.reward that training.reward can override."""


def _make_training_reward() -> Any:
    """Return the dataclass of the settings of RewardConfig that training may override, each null by default."""
    kinds = field_types(RewardConfig) | {"collision_penalty": Annotated[float, at_most(0.0)]}
    members = {
        "__doc__": """Settings of world.reward in training only; null: as there or in a scenario file.

    The default of collision_penalty applies only if neither of these states a value.
    """,
        "__module__": __name__,
        "__post_init__": lambda self: check_fields(self, "training.reward"),
        "described_by": RewardConfig,
    }
    settings = [(name, kinds[name] | None, None) for name in TRAINING_REWARD_NAMES if name != "collision_penalty"]
    first = ("collision_penalty", kinds["collision_penalty"] | None, -50.0)
    return make_dataclass("TrainingReward", [first, *settings], frozen=True, namespace=members)


TrainingReward = _make_training_reward()


@dataclass(frozen=True)
class Training:
    """Settings that apply during training, but not in evaluations."""

    reward: Any = field(default_factory=TrainingReward)
    """Rewards during training."""


@dataclass(frozen=True)
class TrainingSchedule:
    """Training scenarios: levels, all at once or one after another, or a scenario file."""

    levels: tuple[TrainingLevel, ...] = convert_levels(TrainingLevel, LEVELS)
    """Levels from which training scenarios are sampled, as JSON objects. With {"like": NAME}, omitted
    fields are those of the named level: published_1 to published_6, crossing, traffic,
    unruly, narrow_crossing, currents, crowd. The name of a configuration,
    such as levels/sea or levels/defensive, stands for its levels."""
    sampler: str = ""
    """User-defined scenario sampler as package.module:Class, in place of the built-in one."""
    scenarios: str = ""
    """Scenario file, or folder of scenario files, whose episodes are trained on in turn, in place of levels;
    external scenarios are possible, too."""
    strict: bool = False
    """Refuse a scenario file with goals in obstacles, contact at the start or positions off the map,
    instead of printing a warning with their number."""

    def __post_init__(self) -> None:
        check_fields(self, "training_schedule")
        if self.scenarios:
            allowed = f"left out: training_schedule.scenarios={self.scenarios} takes its place"
            for name in ("levels", "sampler"):
                value = getattr(self, name)
                require(value == getattr(TrainingSchedule, name), f"training_schedule.{name}", value, allowed)
        require(len(self.levels) > 0, "training_schedule.levels", self.levels, "one or more")
        weights, starts = self._weights_and_starts()
        require(sum(weights) > 0.0, "training_schedule.levels: weight", weights, "above 0 in sum")
        is_valid = starts[0] == 0 and (not any(starts) or starts == tuple(sorted(set(starts))))
        require(is_valid, "training_schedule.levels: starts_at", starts, "increasing, the first 0")
        is_valid = not any(starts) or {*weights} == {1.0}
        require(is_valid, "training_schedule.levels: weight", weights, "left out beside starts_at")

    def _weights_and_starts(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Return the weights of the levels, and the env-steps at which they begin."""
        return tuple(level.weight for level in self.levels), tuple(level.starts_at for level in self.levels)

    @property
    def max_robots(self) -> int:
        """Return the largest number of robots in any level."""
        return max(level.num_robots for level in self.levels)

    def curriculum(self) -> "Curriculum":
        """Return the schedule as the Curriculum from which the world draws training scenarios."""
        from marinenav_env.stepping.reset_pool import Curriculum

        weights, starts = self._weights_and_starts()
        return Curriculum(
            convert_levels(Level, self.levels),
            weights if {*weights} != {1.0} else (),
            starts if any(starts) else (),
            sampler=self.sampler,
        )


@dataclass(frozen=True)
class EvalSchedule:
    """Scenarios of the evaluations during training: a fixed set, the same for all runs."""

    levels: tuple[EvalLevel, ...] = convert_levels(EvalLevel, LEVELS)
    """Levels of the scenarios, as JSON objects or a name; see training_schedule.levels."""
    seed: Annotated[int, at_least(0), at_most(MAX_SEED)] = 0
    """Seed from which the scenarios are generated."""

    def __post_init__(self) -> None:
        check_fields(self, "eval_schedule")
        require(len(self.levels) > 0, "eval_schedule.levels", self.levels, "one or more")
        is_valid = sum(self.num_episodes) > 0
        require(is_valid, "eval_schedule.levels: num_episodes", self.num_episodes, "above 0 in sum")

    @property
    def num_episodes(self) -> tuple[int, ...]:
        """Return the number of scenarios of each level."""
        return tuple(level.num_episodes for level in self.levels)


@dataclass(frozen=True)
class TrainConfig(Generic[AgentConfigType]):
    """Configuration of a training run."""

    agent: AgentConfigType = None  # type: ignore[assignment]
    """Settings of the agent; by default those of its type."""
    agent_type: str = "AC-IQN"
    """Name of the agent."""
    seed: Annotated[tuple[int, ...], at_least(0), at_most(MAX_SEED)] = (0,)
    """Seeds, for each of which one run is trained."""
    total_timesteps: PositiveInt = 6_000_000
    """Env-steps of a run, over all its environments."""
    eval_freq: PositiveInt = 500_000
    """Env-steps between evaluations (and checkpoints)."""
    log_freq: PositiveInt = 20_000
    """Env-steps between log entries."""
    save_dir: str = DEFAULT_SAVE_DIR
    """Folder that run folders are made in."""
    loggers: tuple[str, ...] = ("tensorboard",)
    """Loggers of scalars: tensorboard, csv, wandb, or package.module:Class."""
    monitor: bool = True
    """Log the use of CPU, memory and GPU."""
    on_user_signal: Literal["stop", "save"] = "stop"
    """Reaction to SIGUSR1 or SIGUSR2, which Slurm sends ahead of a job's end: save and stop, or save and continue."""
    load_model: str = ""
    """Checkpoint whose weights training starts from."""
    imitation_learning: bool = False
    """Imitate the teacher's actions in addition to learning from rewards."""
    teacher: str = ""
    """Policy that is imitated; the run keeps a copy."""
    trainer: TrainerConfig = None  # type: ignore[assignment]
    """Settings of collection and learning; by default those of the agent."""
    training: Training = field(default_factory=Training)
    """Settings that apply during training, but not in evaluations."""
    execution: Execution = field(default_factory=Execution)
    """Device, threads, generated code, CUDA graphs and precision."""
    env: EnvConfig = field(default_factory=EnvConfig)
    """Settings of the environment."""
    world: WorldConfig = field(default_factory=WorldConfig)
    """Settings of the world of the built-in environment."""
    training_schedule: TrainingSchedule = field(default_factory=TrainingSchedule)
    """Training scenarios."""
    eval_schedule: EvalSchedule = field(default_factory=EvalSchedule)
    """Evaluation scenarios."""
    save_replay: bool = True
    """Keep the replay buffer of an off-policy agent in the latest checkpoint, without which the run cannot be
    resumed."""

    def __post_init__(self) -> None:
        require(isinstance(self.agent_type, str), "agent_type", self.agent_type, "the name of an agent")
        agent = agent_traits(self.agent_type)
        kind = TRAINER_CONFIGS[agent.algorithm]
        if self.agent is None:
            object.__setattr__(self, "agent", agent.config_type())
        if self.trainer is None:
            object.__setattr__(self, "trainer", kind(**agent.trainer_defaults))
        check_fields(self)
        require(len(set(self.seed)) == len(self.seed) > 0, "seed", self.seed, "one or more different numbers")
        remembers_frames = self.agent.memory.kind == "frames"
        if remembers_frames and self.env.is_built_in and not self.world.sensor.objects_id:
            sensor = replace(self.world.sensor, objects_id=True)  # by which frames follow objects
            object.__setattr__(self, "world", replace(self.world, sensor=sensor))
        loggers = (*LOGGER_NAMES, *plugins.registered_names(plugins.LOGGERS))
        is_valid = all(":" in name or name in loggers for name in self.loggers)
        names = f"{', '.join(loggers)}, or package.module:Class"
        require(is_valid, "loggers", self.loggers, f"some of {names}")
        is_valid = bool(self.teacher) == self.imitation_learning
        require(is_valid, "teacher", self.teacher, "a policy with imitation_learning=true, else empty")
        is_valid = isinstance(self.trainer, kind)
        require(is_valid, "trainer", type(self.trainer).__name__, f"{kind.__name__} for this agent")
        levels: tuple[Level, ...] = (*self.training_schedule.levels, *self.eval_schedule.levels)
        room = self.world.scenario.shore_segments
        has_room = room > 0 or not any(level.maps for level in levels)
        require(has_room, "world.scenario.shore_segments", room, "16, 64 or 256 for levels with maps")
        if isinstance(self.trainer, OffPolicyConfig):
            is_valid = agent.uses_priorities or not self.trainer.prioritized
            require(is_valid, "trainer.prioritized", True, f"false for {self.agent_type}")
            storage = self.trainer.replay_storage
            is_valid = storage == "device" or not remembers_frames
            require(is_valid, "trainer.replay_storage", storage, "device with agent.memory.kind=frames")
            self.trainer.check_sizes(self.training_schedule.max_robots if self.env.is_built_in else 1)

    @property
    def is_resumable(self) -> bool:
        """Return whether a stopped run can be resumed: its replay buffer, if it learns from one, is saved."""
        return self.save_replay or not isinstance(self.trainer, OffPolicyConfig)
