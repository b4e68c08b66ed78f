"""Policy wrappers that set which vessels a policy controls, what steers the others, and which objects it observes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from marinenav_env import GROUP
from marinenav_env.config import VesselConfig
from train_RL_agents.evaluation.tally import Policy
from train_RL_agents.networks.observation import OBSERVATION_KEY

ACTION, MASK = (GROUP, "action"), (GROUP, "mask")
_OBJECTS = ("objects_state", "objects_mask")


def only_own(policy: Policy, discrete: VesselConfig | None) -> Policy:
    """Wrap a policy so that it controls robot 0 alone; all other robots keep their thrust, as nearly as actions allow.

    Args:
        policy: policy for all robots.
        discrete: vessel whose pairs of commands the actions index; None if actions are continuous.
    """
    hold = 0
    if discrete is not None:
        left, right = (
            min(range(len(commands)), key=lambda index: abs(commands[index]))
            for commands in (discrete.left_thrust_change, discrete.right_thrust_change)
        )
        hold = left * len(discrete.right_thrust_change) + right

    def act(step: Any) -> Any:
        acted = policy(step)
        action = acted.get(ACTION).clone()
        action[:, 1:] = hold
        return acted.set(ACTION, action)

    return act


def continuous_actions(policy: Policy, pairs: Tensor | None) -> Policy:
    """Wrap a policy so that it writes continuous actions instead of discrete ones.

    Args:
        policy: policy to wrap.
        pairs: [A, 2] pairs of commands in [-1, 1] that its actions index; None if they are continuous already.
    """
    if pairs is None:
        return policy

    def act(step: Any) -> Any:
        acted = policy(step)
        index = acted.get(ACTION)
        return acted.set(ACTION, pairs.to(index.device)[index])

    return act


def with_others(policy: Policy, others: Policy) -> Policy:
    """Combine two policies with continuous actions: one controls robot 0, the other all other robots.

    Args:
        policy: policy for robot 0; everything that it writes except actions of other robots is kept.
        others: policy for the other robots; it receives a mask in which every robot is active.
    """

    def act(step: Any) -> Any:
        theirs = step.clone(recurse=False)
        theirs.set(MASK, torch.ones_like(step.get(MASK)))
        commands = others(theirs).get(ACTION)
        acted = policy(step)
        action = acted.get(ACTION).clone()
        action[:, 1:] = commands[:, 1:].to(action)
        return acted.set(ACTION, action)

    return act


def with_slots(policy: Policy, slots: int) -> Policy:
    """Wrap a policy so that it observes ``slots`` object slots: the nearest objects, then empty slots if needed."""

    def fit(objects: Tensor) -> Tensor:
        nearest = objects[:, :, :slots]
        blank = nearest.new_zeros(*nearest.shape[:2], slots, *nearest.shape[3:])
        blank[:, :, : nearest.shape[2]] = nearest
        return blank

    return _with_objects(policy, fit)


def without_objects(policy: Policy) -> Policy:
    """Wrap a policy so that it observes no objects, as if every robot were alone."""
    return _with_objects(policy, torch.zeros_like)


def _with_objects(policy: Policy, change: Callable[[Tensor], Tensor]) -> Policy:
    """Wrap a policy so that ``change`` is applied to the object tensors that it observes; only its actions are kept."""

    def act(step: Any) -> Any:
        changed = step.clone(recurse=False)
        observation = step.get(OBSERVATION_KEY).clone(recurse=False)
        for name in _OBJECTS:
            observation.set(name, change(observation.get(name)))
        return step.set(ACTION, policy(changed.set(OBSERVATION_KEY, observation)).get(ACTION))

    return act
