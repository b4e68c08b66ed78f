"""Interface of agents: networks, outputs, an action rule and a loss, for any number of robots.

An agent is an off-policy agent (``Agent``) or an on-policy one (``agents.actor_critic``); its class attribute
``algorithm`` names the algorithm that trains it.
"""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, TypeVar

import torch
from torch import Tensor, nn

from marinenav_env.support.validation import require
from train_RL_agents.agents.agent_configs import AgentConfig
from train_RL_agents.agents.batches import Batch, Losses
from train_RL_agents.networks.encoders import add_geometry, is_scale_buffer
from train_RL_agents.networks.frames import make_frames
from train_RL_agents.networks.memory import MEMORY, NEXT_MEMORY, STARTS
from train_RL_agents.networks.observation import DEFAULT_SPEC, Observation, ObservationSpec

ConfigType = TypeVar("ConfigType", bound=AgentConfig)


class Agent(nn.Module, ABC, Generic[ConfigType]):
    """Base class of agents: networks with shared weights for all robots.

    Subclasses fill ``networks`` in ``build`` and may call ``make_targets``, which adds slowly updated copies.
    """

    config_type: ClassVar[type[AgentConfig]]
    """Dataclass of the settings; those of built-in agents are in ``agent_configs``."""
    algorithm: ClassVar[Literal["off-policy", "on-policy"]] = "off-policy"
    """Algorithm that trains the agent: on transitions of replay, or on rollouts of the current policy."""
    adds_exploration: ClassVar[bool] = True
    """True if exploration noise is added to the actions of ``explore``."""
    continuous: bool
    """True for continuous actions [B, D], false for indices [B]."""
    trainer_defaults: ClassVar[Mapping[str, Any]] = {}
    """Values of the settings of ``trainer`` whose default for this agent is not that of its algorithm, by name."""
    uses_priorities: ClassVar[bool] = False
    """True if ``loss`` uses importance weights and returns priorities."""
    supports_risk: ClassVar[bool] = False
    """True if ``outputs`` uses a risk level (its argument ``risk``)."""
    scores_are_returns: ClassVar[bool] = True
    """True if ``scores`` are returns (scaled rewards), false for logits."""
    output_meanings: ClassVar[dict[str, str]] = {"action": "action, in [-1, 1] in every component"}
    """Descriptions in English of the tensors that ``outputs`` returns, by name."""
    selection_rule: ClassVar[str] = "the output is the action"
    """Description in English of how ``select`` turns outputs into an action."""

    def __init__(self, config: ConfigType, num_actions: int = 25, spec: ObservationSpec | None = None) -> None:
        super().__init__()
        self.config, self.num_actions = config, num_actions
        self.spec = spec or DEFAULT_SPEC
        self.frames = make_frames(config, self.spec)
        taken = {MEMORY, STARTS} & {*self.spec.entries} if config.memory.kind != "none" else ()
        require(not taken, "agent.memory.kind", config.memory.kind, f"none, since {', '.join(taken)} is observed")
        self.networks = nn.ModuleDict()
        self.targets = nn.ModuleDict()
        self.build()
        if self.memory_size:
            self.output_meanings = {  # type: ignore[misc]
                **self.output_meanings,
                NEXT_MEMORY: "the input memory of the next step",
            }

    def build(self) -> None:
        """Create ``networks`` and ``targets`` for ``config`` and ``spec``; by default, create none."""

    def make_targets(self, *names: str) -> None:
        """Add copies of the named networks to ``targets``."""
        for name in names:
            self.targets[name] = copy.deepcopy(self.networks[name]).requires_grad_(False)

    def follows_from_config(self, name: str) -> bool:
        """Return whether the configuration determines the weight of this name; a new run takes no policy's."""
        return is_scale_buffer(name)

    # Acting -------------------------------------------------------------------------------------

    @abstractmethod
    def outputs(self, observation: Observation, risk: Tensor | None = None) -> dict[str, Tensor]:
        """Return the outputs of the deployed network for observations [B], as named in ``output_meanings``.

        ``risk`` [B] is the share of the worst outcomes to act on (CVaR level, 1: the mean), None: as configured; only
        agents with ``supports_risk`` use it.
        """

    def scores(self, outputs: dict[str, Tensor]) -> Tensor | None:
        """Return the scores [B, A] of which ``select`` takes the highest; None for continuous actions."""
        return None

    def select(self, outputs: dict[str, Tensor]) -> Tensor:
        """Return the action for outputs: that of the highest score [B] int64, else ``action`` [B, D] in [-1, 1]."""
        scores = self.scores(outputs)
        return outputs["action"] if scores is None else scores.argmax(-1)

    def act(self, observation: Observation, risk: Tensor | None = None) -> Tensor:
        """Return the best action for observations [B]; see ``outputs`` and ``select``."""
        return self.select(self.outputs(observation, risk))

    def imitating_action(self, observation: Observation) -> Tensor:
        """Return the action [B, D] of a continuous agent for the imitation loss, with a gradient.

        By default, it is the action of ``explore`` with zeros as noise.
        """
        first = next(iter(observation.values()))
        return self.explore(observation, torch.zeros(len(first), self.spec.action_size, device=first.device))[0]

    def explore(self, observation: Observation, noise: Any) -> tuple[Tensor, dict[str, Tensor]]:
        """Return actions for observations [B] while training, before any noise is added, and what ``loss`` needs too.

        ``noise`` is the result of ``exploration_noise``, zeros in ``imitating_action``. The method is compiled into one
        graph.
        """
        return self.act(observation), {}

    def exploration_noise(self, batch: torch.Size, generator: torch.Generator) -> Any:
        """Sample the random numbers that a call of ``explore`` needs, outside compiled code; by default return None."""
        return None

    @property
    def memory_size(self) -> int:
        """Return the number H of numbers of the memory of a robot, an entry of observations; 0 without any."""
        return 0 if self.frames is None else self.frames.size

    def remember(self, observation: Observation, results: dict[str, Tensor]) -> Tensor:
        """Return the memory [B, H] after observations [B], for what ``outputs`` or ``explore`` returned for them."""
        return results[NEXT_MEMORY] if self.frames is None else self.frames.push(observation)

    @property
    def acts_at_random(self) -> bool:
        """Return whether ``explore`` uses random numbers, and so differs from ``act``."""
        generator = torch.Generator(next(self.parameters()).device)
        return self.exploration_noise(torch.Size([1]), generator) is not None

    # Learning -----------------------------------------------------------------------------------

    @property
    def return_range(self) -> tuple[float, float]:
        """Return the lowest and the highest return (scaled reward) that the agent represents; by default infinite."""
        return -math.inf, math.inf

    @abstractmethod
    def loss(self, batch: Any, noise: Any) -> Losses:
        """Return the losses of a batch, each with a gradient for what it trains only, together for every parameter."""

    def share_geometry(self, batch: Batch) -> Batch:
        """Return a batch whose observations have what all networks compute from them alike: frames, and geometry."""
        observations = batch.observation, batch.next_observation
        if self.frames is not None:
            observations = self.frames.stack(batch.observation), self.frames.stack(batch.next_observation)
        before, after = (add_geometry(self.config, self.spec, observation) for observation in observations)
        return batch._replace(observation=before, next_observation=after)

    def loss_noise(self, batch_size: int, generator: torch.Generator) -> Any:
        """Sample the random numbers that a call of ``loss`` needs, outside compiled code; by default return None."""
        return None

    def part_of_noise(self, noise: Any, rows: slice) -> Any:
        """Return the part of the noise of ``loss`` that belongs to a micro-batch, by default all of it."""
        return noise

    # Export and inspection ----------------------------------------------------------------------

    def output_networks(self) -> list[str]:
        """Return the names of the networks that ``outputs`` uses; by default all."""
        return list(self.networks)

    def extra_inputs(self, observation: Observation) -> dict[str, Tensor]:
        """Return the further inputs [B, ...] of a deployed network, keyword arguments of ``outputs``, as in ``act``."""
        return {}

    def return_quantiles(self, observation: Observation, action: Tensor) -> Tensor | None:
        """Return the quantiles [..., N] of the return (scaled rewards) of actions, at evenly spaced, rising fractions.

        None if the agent does not estimate them.
        """
        return None


def average_critics(quantiles: Sequence[Tensor]) -> Tensor:
    """Return the quantiles [..., N] of several critics, averaged over the critics and sorted."""
    return torch.stack([*quantiles]).mean(0).sort(-1).values
