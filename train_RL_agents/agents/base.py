"""What every agent is: networks, a loss and an action rule, for any number of robots at once."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from train_RL_agents.networks.features import Features
from train_RL_agents.networks.observation import Inputs


@dataclass(frozen=True)
class AgentConfig:
    """Base of the agents' own settings."""

    ADDED: ClassVar[dict[str, Any]] = {}
    """Settings that came later, with what was done before: a saved configuration may lack them, and
    must not get the defaults of today."""
    features: Features = "geometric"
    """What encoders are given: raw observations, scaled ones, or scaled ones and the geometry of
    the encounters."""


ConfigType = TypeVar("ConfigType", bound=AgentConfig)


class Batch(NamedTuple):
    """Transitions drawn from replay; B of them."""

    observation: Inputs
    action: Tensor
    """[B, 2], or [B] int64."""
    reward: Tensor
    """[B] sum of n discounted rewards, scaled."""
    discount: Tensor
    """[B] gamma^n, 0 where the robot ended."""
    next_observation: Inputs
    weights: Tensor | None = None
    """[B] importance weights of prioritised replay."""

    def part(self, rows: slice) -> Batch:
        """Some of the transitions, without copies."""
        chosen: Batch = tree_map_only(Tensor, lambda each: each[rows], self)
        return chosen


Losses = dict[str, Tensor]
"""Scalars by name, each a mean over the batch, so that a batch may be taken in parts; those that
start with ``loss`` are minimised, the rest is for the log. An agent that can prioritise replay adds
``priority`` [B], the size of each transition's error."""


class Agent(nn.Module, ABC, Generic[ConfigType]):
    """A decision maker with shared weights for all robots.

    Subclasses fill ``networks`` (learned) in their constructor and call ``make_targets``.

    Args:
        config: the agent's own settings.
        num_actions: number of discrete actions; not used by continuous agents.
    """

    config_type: ClassVar[type[AgentConfig]]
    continuous: ClassVar[bool]
    acting: ClassVar[str]
    """Which of ``networks`` chooses the action (the first, if several do)."""
    gives_priorities: ClassVar[bool] = False
    """Whether ``losses`` heeds weights and gives priorities."""
    supports_risk: ClassVar[bool] = False
    """Whether ``act`` heeds a risk level."""
    answers: ClassVar[dict[str, str]]
    """What ``answer`` gives: the meaning of each tensor by its name."""
    rule: ClassVar[str]
    """How ``decide`` turns the answers into an action, in words."""

    def __init__(self, config: ConfigType, num_actions: int = 25) -> None:
        super().__init__()
        self.config, self.num_actions = config, num_actions
        self.networks = nn.ModuleDict()
        self.targets = nn.ModuleDict()

    def make_targets(self, *names: str) -> None:
        """Give the named networks target copies in ``targets``."""
        for name in names:
            self.targets[name] = copy.deepcopy(self.networks[name]).requires_grad_(False)

    @abstractmethod
    def act(self, inputs: Inputs, risk: Tensor | None = None) -> Tensor:
        """Best actions, deterministic.

        Args:
            inputs: observations [B].
            risk: [B] share of the worst outcomes to judge by (CVaR level, 1: the mean); only
                agents that know return distributions heed it. None: as configured.

        Returns:
            [B, 2] in [-1, 1], or [B] int64.
        """

    def return_quantiles(self, inputs: Inputs, action: Tensor) -> Tensor | None:
        """Quantiles of the return (scaled rewards) of actions, at even and rising fractions.

        Args:
            inputs: observations [...].
            action: [..., 2] or [...] int64.

        Returns:
            [..., N], or None if the agent does not know them.
        """
        return None

    @abstractmethod
    def answer(self, inputs: Inputs, taus: Tensor | None = None) -> tuple[Tensor, ...]:
        """What an exported network gives, as the field's planners expect it.

        Args:
            inputs: observations [B].
            taus: [B, N] fractions; only for agents with ``answer_taus``.

        Returns:
            The tensors named in ``answers``.
        """

    @abstractmethod
    def decide(self, *answers: Tensor) -> Tensor:
        """The action that answers lead to: what ``act`` chooses; see there."""

    def answering(self) -> list[str]:
        """Names of the networks that ``answer`` uses."""
        return [self.acting]

    def answer_taus(self, inputs: Inputs) -> Tensor | None:
        """The fractions [B, N] that ``act`` uses; None for agents whose ``answer`` takes none."""
        return None

    def behave(self, inputs: Inputs, random: Any) -> Tensor:
        """Actions while training, before exploration is added; the best ones by default.

        It is compiled into one graph, and so is ``act`` if it is left as it is.

        Args:
            inputs: observations [B].
            random: what ``exploration_noise`` gave.
        """
        return self.act(inputs)

    def exploration_noise(self, batch: torch.Size, generator: torch.Generator) -> Any:
        """Random numbers that one call of ``behave`` needs, drawn outside compiled code.

        Args:
            batch: shape B of the observations.
            generator: source of randomness.
        """
        return None

    def draw(self, batch_size: int, generator: torch.Generator) -> Any:
        """Random numbers that one call of ``losses`` needs, drawn outside compiled code."""
        return None

    def part_of_noise(self, random: Any, rows: slice) -> Any:
        """What ``losses`` needs of a draw for some rows of its batch.

        All of it by default; an agent that draws numbers for every row selects those.
        """
        return random

    @abstractmethod
    def losses(self, batch: Batch, random: Any) -> Losses:
        """Losses of a batch; each must send gradients only to the networks it trains.

        Together they must send one to every parameter that learns.

        Args:
            batch: transitions.
            random: what ``draw`` gave.
        """


LossFunction = Callable[[Batch, Any], Losses]
