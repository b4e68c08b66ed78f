"""Policy module of any agent: acts for all robots of all environments in one pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor

from marinenav_env import GROUP
from marinenav_env.runtime.compiling import compile_function
from train_RL_agents.agents import Agent
from train_RL_agents.networks.memory import MEMORY, NEXT_MEMORY, STARTS
from train_RL_agents.networks.observation import ACTIVE_KEY, OBSERVATION_KEY, Observation, to_observation

RISK_KEY = (GROUP, "risk")
"""Key of the risk levels [E, R] that a policy acts on: shares of the worst outcomes (CVaR levels), in (0, 1]."""
QUANTILES_KEY = (GROUP, "quantiles")
"""Key of the quantiles [E, R, N] of the return of its actions, an optional output of a policy in evaluations."""
SCORES_KEY = (GROUP, "scores")
"""Key of the scores [E, R, A] of all discrete actions, an optional output of a policy in evaluations."""
MEMORY_KEY = (GROUP, MEMORY)
"""Key of the memory [E, R, H] of a recurrent policy: that before its step is read, and that after it is written."""
RECALLED = "recalled"
"""Name in the group of the memory [E, R, H] that a recurrent policy acted with, zero at the start of an episode."""


ExploreResult = tuple[Tensor, dict[str, Tensor]]
"""Result of ``Agent.explore``: actions, and other tensors by name."""


@cache
def compiled_explore(kind: type[Agent[Any]], device: torch.device) -> Callable[..., ExploreResult]:
    """Return the compiled method ``explore`` of a class of agents, for a device.

    The function is cached here and not in a policy, which can thus be copied and sent to other processes.
    """
    explore: Callable[..., ExploreResult] = compile_function(kind.explore, device, kept_for=repr(kind))
    return explore


class PolicyWrapper(TensorDictModuleBase):
    """TensorDict module that acts with an agent.

    In training mode (``train()``) it explores. On-policy agents sample from their distribution. For off-policy agents
    exploration is added: epsilon-greedy for discrete actions, Gaussian noise or uniform actions for continuous ones.
    The strength of exploration is the buffer ``exploration``, initially 0. In evaluation mode (``eval()``) the module
    is deterministic. Robots that are not active get a neutral action.

    It reads ``robots/observation``, ``robots/mask`` and, if present, ``robots/risk`` [E, R] (share of the worst
    outcomes to act on). It writes ``robots/action`` and, while exploring, the further outputs of ``Agent.explore``
    under ``robots``.

    The memory of a recurrent agent is ``robots/memory``; a tensordict without it continues from the module's latest
    step, kept as ``memory``. It is reset where ``is_init`` is true, and for robots that are not active.

    Args:
        agent: agent that acts.
        num_envs: number E of environments, for the spread of exploration over them.
        generator: random generator of exploration; None for a policy that only evaluates.
        uniform: whether uniform random actions replace some continuous actions to explore, instead of noise on all.
        compile: whether the agent's forward pass while exploring is compiled.
    """

    def __init__(
        self,
        agent: Agent[Any],
        num_envs: int = 1,
        generator: torch.Generator | None = None,
        uniform: bool = False,
        compile: bool = False,
    ) -> None:
        super().__init__()
        self.agent, self._generator = agent, generator
        self.uniform, self.compile = uniform, compile
        self.in_keys = [*((*OBSERVATION_KEY, name) for name in agent.spec.entries), (GROUP, "mask")]
        self.out_keys = [(GROUP, "action")]
        if agent.memory_size:
            self.in_keys.append((STARTS,))
            self.out_keys += [MEMORY_KEY, (GROUP, RECALLED)]
        self.memory: Tensor | None = None
        """Memory [E, R, H] after the latest step; None before the first one, and without memory."""
        device = next(agent.parameters()).device
        self.exploration: Tensor
        self.register_buffer("exploration", torch.zeros(num_envs, 1, device=device))
        self.train(generator is not None)

    @torch.no_grad()
    def forward(self, tensordict: TensorDictBase, noise: Any = None) -> TensorDictBase:
        """Write the actions of all robots, [E, R, D] or [E, R]; ``noise`` is of ``draw_noise``, or drawn here."""
        observation = to_observation(tensordict.get(OBSERVATION_KEY))
        active = observation[ACTIVE_KEY] = tensordict.get((GROUP, "mask"))
        if self.agent.memory_size:
            observation[MEMORY] = self._recall(tensordict, active)
        if self.training and self._generator is not None:
            agent_noise, added = self.draw_noise(active.shape) if noise is None else noise
            action, extras = self._explore(observation, agent_noise)
            action = self._perturb(action, *added)
            results = extras
        elif self.agent.memory_size:
            results = self.agent.outputs(observation, tensordict.get(RISK_KEY, None))
            action, extras = self.agent.select(results), {}
        else:
            action, extras = self.agent.act(observation, tensordict.get(RISK_KEY, None)), {}
        if self.agent.memory_size:
            after = self.agent.remember(observation, results)
            extras.pop(NEXT_MEMORY, None)
            extras |= {MEMORY: after * active[..., None], RECALLED: observation[MEMORY]}
            if not torch.compiler.is_compiling():
                self.memory = extras[MEMORY]
        for name, extra in extras.items():
            tensordict.set((GROUP, name), extra)
        mask = active if action.ndim == active.ndim else active[..., None]
        return tensordict.set((GROUP, "action"), torch.where(mask, action, 0))

    def blank_memory(self, robots: torch.Size) -> Tensor | None:
        """Return the memory [E, R, H] of robots [E, R] at the start of an episode; None without any."""
        size = self.agent.memory_size
        return next(self.agent.parameters()).new_zeros(*robots, size) if size else None

    def _recall(self, tensordict: TensorDictBase, active: Tensor) -> Tensor:
        """Return the memory [E, R, H] before a step, for the mask [E, R] of active robots."""
        memory = tensordict.get(MEMORY_KEY, None)
        if memory is None:
            memory = self.memory
        if memory is None or memory.shape[:2] != active.shape:
            memory = self.blank_memory(active.shape)
        assert memory is not None
        return memory * ~tensordict.get(STARTS)[..., None]

    def _explore(self, observation: Observation, noise: Any) -> ExploreResult:
        """Call ``Agent.explore``, compiled if so configured."""
        kind = type(self.agent)
        explore = kind.explore
        if self.compile and not torch.compiler.is_compiling():
            explore = compiled_explore(kind, self.exploration.device)
        return explore(self.agent, observation, noise)

    def draw_noise(self, batch: torch.Size) -> tuple[Any, tuple[Tensor, ...]]:
        """Sample what ``Agent.exploration_noise`` and ``_perturb`` need in a step of robots with the shape [E, R]."""
        generator = self._generator
        assert generator is not None
        agent_noise = self.agent.exploration_noise(batch, generator)
        if not self.agent.adds_exploration:
            return agent_noise, ()
        options: dict[str, Any] = {"generator": generator, "device": generator.device}
        floats = {"dtype": self.exploration.dtype, **options}
        if not self.agent.continuous:
            uniform = torch.randint(self.agent.num_actions, batch, **options)
        elif self.uniform:
            uniform = 2.0 * torch.rand((*batch, self.agent.spec.action_size), **floats) - 1.0
        else:
            return agent_noise, (torch.randn((*batch, self.agent.spec.action_size), **floats),)
        return agent_noise, (uniform, torch.rand(batch, **options))

    def _perturb(self, action: Tensor, *noise: Tensor) -> Tensor:
        """Return actions [E, R] or [E, R, D] with exploration added, for agents that do not explore by themselves."""
        if not noise:
            return action
        if len(noise) == 1:
            return torch.clamp(action + self.exploration[..., None] * noise[0], -1.0, 1.0)
        uniform, chance = noise
        explores = chance < self.exploration
        return torch.where(explores if action.ndim == 2 else explores[..., None], uniform, action)

    def set_exploration(self, largest: float, spread: float) -> None:
        """Set the environments' strengths of exploration, geometrically from ``largest`` to ``largest * spread``."""
        count = self.exploration.shape[0]
        steps = torch.linspace(0.0, 1.0, count, device=self.exploration.device)
        self.exploration.copy_((largest * spread**steps)[:, None])
