"""Policy wrappers that act on a share of the outcomes, or also write what the agent estimates for its actions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from marinenav_env import GROUP, WorldConfig
from marinenav_env.stepping.actions import commands_of_discrete_actions
from train_RL_agents.evaluation.running.others import ACTION_KEY
from train_RL_agents.evaluation.running.steps import Policy
from train_RL_agents.networks.memory import MEMORY
from train_RL_agents.networks.observation import OBSERVATION_KEY, to_observation
from train_RL_agents.policy_wrapper import QUANTILES_KEY, RECALLED, RISK_KEY, SCORES_KEY
from train_RL_agents.run.checkpoint import LoadedPolicy


def with_risk(policy: Policy, risk: float) -> Policy:
    """Wrap a policy that reads the risk level, so that it acts on a share of the worst outcomes, in (0, 1]."""

    def act(step: Any) -> Any:
        mask = step.get((RISK_KEY[0], "mask"))
        return policy(step.set(RISK_KEY, torch.full(mask.shape, risk, device=mask.device)))

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
            expected: Any = [agent.return_quantiles(observation, pair.expand_as(action)) for pair in pairs.to(action)]
            scores = torch.stack([quantiles.mean(-1) for quantiles in expected], -1)
        else:
            scores = agent.scores(agent.outputs(observation, acted.get(RISK_KEY, None)))
        return acted if scores is None else acted.set(SCORES_KEY, scores / scale)

    return act
