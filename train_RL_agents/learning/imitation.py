"""Imitation loss: actions of a teacher as additional targets of an agent.

The teacher acts on the observations of the agent, so that errors do not accumulate along an episode (DAgger, Ross et
al. 2011), and the agent also learns from rewards, with a weight of the imitation that may fade (Schmitt et al. 2018).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import embedding

from marinenav_env.support.validation import require
from train_RL_agents.agents import Agent, Batch, Losses
from train_RL_agents.agents.batches import LossFunction, RolloutBatch
from train_RL_agents.networks.observation import Observation
from train_RL_agents.run.checkpoint import LoadedPolicy

IMITATION_MARGIN = 0.05
"""Margin by which the value of a teacher's action should exceed those of all others (scaled reward); a collision costs
several units."""


def add_imitation_loss(
    agent: Agent[Any], teacher: LoadedPolicy, action_table: Tensor | None, weight: float | Tensor
) -> LossFunction:
    """Return the loss function of an agent with ``loss_imitation`` added.

    ``action_table`` [A, D] are continuous equivalents of the discrete actions, if just one of both policies is
    discrete. A ``weight`` that is a tensor may change between updates, also in compiled code.
    """
    targets = make_teacher_targets(teacher, agent, action_table)
    device = next(agent.parameters()).device

    def losses(batch: Batch | RolloutBatch, noise: Any) -> Losses:
        # Policies act in float32, even if losses use half precision.
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            target = targets(batch.observation)
        errors = imitation_errors(agent, batch.observation, target)
        return agent.loss(batch, noise) | {"loss_imitation": weight * batch.mean(errors)}

    return losses


def make_teacher_targets(
    teacher: LoadedPolicy, agent: Agent[Any], action_table: Tensor | None
) -> Callable[[Observation], Tensor]:
    """Return a function from observations [B] to targets: the teacher's best actions, [B, D] or [B] int64.

    If only one of agent and teacher is discrete, they are continuous equivalents or the nearest discrete actions. A
    teacher with probabilities gives a continuous agent the expected action, which varies less from step to step, and
    an agent with probabilities its own [B, A].
    """
    policy = teacher.agent.requires_grad_(False).eval()
    if policy.continuous and agent.continuous:
        return policy.act
    if action_table is None:
        same = policy.continuous == agent.continuous
        require(same, "teacher", str(teacher.path), "one with actions of the same kind as the agent's")
        action_table = torch.empty(0)  # not used
    action_table = action_table.to(next(policy.parameters()).device)
    if policy.continuous:
        return lambda observation: (policy.act(observation)[..., None, :] - action_table).square().sum(-1).argmin(-1)
    if policy.scores_are_returns or (not agent.continuous and agent.scores_are_returns):
        return (
            (lambda observation: embedding(policy.act(observation), action_table)) if agent.continuous else policy.act
        )

    def probabilities(observation: Observation) -> Tensor:
        return torch.softmax(_scores(policy, observation), -1)

    return (lambda observation: probabilities(observation) @ action_table) if agent.continuous else probabilities


def imitation_errors(agent: Agent[Any], observation: Observation, target: Tensor) -> Tensor:
    """Return the imitation errors [B] of an agent, [B, R] for fleets, for the targets of make_teacher_targets.

    The error of continuous actions is the squared distance, that of values of discrete actions the margin loss of
    Hester et al. 2018, and that of probabilities of discrete actions the cross-entropy of Schmitt et al. 2018.
    Importance weights of prioritised replay are not used.
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
    return (scores + IMITATION_MARGIN * others).amax(-1) - scores.gather(-1, chosen).squeeze(-1)


def _scores(agent: Agent[Any], observation: Observation) -> Tensor:
    """Return the scores [B, A] of the actions of a discrete agent, which must have some."""
    scores = agent.scores(agent.outputs(observation))
    require(scores is not None, "imitation_learning", True, f"false: {type(agent).__name__} has no scores")
    return cast(Tensor, scores)
