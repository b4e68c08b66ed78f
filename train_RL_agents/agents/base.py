"""The contract of agents: networks, outputs, an action rule and a loss, for any number of robots.

An agent is an off-policy agent (``Agent``) or an on-policy one (``agents.actor_critic``); which
algorithm drives it is its class attribute ``algorithm``.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from marinenav_env import WorldConfig
from train_RL_agents.networks.encoders import EncoderConfig
from train_RL_agents.networks.observation import Observation, ObservationSpec


@dataclass(frozen=True)
class AgentConfig(EncoderConfig):
    """Base of the agents' own settings."""

    ADDED: ClassVar[dict[str, Any]] = {}
    """Settings added later, with the values of the former behaviour: saved configurations that lack
    them get these instead of the defaults."""


ConfigType = TypeVar("ConfigType", bound=AgentConfig)


class Batch(NamedTuple):
    """Transitions drawn from replay; B of them."""

    observation: Observation
    action: Tensor
    """[B, 2], or [B] int64."""
    reward: Tensor
    """[B] sum of n discounted rewards, scaled."""
    discount: Tensor
    """[B] gamma^n, 0 where the robot ended."""
    next_observation: Observation
    weights: Tensor | None = None
    """[B] importance weights of prioritised replay."""

    @property
    def size(self) -> int:
        """B."""
        return int(self.reward.shape[0])

    def mean(self, values: Tensor) -> Tensor:
        """Mean of values [B]."""
        return values.mean()

    def part(self, rows: slice) -> Batch:
        """Some of the transitions, without copies."""
        chosen: Batch = tree_map_only(Tensor, lambda each: each[rows], self)
        return chosen


Losses = dict[str, Tensor]
"""Scalars by name, each a mean over the batch, so that a batch may be taken in parts; those that
start with ``loss`` are minimised, the rest is for the log. An agent that can prioritise replay adds
``priority`` [B], the size of each transition's error."""

LossFunction = Callable[[Any, Any], Losses]
"""From a batch and the noise for it to losses."""


class Agent(nn.Module, ABC, Generic[ConfigType]):
    """A decision maker with shared weights for all robots.

    Subclasses fill ``networks`` (learned) in ``build`` and call ``make_targets``.

    Args:
        config: the agent's own settings.
        num_actions: number of discrete actions; not used by continuous agents.
        spec: what robots observe; the published observation by default.
    """

    config_type: ClassVar[type[AgentConfig]]
    algorithm: ClassVar[Literal["off-policy", "on-policy"]] = "off-policy"
    """What it learns from: transitions of replay, or rollouts of the present policy."""
    adds_exploration: ClassVar[bool] = True
    """Whether exploration is added to the actions of ``explore``."""
    continuous: bool
    """Whether actions are continuous, [B, 2], or indices [B]."""
    trainer_defaults: ClassVar[dict[str, Any]] = {}
    """Settings of ``trainer`` whose defaults are others for this agent."""
    uses_priorities: ClassVar[bool] = False
    """Whether ``loss`` uses importance weights and returns priorities."""
    supports_risk: ClassVar[bool] = False
    """Whether ``outputs`` uses a risk level."""
    scores_are_returns: ClassVar[bool] = True
    """Whether ``scores`` are returns (scaled rewards), and not logits."""
    output_meanings: ClassVar[dict[str, str]]
    """Meaning of each tensor that ``outputs`` gives, by name."""
    selection_rule: ClassVar[str]
    """How ``select`` turns outputs into an action, in words."""

    def __init__(self, config: ConfigType, num_actions: int = 25, spec: ObservationSpec | None = None) -> None:
        super().__init__()
        self.config, self.num_actions = config, num_actions
        self.spec = spec or ObservationSpec.of(WorldConfig())
        self.networks = nn.ModuleDict()
        self.targets = nn.ModuleDict()
        self.build()

    def build(self) -> None:
        """Fill ``networks`` and ``targets``, as ``config`` and ``spec`` ask for."""

    def make_targets(self, *names: str) -> None:
        """Give the named networks target copies in ``targets``."""
        for name in names:
            self.targets[name] = copy.deepcopy(self.networks[name]).requires_grad_(False)

    # Acting -------------------------------------------------------------------------------------

    @abstractmethod
    def outputs(self, observation: Observation, risk: Tensor | None = None) -> dict[str, Tensor]:
        """What a deployed network computes.

        Args:
            observation: [B].
            risk: [B] share of the worst outcomes to act on (CVaR level, 1: the mean); only
                agents with ``supports_risk`` use it. None: as configured.

        Returns:
            The tensors named in ``output_meanings``, [B, ...].
        """

    def scores(self, outputs: dict[str, Tensor]) -> Tensor | None:
        """Numbers [B, A] of which ``select`` takes the highest; None for continuous actions."""
        return None

    def select(self, outputs: dict[str, Tensor]) -> Tensor:
        """The best action for outputs, deterministic; continuous agents override this.

        Returns:
            [B, 2] in [-1, 1], or [B] int64.
        """
        scores = self.scores(outputs)
        if scores is None:
            raise NotImplementedError(f"{type(self).__name__} has neither scores nor select")
        return scores.argmax(-1)

    def act(self, observation: Observation, risk: Tensor | None = None) -> Tensor:
        """The best action for observations [B]; see outputs and select."""
        return self.select(self.outputs(observation, risk))

    def imitating_action(self, observation: Observation) -> Tensor:
        """What continuous agents are to do as their teachers do, [B, 2]; has a gradient.

        By default what ``explore`` gives with zeros as noise.
        """
        given = next(iter(observation.values()))
        return self.explore(observation, torch.zeros(len(given), 2, device=given.device))[0]

    def explore(self, observation: Observation, noise: Any) -> tuple[Tensor, dict[str, Tensor]]:
        """Actions while training; for off-policy agents before exploration noise is added.

        It is compiled into one graph.

        Args:
            observation: [B].
            noise: what ``exploration_noise`` gave; see also ``imitating_action``.

        Returns:
            The actions; and further tensors [B, ...] that ``loss`` needs of this moment, by name.
        """
        return self.act(observation), {}

    def exploration_noise(self, batch: torch.Size, generator: torch.Generator) -> Any:
        """Random numbers that one call of ``explore`` needs, drawn outside compiled code.

        Args:
            batch: shape B of the observations.
            generator: source of randomness.
        """
        return None

    @property
    def acts_at_random(self) -> bool:
        """Whether ``explore`` draws random numbers, and so acts otherwise than ``act``."""
        generator = torch.Generator(next(self.parameters()).device)
        return self.exploration_noise(torch.Size([1]), generator) is not None

    # Learning -----------------------------------------------------------------------------------

    @abstractmethod
    def loss(self, batch: Any, noise: Any) -> Losses:
        """Losses of a batch; each must send gradients only to the networks it trains.

        Together they must send one to every parameter that learns.

        Args:
            batch: what the algorithm learns from; Batch, or RolloutBatch.
            noise: what ``loss_noise`` gave.
        """

    def loss_noise(self, batch_size: int, generator: torch.Generator) -> Any:
        """Random numbers that one call of ``loss`` needs, drawn outside compiled code."""
        return None

    def part_of_noise(self, noise: Any, rows: slice) -> Any:
        """What ``loss`` needs of its noise for some rows of its batch.

        All of it by default; an agent that draws numbers for every row selects those.
        """
        return noise

    # Export and inspection ----------------------------------------------------------------------

    def output_networks(self) -> list[str]:
        """Names of the networks that ``outputs`` uses: all by default."""
        return list(self.networks)

    def extra_inputs(self, observation: Observation) -> dict[str, Tensor]:
        """Inputs of a deployed network beside the observation, [B, ...], as ``act`` uses them.

        They are keyword arguments of ``outputs``.
        """
        return {}

    def return_quantiles(self, observation: Observation, action: Tensor) -> Tensor | None:
        """Quantiles of the return (scaled rewards) of actions, at even and rising fractions.

        Args:
            observation: [...].
            action: [..., 2] or [...] int64.

        Returns:
            [..., N], or None if the agent does not estimate them.
        """
        each = self.critic_quantiles(observation, action)
        return None if each is None else join_critics(each)

    def critic_quantiles(self, observation: Observation, action: Tensor) -> Tensor | None:
        """Estimate the quantiles of the return by each of C critics of given actions.

        Returns:
            [C, ..., N], not sorted; None if the agent has no such critics. See return_quantiles.
        """
        return None


def join_critics(quantiles: Tensor) -> Tensor:
    """Return the rising means [..., N] over critics of their quantiles [C, ..., N]."""
    return quantiles.mean(0).sort(-1).values
