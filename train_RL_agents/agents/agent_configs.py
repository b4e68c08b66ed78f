"""Settings of the agents, and what a configuration needs to know of them; torch is not imported."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from marinenav_env.support.validation import (
    Fraction,
    NonNegativeFloat,
    PositiveFloat,
    PositiveFraction,
    above,
    at_least,
    at_most,
    require,
)
from train_RL_agents.networks.encoder_config import EncoderConfig, LayerWidth, LayerWidths


@dataclass(frozen=True)
class AgentConfig(EncoderConfig):
    """Base class of the settings of agents, which are those of its encoders and those that a subclass adds."""

    recurrent: ClassVar[bool] = False
    """True for agents that may have a recurrent memory."""

    def __post_init__(self) -> None:
        super().__post_init__()
        is_valid = self.recurrent or self.memory.kind != "gru"
        require(is_valid, "agent.memory.kind", self.memory.kind, "none or frames; gru is for PPO and A2C")


@dataclass(frozen=True)
class QuantileConfig(AgentConfig):
    """Settings of implicit quantile networks."""

    quantiles: Annotated[int, at_least(1), at_most(1024)] = 16
    """Number N of quantile fractions per network and update."""
    critics: Annotated[int, at_least(1), at_most(10)] = 2
    """Number of independent networks that estimate values; targets are low estimates over them."""
    embedding: Literal["late", "published"] = "late"
    """Layer at which the fractions enter: after the last hidden layer or, as published, before the first."""
    layer_norm: bool = True
    """LayerNorm in the hidden layers of the networks that give values."""
    kappa: PositiveFloat = 10.0
    """Threshold of the Huber loss (scaled reward). Below it the loss is squared, and quantiles become expectiles, whose
    mean accounts for rare collisions; the mean of true quantiles does not."""
    risk: Literal["neutral", "adaptive"] = "adaptive"
    """Rating of actions in evaluations without a requested risk level: neutral, by the mean of their outcomes;
    adaptive, near other objects by their worst outcomes (see ``nearness_risk``)."""


@dataclass(frozen=True)
class ACIQNConfig(QuantileConfig):
    """Settings of AC-IQN."""

    dropped: int = 1
    """Number of the highest quantiles of each critic that are left out of the targets."""
    target_noise: Fraction = 0.1
    """Standard deviation of the noise on target actions, which are in [-1, 1]."""
    actor_noise: NonNegativeFloat = 0.1
    """Standard deviation of the noise on the actor's output before squashing, in the actor's loss. It smooths the
    value, which then has fewer local maxima (Nachum et al. 2018)."""
    saturation_penalty: NonNegativeFloat = 1e-4
    """Weight of the penalty on the squared output of the actor before squashing, as in DDPG."""
    actor_share: Annotated[float, above(0.0), at_most(1.0)] = 0.5
    """Share of each batch that the actor learns from; the critics learn from all of it. A small share saves time, like
    the delayed updates of TD3 (Fujimoto et al. 2018)."""
    refine: bool = True
    """Evaluations take the best of the actor's action and its neighbours at a distance of 0.5, rated by the critics
    at the risk level; false: only where a risk level below 1 is requested."""

    def __post_init__(self) -> None:
        super().__post_init__()
        is_valid = 0 <= self.dropped < self.quantiles
        require(is_valid, "agent.dropped", self.dropped, f"from 0 to {self.quantiles - 1}")


@dataclass(frozen=True)
class IQNConfig(QuantileConfig):
    """Settings of IQN."""

    acting_quantiles: Annotated[int, at_least(1), at_most(1024)] = 32
    """Number of quantile fractions when acting, evenly spaced below the risk level."""
    random_fractions: bool = False
    """While training, act on random fractions, sampled for every robot, as published."""
    double: bool = True
    """Choose the next action with the learned network and value it with the target network; false: both with the target
    network."""
    dueling: bool = True
    """Separate heads for the value of the state and the advantages of the actions."""


@dataclass(frozen=True)
class ActionCriticConfig(AgentConfig):
    """Settings of the critics of DDPG and SAC."""

    critic: Literal["scalar", "quantile"] = "quantile"
    """Output of a critic: one value per action, or quantiles of its return at fixed fractions."""
    quantiles: Annotated[int, at_least(1), at_most(1024)] = 25
    """Number of quantiles of a quantile critic."""
    kappa: PositiveFloat = 10.0
    """Threshold of the Huber loss of a quantile critic (scaled reward); see QuantileConfig."""
    dropped: int = 2
    """Number of the highest quantiles of each critic that are left out of the targets."""
    critics: Annotated[int, at_least(1), at_most(10)] = 2
    """Number of independent critics; targets are low estimates over them."""
    action_input: Literal["early", "published"] = "early"
    """How the action enters the critic: early, concatenated with the encoded observation; or published, encoded and
    multiplied with the output of the first hidden layer."""
    layer_norm: bool = True
    """LayerNorm in the hidden layers of the critics."""

    def __post_init__(self) -> None:
        super().__post_init__()
        is_valid = 0 <= self.dropped < self.quantiles
        require(is_valid, "agent.dropped", self.dropped, f"from 0 to {self.quantiles - 1}")


@dataclass(frozen=True)
class DDPGConfig(ActionCriticConfig):
    """Settings of DDPG."""

    target_noise: Fraction = 0.1
    """Standard deviation of the noise on target actions, which are in [-1, 1]."""
    saturation_penalty: NonNegativeFloat = 1e-4
    """Weight of the penalty on the squared output of the actor before squashing. It keeps actions from saturating,
    where their gradient nearly vanishes."""


@dataclass(frozen=True)
class SACConfig(ActionCriticConfig):
    """Settings of SAC."""

    temperature: PositiveFloat = 0.02
    """Weight of the entropy (scaled reward); if learned, its initial value."""
    learn_temperature: bool = True
    """Learn the temperature, so that the entropy approaches the target entropy."""
    target_entropy: float | None = None
    """Target entropy of an action for a learned temperature (nat); null: minus the number of its components."""


@dataclass(frozen=True)
class DQNConfig(AgentConfig):
    """Settings of DQN."""

    double: bool = True
    """Choose the next action with the learned network and value it with the target network; false: both with the target
    network."""
    dueling: bool = True
    """Separate heads for the value of the state and the advantages of the actions."""
    critics: Annotated[int, at_least(1), at_most(10)] = 2
    """Number of independent networks; targets take the smallest of their values."""
    layer_norm: bool = True
    """LayerNorm in the hidden layers."""


@dataclass(frozen=True)
class RainbowConfig(AgentConfig):
    """Settings of Rainbow."""

    atoms: Annotated[int, at_least(2), at_most(1024)] = 51
    """Number of atoms of the return distribution."""
    v_min: float = -5.0
    """Return of the lowest atom (scaled reward)."""
    v_max: float = 6.0
    """Return of the highest atom (scaled reward)."""
    sigma_0: NonNegativeFloat = 0.05
    """Initial scale of the noise in the weights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.v_min < self.v_max, "agent.v_max", self.v_max, f"above v_min, {self.v_min}")


@dataclass(frozen=True)
class ActorCriticConfig(AgentConfig):
    """Settings of agents with a stochastic policy and a value function (PPO, A2C).

    Fields without a docstring are those of EncoderConfig with another default.
    """

    recurrent = True
    encoder: Literal["concat", "max", "attention"] = "max"
    self_width: LayerWidth = 32
    object_width: LayerWidth = 32
    hidden_sizes: LayerWidths = (64, 64)
    actions: Literal["auto", "categorical", "gaussian", "clipped_gaussian"] = "auto"
    """Distribution of the actions: categorical over the thrust pairs; normal, squashed into (-1, 1); or normal, clipped
    to [-1, 1]; "auto" is gaussian in an environment with continuous actions, else categorical."""
    log_std: Annotated[float, at_least(-10.0), at_most(2.0)] = -0.5
    """Initial log standard deviation of normal actions."""
    critic: Literal["own", "fleet"] = "own"
    """Input of the value function: a robot's own observation, or those of all active robots of its environment."""
    value_coef: NonNegativeFloat = 0.5
    """Weight of the value loss."""
    entropy: NonNegativeFloat = 0.001
    """Weight of the entropy at the start of the run."""
    entropy_final: NonNegativeFloat = 0.0
    """Weight of the entropy at the end of the run; it falls linearly."""

    def with_actions(self, num_actions: int) -> Self:
        """Return the settings for an environment; with at most one discrete action, its actions are continuous."""
        if self.actions != "auto":
            return self
        return replace(self, actions="gaussian" if num_actions <= 1 else "categorical")


@dataclass(frozen=True)
class PPOConfig(ActorCriticConfig):
    """Settings of PPO."""

    clip: PositiveFraction = 0.2
    """Clipping range of the probability ratio around 1; changes beyond it do not improve the objective."""
    target_kl: NonNegativeFloat = 0.0
    """KL divergence from the policy of the rollout (nat) beyond which a batch has no policy loss; its value loss still
    trains the shared encoder. 0: no limit."""


@dataclass(frozen=True)
class A2CConfig(ActorCriticConfig):
    """Settings of A2C."""


class AgentTraits(NamedTuple):
    """Attributes of an agent's class that a configuration needs, without importing the class."""

    config_type: type[AgentConfig]
    algorithm: str = "off-policy"
    trainer_defaults: Mapping[str, Any] = MappingProxyType({})
    uses_priorities: bool = False


AGENT_TRAITS = {
    "AC-IQN": AgentTraits(ACIQNConfig),
    "IQN": AgentTraits(IQNConfig),
    "DDPG": AgentTraits(DDPGConfig),
    "DQN": AgentTraits(DQNConfig),
    "SAC": AgentTraits(SACConfig),
    "Rainbow": AgentTraits(RainbowConfig, uses_priorities=True),
    "PPO": AgentTraits(PPOConfig, "on-policy", {"num_envs": 512, "rollout_steps": 32, "epochs": 3}),
    "A2C": AgentTraits(
        A2CConfig,
        "on-policy",
        {"num_envs": 256, "rollout_steps": 5, "batch_size": 3072, "optimizer": "rmsprop", "max_grad_norm": 0.5},
    ),
}
"""Traits of each built-in agent by its name."""
