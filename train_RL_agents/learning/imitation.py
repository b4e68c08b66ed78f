"""Imitation: actions of a teacher as further targets of an off-policy agent.

The teacher is asked about what the agent itself meets, so its errors do not add up along an episode
(DAgger, Ross et al. 2011), and the agent goes on learning from rewards (Schmitt et al. 2018).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from marinenav_env import WorldConfig
from marinenav_env.validation import require
from train_RL_agents.agents import Agent, Batch, Losses
from train_RL_agents.agents.base import LossFunction
from train_RL_agents.networks.observation import Observation
from train_RL_agents.policy_wrapper import command_pairs
from train_RL_agents.run.checkpoint import LoadedPolicy

MARGIN = 0.05
"""By how much a teacher's action should be valued above all others (scaled return); a collision is
several of the units that returns are scaled to."""


def imitating(
    agent: Agent[Any], teacher: LoadedPolicy, world: WorldConfig, weight: float
) -> LossFunction:
    """The losses of an agent, with ``loss_imitation`` beside its own.

    Args:
        agent: learns; off-policy.
        teacher: on the agent's device.
        world: of the agent.
        weight: of the error of imitation.
    """
    wanted = teacher_actions(teacher, agent, world)
    device = next(agent.parameters()).device

    def losses(batch: Batch, noise: Any) -> Losses:
        # Policies act in float32, whatever losses are computed in.
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            action = wanted(batch.observation)
        error = imitation_error(agent, batch.observation, action)
        return agent.loss(batch, noise) | {"loss_imitation": weight * error}

    return losses


def teacher_actions(
    teacher: LoadedPolicy, agent: Agent[Any], world: WorldConfig
) -> Callable[[Observation], Tensor]:
    """The teacher's best actions as actions of another agent; see imitating.

    Returns:
        A function from observations [B] to actions, [B, 2] or [B] int64. Of a continuous teacher
        and a discrete agent, the nearest; of a discrete teacher with probabilities and a continuous
        agent, the expected one, which varies less from one moment to the next.
    """
    best = teacher.agent.requires_grad_(False).eval()
    pairs = command_pairs(world.vessel).to(next(best.parameters()).device)
    if best.continuous and agent.continuous:
        return best.act
    if best.continuous:
        return lambda seen: (best.act(seen)[:, None] - pairs).square().sum(-1).argmin(-1)
    if not agent.continuous:
        return best.act
    if best.scores_are_returns:
        return lambda seen: pairs.index_select(0, best.act(seen))
    return lambda seen: torch.softmax(_scores(best, seen), -1) @ pairs


def imitation_error(agent: Agent[Any], observation: Observation, action: Tensor) -> Tensor:
    """How far an agent is from given actions, a mean over the batch.

    Continuous: the squared distance. Discrete: by how much the margin of Hester et al. 2018 is
    missed by the scores. Importance weights of prioritised replay do not count.

    Args:
        agent: learns.
        observation: [B].
        action: [B, 2], or [B] int64.
    """
    if agent.continuous:
        own, _ = agent.explore(observation, torch.zeros_like(action))
        return (own - action).square().sum(-1).mean()
    scores = _scores(agent, observation)
    given = scores.gather(-1, action[:, None])
    others = torch.ones_like(scores).scatter(-1, action[:, None], 0.0)
    return ((scores + MARGIN * others).amax(-1) - given[:, 0]).mean()


def _scores(agent: Agent[Any], observation: Observation) -> Tensor:
    """Scores [B, A] of a discrete agent."""
    scores = agent.scores(agent.outputs(observation))
    fine = scores is not None
    require(fine, "imitation_learning", True, f"false: {type(agent).__name__} has no scores")
    return cast(Tensor, scores)
