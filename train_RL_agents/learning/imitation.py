"""Imitation: actions of a teacher as further targets of an agent.

The teacher is asked about what the agent itself meets, so its errors do not add up along an episode
(DAgger, Ross et al. 2011), and the agent goes on learning from rewards (Schmitt et al. 2018).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import embedding

from marinenav_env import WorldConfig
from marinenav_env.support.validation import require
from train_RL_agents.agents import Agent, Batch, Losses
from train_RL_agents.agents.base import LossFunction
from train_RL_agents.agents.rollout_batch import RolloutBatch
from train_RL_agents.networks.observation import Observation
from train_RL_agents.policy_wrapper import command_pairs
from train_RL_agents.run.checkpoint import LoadedPolicy

MARGIN = 0.05
"""By how much a teacher's action should be valued above all others (scaled return); a collision is
several of the units that returns are scaled to."""


def imitating(agent: Agent[Any], teacher: LoadedPolicy, world: WorldConfig, weight: float) -> LossFunction:
    """Return the losses of an agent, with ``loss_imitation`` beside its own.

    Args:
        agent: learns.
        teacher: on the agent's device.
        world: of the agent.
        weight: of the error of imitation.
    """
    wanted = teacher_targets(teacher, agent, world)
    device = next(agent.parameters()).device

    def losses(batch: Batch | RolloutBatch, noise: Any) -> Losses:
        # Policies act in float32, whatever losses are computed in.
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            target = wanted(batch.observation)
        errors = imitation_errors(agent, batch.observation, target)
        return agent.loss(batch, noise) | {"loss_imitation": weight * batch.mean(errors)}

    return losses


def teacher_targets(teacher: LoadedPolicy, agent: Agent[Any], world: WorldConfig) -> Callable[[Observation], Tensor]:
    """What another agent should do where the teacher is in its place; see imitating.

    Returns:
        A function from observations [B] to actions, [B, 2] or [B] int64: the teacher's best ones;
        of a continuous teacher and a discrete agent, the nearest. Of a discrete teacher with
        probabilities: for a continuous agent the expected action, which varies less from one moment
        to the next, and for an agent with probabilities these, [B, A].
    """
    best = teacher.agent.requires_grad_(False).eval()
    pairs = command_pairs(world.vessel).to(next(best.parameters()).device)
    if best.continuous and agent.continuous:
        return best.act
    if best.continuous:
        return lambda seen: (best.act(seen)[..., None, :] - pairs).square().sum(-1).argmin(-1)
    if best.scores_are_returns or (not agent.continuous and agent.scores_are_returns):
        return (lambda seen: embedding(best.act(seen), pairs)) if agent.continuous else best.act

    def probabilities(seen: Observation) -> Tensor:
        return torch.softmax(_scores(best, seen), -1)

    return (lambda seen: probabilities(seen) @ pairs) if agent.continuous else probabilities


def imitation_errors(agent: Agent[Any], observation: Observation, target: Tensor) -> Tensor:
    """How far an agent is from its targets, [B] or, of fleets, [B, R]; 0 or more.

    Continuous actions: the squared distance. Values of discrete actions: by how much the margin of
    Hester et al. 2018 is missed. Probabilities of discrete actions: the cross-entropy of Schmitt
    et al. 2018. Importance weights of prioritised replay do not count.

    Args:
        agent: learns.
        observation: [B], or [B, R] of fleets.
        target: actions [B, 2] or [B] int64, or probabilities [B, A]; see teacher_targets.

    Raises:
        ConfigError: when the agent's actions are discrete and have no scores.
    """
    if agent.continuous:
        return (agent.imitating_action(observation) - target).square().sum(-1)
    scores = _scores(agent, observation)
    if target.is_floating_point():
        return -(target * torch.log_softmax(scores, -1)).sum(-1)
    chosen = target[..., None]
    if not agent.scores_are_returns:
        return -torch.log_softmax(scores, -1).gather(-1, chosen).squeeze(-1)
    others = torch.ones_like(scores).scatter(-1, chosen, 0.0)
    return (scores + MARGIN * others).amax(-1) - scores.gather(-1, chosen).squeeze(-1)


def _scores(agent: Agent[Any], observation: Observation) -> Tensor:
    """Return the scores [B, A] of a discrete agent."""
    scores = agent.scores(agent.outputs(observation))
    fine = scores is not None
    require(fine, "imitation_learning", True, f"false: {type(agent).__name__} has no scores")
    return cast(Tensor, scores)
