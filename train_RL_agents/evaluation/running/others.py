"""Policy wrappers that set which vessels a policy controls, what steers the others, and which objects it observes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from marinenav_env import GROUP
from marinenav_env.config import VesselConfig
from marinenav_env.stepping.actions import commands_of_discrete_actions
from train_RL_agents.evaluation.running.steps import Policy
from train_RL_agents.networks.memory import MEMORY
from train_RL_agents.networks.observation import OBSERVATION_KEY

ACTION_KEY = (GROUP, "action")
MASK_KEY = (GROUP, "mask")
"""Key of the mask of the robots that act, [E, R] bool."""
MEMORIES = (MEMORY, "memory_of_others")
"""Names in the group of the memories of recurrent policies: that of the evaluated one, and that of ``with_others``."""
OBJECT_ENTRIES = ("objects_state", "objects_mask", "duties", "objects_id")
"""Entries of the observation with a row for each object slot."""


def control_robot_0(policy: Policy, discrete: VesselConfig | None) -> Policy:
    """Wrap a policy so that it controls robot 0 alone; all other robots keep their thrust, as nearly as actions allow.

    ``discrete`` is the vessel whose pairs of commands the actions index; None if actions are continuous.
    """
    hold = 0 if discrete is None else int(commands_of_discrete_actions(discrete).square().sum(-1).argmin())

    def act(step: Any) -> Any:
        acted = policy(step)
        action = acted.get(ACTION_KEY).clone()
        action[:, 1:] = hold
        return acted.set(ACTION_KEY, action)

    return act


def with_continuous_actions(policy: Policy, pairs: Tensor | None) -> Policy:
    """Wrap a policy so that it writes continuous actions, from the pairs of commands that its actions index.

    The pairs [A, 2] are in [-1, 1]; without them actions are continuous already.
    """
    if pairs is None:
        return policy

    def act(step: Any) -> Any:
        acted = policy(step)
        index = acted.get(ACTION_KEY)
        return acted.set(ACTION_KEY, pairs.to(index.device)[index])

    return act


def with_others(policy: Policy, others: Policy) -> Policy:
    """Combine two policies with continuous actions: one controls robot 0, the other all other robots.

    Everything that the first writes except actions of other robots is kept; for the second every robot is active.
    """

    def act(step: Any) -> Any:
        theirs = step.clone(recurse=False)
        theirs.set(MASK_KEY, torch.ones_like(step.get(MASK_KEY)))
        own_memory, their_memory = MEMORIES
        group = theirs.get(GROUP)
        group.pop(own_memory, None)
        if their_memory in group.keys():  # noqa: SIM118
            group.set(own_memory, group.pop(their_memory))
        decided = others(theirs)
        commands, memory = decided.get(ACTION_KEY), decided.get((GROUP, own_memory), None)
        acted = policy(step)
        if memory is not None:
            acted.set((GROUP, their_memory), memory)
        action = acted.get(ACTION_KEY).clone()
        action[:, 1:] = commands[:, 1:].to(action)
        return acted.set(ACTION_KEY, action)

    return act


def with_object_slots(policy: Policy, slots: int) -> Policy:
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
    """Wrap a policy so that ``change`` is applied to the tensors of objects that it observes; only actions are kept."""

    def act(step: Any) -> Any:
        changed = step.clone(recurse=False)
        observation = step.get(OBSERVATION_KEY).clone(recurse=False)
        for name in observation.keys() & {*OBJECT_ENTRIES}:
            observation.set(name, change(observation.get(name)))
        acted = policy(changed.set(OBSERVATION_KEY, observation))
        for key in (ACTION_KEY, (GROUP, MEMORIES[0])):
            value = acted.get(key, None)
            if value is not None:
                step.set(key, value)
        return step

    return act
