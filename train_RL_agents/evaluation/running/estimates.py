"""Policy wrappers that act on a share of the outcomes, or also write what the agent estimates for its actions."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from marinenav_env import GROUP, WorldConfig
from marinenav_env.stepping.actions import commands_of_discrete_actions
from train_RL_agents.agents.base import Agent
from train_RL_agents.agents.quantile import nearness_risk
from train_RL_agents.evaluation.running.others import ACTION_KEY
from train_RL_agents.evaluation.running.recording import DOUBTFUL_KEY
from train_RL_agents.evaluation.running.steps import Policy
from train_RL_agents.networks.memory import MEMORY
from train_RL_agents.networks.observation import OBSERVATION_KEY, Observation, ObservationSpec, to_observation
from train_RL_agents.policy_wrapper import QUANTILES_KEY, RECALLED, RISK_KEY, SCORES_KEY
from train_RL_agents.run.checkpoint import LoadedPolicy

MAX_CRITIC_DISAGREEMENT = 0.25
"""Disagreement of the critics on a command, as a share of the range of all scores, above which its score is doubtful;
the demo (figures/pages/sessions.js) has the same number."""


def with_risk(policy: Policy, risk: float | Literal["adaptive"], spec: ObservationSpec) -> Policy:
    """Wrap a policy that reads the risk level, so that it acts on a share of the worst outcomes, in (0, 1].

    With "adaptive" the share follows from the distance of the closest object.
    """

    def act(step: Any) -> Any:
        if risk == "adaptive":
            level = nearness_risk(to_observation(step.get(OBSERVATION_KEY)), spec.scales.risk_distance)
        else:
            mask = step.get((RISK_KEY[0], "mask"))
            level = torch.full(mask.shape, risk, device=mask.device)
        return policy(step.set(RISK_KEY, level))

    return act


def returns_scale(loaded: LoadedPolicy) -> float:
    """Return the factor by which the rewards in an agent's scores are scaled; 1 if its scores are logits."""
    return loaded.config.trainer.reward_scale if loaded.agent.scores_are_returns else 1.0


def with_estimates(policy: Policy, loaded: LoadedPolicy, world: WorldConfig) -> Policy:
    """Wrap a policy so that it also writes its agent's estimates: return quantiles of its actions, and all scores."""
    agent, scale, pairs = loaded.agent, returns_scale(loaded), commands_of_discrete_actions(world.vessel)

    def act(step: Any) -> Any:
        acted = policy(step)
        observation, action = to_observation(acted.get(OBSERVATION_KEY)), acted.get(ACTION_KEY)
        if agent.memory_size:
            observation[MEMORY] = acted.get((GROUP, RECALLED))
        quantiles = agent.return_quantiles(observation, action)
        if quantiles is not None:
            acted.set(QUANTILES_KEY, quantiles)
        scores: Tensor | None
        if quantiles is not None and agent.continuous:
            scores, doubtful = _score_commands(agent, observation, action, pairs.to(action))
            if doubtful is not None:
                acted.set(DOUBTFUL_KEY, doubtful)
        else:
            scores = agent.scores(agent.outputs(observation, acted.get(RISK_KEY, None)))
        return acted if scores is None else acted.set(SCORES_KEY, scores / scale)

    return act


def _score_commands(
    agent: Agent[Any], observation: Observation, action: Tensor, pairs: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Return scores of pairs of commands, and which of them several critics do not agree on."""
    others = [pair.expand_as(action) for pair in pairs]
    by_critic: Any = [agent.critic_quantiles(observation, commands) for commands in (action, *others)]
    if by_critic[0] is None:
        expected: Any = [agent.return_quantiles(observation, commands) for commands in others]
        return torch.stack([quantiles.mean(-1) for quantiles in expected], -1), None
    chosen, *means = (quantiles.mean(-1) for quantiles in by_critic)
    by_command = torch.stack(means, -1)
    scores = by_command.mean(0)
    return scores, critics_differ(by_command, chosen, scores) if len(chosen) > 1 else None


def critics_differ(means: Tensor, chosen: Tensor, scores: Tensor) -> Tensor:
    """Return whether the critics differ on how much better each action is than the chosen one, [..., A] bool.

    They differ if the largest and the smallest of these advantages differ by more than MAX_CRITIC_DISAGREEMENT times
    the range of scores [..., A]. The mean returns are [C, ..., A] and, of the chosen action, [C, ...] by each of C
    critics.
    """
    better = means - chosen[..., None]
    spread, extent = better.amax(0) - better.amin(0), scores.amax(-1) - scores.amin(-1)
    return spread > MAX_CRITIC_DISAGREEMENT * extent[..., None]
