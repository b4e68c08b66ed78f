"""Settings of the training algorithms, off-policy and on-policy; an agent names its own in ``Agent.algorithm``."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from marinenav_env.support.validation import (
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveFraction,
    PositiveInt,
    at_least,
    at_most,
    check_fields,
    require,
)


@dataclass(frozen=True)
class TrainerConfig:
    """Settings of collection and learning that all algorithms have in common."""

    divided_settings: ClassVar[tuple[str, ...]] = ("num_envs", "batch_size")
    """Names of the settings that are totals, which are divided among the processes of a run."""
    coupled_sizes: ClassVar[tuple[str, ...]] = ("num_envs", "batch_size")
    """Names of the settings that must be scaled together, because the number of updates that each step is used in,
    or that follow each rollout, depends on all of them."""
    min_updates: ClassVar[int]
    """Least number of updates (on-policy: rollouts) of a run for which the sizing profile ``auto`` keeps larger sizes,
    because a few large updates do not replace many."""
    num_envs: PositiveInt = 256
    """Number of environments in the batch."""
    collector: Literal["local", "processes", "ray"] = "local"
    """Where environments are stepped: in this process, in other processes on this host, or on processors of Ray."""
    collectors: PositiveInt = 1
    """Number of worker processes (CPU) that the environments are divided among; 1 if local."""
    batch_size: PositiveInt = 512
    """Number of transitions, or of robot-steps of a rollout, per update."""
    optimizer: Literal["adam", "rmsprop"] = "adam"
    """Optimiser of the weights: Adam, or RMSprop with the constants of A2C."""
    learning_rate: PositiveFloat = 5e-4
    """Learning rate at the start of the run."""
    learning_rate_final: NonNegativeFloat = 5e-5
    """Learning rate at the end of the run; it changes along a cosine in between."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "fp32"
    """Precision of matrix products in the losses: float32, or bfloat16 or float16 with means, targets
    and weights in float32; auto: fp32 on a CPU, bf16 on a GPU, fp16 on a GPU without bf16. Policies act
    in float32."""
    tf32: bool = False
    """Round the factors of float32 matrix products to 10 bits of mantissa (TF32), on GPUs from Ampere on."""
    fused_optimizer: bool = True
    """Compute Adam's step for all weights by one fused kernel instead of several. Without effect on
    compiled updates."""
    max_grad_norm: PositiveFloat = 10.0
    """Largest norm of the gradient of all parameters together; larger gradients are clipped to it."""
    gamma: Fraction = 0.99
    """Discount factor per control step."""
    reward_scale: PositiveFloat = 0.1
    """Factor that rewards are multiplied by in the learner."""
    imitation_weight: NonNegativeFloat = 1.0
    """Weight of the imitation loss at the start of the run, with imitation_learning."""
    imitation_weight_final: NonNegativeFloat | None = None
    """Weight of the imitation loss at the end of the run; it changes linearly in between; null: it does not change."""
    ema_decay: Annotated[float, at_least(0.0), at_most(0.999999)] = 0.999
    """Decay per update of the exponential moving average (EMA) of the weights that is evaluated and saved; 0: the
    latest weights are used."""

    @property
    def vector_steps(self) -> int:
        """Return the number of vector steps that the collector makes per batch."""
        return 1

    @property
    def learning_interval(self) -> int:
        """Return the number of env-steps between updates, or between rollouts."""
        return self.num_envs * self.vector_steps

    def __post_init__(self) -> None:
        check_fields(self, "trainer")
        is_valid = self.num_envs % self.collectors == 0
        require(is_valid, "trainer.collectors", self.collectors, f"a divisor of num_envs, {self.num_envs}")
        is_valid = self.collector != "local" or self.collectors == 1
        require(is_valid, "trainer.collectors", self.collectors, "1 with trainer.collector=local")


@dataclass(frozen=True)
class OffPolicyConfig(TrainerConfig):
    """Settings of off-policy algorithms: replay, updates, exploration."""

    divided_settings: ClassVar[tuple[str, ...]] = ("num_envs", "batch_size", "buffer_size")
    coupled_sizes: ClassVar[tuple[str, ...]] = ("num_envs", "batch_size", "train_freq")
    min_updates: ClassVar[int] = 15_000
    steps_per_batch: PositiveInt = 1
    """Number of vector steps per batch of the collector."""
    buffer_size: PositiveInt = 1_000_000
    """Number of transitions that replay holds."""
    replay_storage: Literal["device", "host"] = "device"
    """Memory of replay: the device's, or the host's, from which batches are prefetched, so that they are sampled up to
    two batches before their use."""
    learning_starts: NonNegativeInt = 50_000
    """Env-steps before the first update."""
    train_freq: PositiveInt = 128
    """Env-steps per update."""
    n_steps: PositiveInt = 3
    """Number n of steps of the multi-step returns."""
    prioritized: bool = False
    """Sample transitions by the size of their errors (prioritised replay); only for agents that compute priorities."""
    priority_exponent: Fraction = 0.5
    """Exponent of the priorities: 0 samples uniformly, 1 in proportion to them."""
    priority_beta_initial: Fraction = 0.4
    """Initial exponent beta of the importance weights; it rises linearly to 1."""
    tau: PositiveFraction = 0.01
    """Share of the learned weights mixed into the target networks at each of their updates."""
    target_update_interval: NonNegativeInt = 0
    """Env-steps between updates of the target networks; 0: with every update."""
    exploration: Literal["noise", "uniform"] = "noise"
    """How continuous actions explore: Gaussian noise on all of them, or uniform random actions instead of some of them,
    as discrete actions always explore."""
    exploration_initial_eps: Fraction = 1.0
    """Initial epsilon, or standard deviation of the action noise, in the environment that explores most."""
    exploration_final_eps: Fraction = 0.05
    """Final epsilon, or standard deviation of the action noise, in the environment that explores most."""
    exploration_fraction: PositiveFraction = 0.2
    """Share of the run over which epsilon, or the standard deviation, changes linearly."""
    exploration_spread: PositiveFraction = 0.5
    """Epsilon, or standard deviation, in the environment that explores least as a share of that in the one that
    explores most; the other environments are spaced geometrically in between."""

    @property
    def vector_steps(self) -> int:
        """Return the number of vector steps that the collector makes per batch."""
        return self.steps_per_batch

    @property
    def learning_interval(self) -> int:
        """Return the number of env-steps between updates."""
        return self.train_freq

    def minimum_sizes(self, robots: int) -> dict[str, int]:
        """Return the smallest valid ``learning_starts`` (env-steps) and ``buffer_size`` (transitions), by name."""
        # The first update comes train_freq env-steps after learning_starts; before n steps are made, nothing can be
        # sampled.
        first = max(0, self.num_envs * self.n_steps - self.train_freq)
        rows = self.num_envs * self.steps_per_batch * self.n_steps * robots
        return {"learning_starts": first, "buffer_size": rows}

    def check_sizes(self, robots: int) -> None:
        """Check that learning starts after the first n-step transitions, and that replay holds what a batch brings."""
        first, rows = self.minimum_sizes(robots).values()
        allowed = f"at least num_envs * n_steps - train_freq, {first}"
        require(self.learning_starts >= first, "trainer.learning_starts", self.learning_starts, allowed)
        allowed = f"at least {rows}, what one batch may bring"
        require(rows <= self.buffer_size, "trainer.buffer_size", self.buffer_size, allowed)
        allowed = f"at most trainer.buffer_size, {self.buffer_size}"
        require(self.batch_size <= self.buffer_size, "trainer.batch_size", self.batch_size, allowed)


@dataclass(frozen=True)
class OnPolicyConfig(TrainerConfig):
    """Settings of on-policy algorithms: rollouts, and the updates that are computed from them.

    Fields without a docstring are those of TrainerConfig with another default.
    """

    min_updates: ClassVar[int] = 240
    num_envs: PositiveInt = 1024
    rollout_steps: PositiveInt = 16
    """Number of vector steps of a rollout."""
    epochs: PositiveInt = 1
    """Number of passes over every rollout."""
    batch_size: PositiveInt = 1024
    gae_lambda: Fraction = 0.95
    """Parameter lambda of generalised advantage estimation (Schulman et al. 2016)."""
    normalize_advantages: bool = True
    """Shift and scale the advantages of a rollout to mean 0 and standard deviation 1."""
    learning_rate: PositiveFloat = 1e-3
    learning_rate_final: NonNegativeFloat = 1e-5
    max_grad_norm: PositiveFloat = 1.0
    ema_decay: Annotated[float, at_least(0.0), at_most(0.999999)] = 0.998

    @property
    def vector_steps(self) -> int:
        """Return the number of vector steps of a rollout."""
        return self.rollout_steps


TRAINER_CONFIGS: dict[str, type[TrainerConfig]] = {"off-policy": OffPolicyConfig, "on-policy": OnPolicyConfig}
"""Class of the settings of each algorithm, by name of the algorithm."""
