"""Random observations and batches, small agents and their learners."""

import math
import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributions import transforms

from marinenav_env import WorldConfig
from marinenav_env.runtime.execution import Execution
from marinenav_env.support import plugins
from train_RL_agents.agents import AGENTS, Agent, Batch, agent_class
from train_RL_agents.agents.batches import RolloutBatch
from train_RL_agents.agents.trainer_configs import TRAINER_CONFIGS
from train_RL_agents.config.building import make_observation_spec
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.learning.learner import Learner
from train_RL_agents.networks.observation import ACTIVE_KEY, Observation, ObservationSpec

SPEC = make_observation_spec(WorldConfig())
"""The published observation."""
CPU = torch.device("cpu")
_NAMED = os.environ.get("MARINENAV_AGENTS", "").split()
plugins.allow(*_NAMED)
KNOWN = {**AGENTS, **{name: agent_class(name) for name in _NAMED}}
"""The agents that the tests of the contract run for: the registry's, and a user's own."""


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make_inputs(*shape: int, generator: torch.Generator, spec: ObservationSpec = SPEC) -> Observation:
    """Random observations of any leading shape, of the size that the world's have."""
    found: Observation = {}
    for name, entry in spec.entries.items():
        full = (*shape, *entry.shape)
        if entry.kind == "mask":
            found[name] = torch.rand(full, generator=generator) < 0.6
        else:
            drawn = torch.randn(full, generator=generator)
            found[name] = drawn * torch.tensor(entry.scale or (1.0,))
    for name, entry in spec.entries.items():
        if entry.mask in found:
            found[name] = found[name] * found[entry.mask][..., None]
    return found


def each_entry(observation: Observation, change: Callable[[Tensor], Tensor]) -> Observation:
    """An observation with the same done to all of its entries."""
    return {name: change(each) for name, each in observation.items()}


def fail(error: BaseException) -> Callable[..., Any]:
    """A function that raises an error."""

    def failing(*arguments: Any, **keywords: Any) -> None:
        raise error

    return failing


def make_actions(agent: Agent[Any], count: int, generator: torch.Generator) -> Tensor:
    if agent.continuous:
        return 2.0 * torch.rand(count, 2, generator=generator) - 1.0
    return torch.randint(agent.num_actions, (count,), generator=generator)


def explored(agent: Agent[Any], observation: Observation, seed: int = 0) -> Tensor:
    """Actions while training, for one draw of what is random in them."""
    shape = observation["self_state"].shape[:-1]
    return agent.explore(observation, agent.exploration_noise(shape, seeded(seed)))[0]


def make_batch(agent: Agent[Any], count: int, generator: torch.Generator) -> Any:
    """What the agent learns from, at random: transitions, or robot-steps of a rollout."""
    if agent.algorithm == "on-policy":
        return make_rollout(agent, count, generator=generator)
    return make_transitions(agent, count, generator)


def make_transitions(agent: Agent[Any], count: int, generator: torch.Generator) -> Batch:
    """Random transitions, about a third of them terminal."""
    return Batch(
        make_inputs(count, generator=generator, spec=agent.spec),
        make_actions(agent, count, generator),
        torch.randn(count, generator=generator),
        0.9 * (torch.rand(count, generator=generator) < 2 / 3),
        make_inputs(count, generator=generator, spec=agent.spec),
    )


def make_rollout(agent: Agent[Any], *shape: int, generator: torch.Generator) -> RolloutBatch:
    """Robot-steps of the agent's own exploration, [B] or [B, R], most of them of active robots."""
    observation = make_inputs(*shape, generator=generator, spec=agent.spec)
    active = torch.rand(shape, generator=generator) < 0.8
    noise = agent.exploration_noise(torch.Size(shape), generator)
    with torch.no_grad():
        action, extras = agent.explore({**observation, ACTIVE_KEY: active}, noise)
    advantage, target = torch.randn(2, *shape, generator=generator)
    return RolloutBatch(observation, action, extras, advantage, target, active.float(), torch.tensor(0.25))


def agent_of(name, seed=0, num_actions=25, **settings):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return KNOWN[name](KNOWN[name].config_type(**settings), num_actions)


def learner_of(name="DQN", seed=0, num_actions=25, device=CPU, acting=None, agent=None, **settings):
    """A learner; ``acting`` says how it computes, ``settings`` what, ``agent`` of which agent."""
    agent = agent_of(name, seed, num_actions, **(agent or {})).to(device)
    generator = torch.Generator(device).manual_seed(seed)
    acting = dict(acting or {})
    settings |= {name: acting.pop(name) for name in ("precision", "tf32", "fused_optimizer") if name in acting}
    trainer = TRAINER_CONFIGS[agent.algorithm](**settings)
    own = {name: acting.pop(name) for name in ("log", "ranks", "tau") if name in acting}
    if agent.algorithm == "off-policy" and trainer.target_update_interval == 0:
        own.setdefault("tau", trainer.tau)
    execution = Execution(**{"compile": False} | acting)
    config = TrainConfig(agent=agent.config, agent_type=name, trainer=trainer, execution=execution)
    return Learner(agent, config, generator, **own)


def observations(*objects, goal=(20.0, 0.0), velocity=(2.0, 0.0)):
    """One robot with its bow to the goal."""
    own = torch.tensor([[[*goal, *velocity, 0.0, 400.0, 400.0]]])
    rows = [list(each) for each in objects] + [[0.0] * 5] * (5 - len(objects))
    mask = torch.arange(5) < len(objects)
    return {"self_state": own, "objects_state": torch.tensor(rows)[None, None], "objects_mask": mask[None, None]}


class Atan(transforms.Transform):
    """(2 / pi) atan, as torch's distributions want it."""

    domain, codomain = torch.distributions.constraints.real, torch.distributions.constraints.real
    bijective, sign = True, 1

    def _call(self, x):
        return 2.0 / math.pi * torch.atan(x)

    def _inverse(self, y):
        return torch.tan(0.5 * math.pi * y)

    def log_abs_det_jacobian(self, x, y):
        return torch.log(2.0 / math.pi / (1.0 + x.square()))
