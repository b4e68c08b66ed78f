"""Adapter from any EnvBase of TorchRL with one group of agents to the keys and shapes that training uses."""

from __future__ import annotations

import math
import os
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import tensordict
import torch
import torchrl
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Binary, Bounded, Categorical, MultiCategorical, MultiOneHot, OneHot, TensorSpec, Unbounded
from torchrl.envs import EnvBase, ParallelEnv, SerialEnv

from marinenav_env.sensing.entries import Entry
from marinenav_env.specs import GROUP, INIT, STATISTICS, make_specs
from marinenav_env.support.plugins import summarize_error
from marinenav_env.support.validation import ConfigError, require
from train_RL_agents.environments.global_random import GlobalRandomState
from train_RL_agents.utils.device import preserve_num_threads

MAX_ACTIONS = 1024
"""Largest number of discrete actions, or of combinations of a multi-discrete action."""
_UNOBSERVED_NAMES = {"mask", "info", "state", "episode_reward", "step_count"}
"""Names of entries of an observation spec that are not inputs of policies."""
SUCCESS_NAMES = ("success", "is_success")
"""Names of entries in which an environment may report whether an episode is a success."""
_MAX_SCALE = 1e4
"""Largest bound of an observation that is taken as its typical magnitude; larger bounds are taken as missing."""
NestedKey = tuple[str, ...]
"""Key of a leaf of a nested TensorDict or spec: the names from the root to the leaf."""


class ActionSpace(NamedTuple):
    """Action space of each agent of an environment, continuous or discrete."""

    spec: TensorSpec
    """Spec of the action of one agent in the environment."""
    low: Tensor | None = None
    """Lower bounds [D] of continuous actions; None for discrete ones."""
    high: Tensor | None = None
    """Upper bounds [D] of continuous actions; None for discrete ones."""
    num_choices: tuple[int, ...] = ()
    """Number of choices of each component of a discrete action (several components if multi-discrete)."""

    @property
    def is_continuous(self) -> bool:
        """Return whether actions are continuous."""
        return self.low is not None

    @property
    def num_actions(self) -> int:
        """Return the number of discrete actions (combinations, if multi-discrete), or 0 for continuous actions."""
        return 0 if self.is_continuous else math.prod(self.num_choices)

    def to_env_actions(self, action: Tensor) -> Tensor:
        """Convert actions [E, R, D] in [-1, 1], or indices [E, R] (last choice fastest), to those of the base."""
        batch = action.shape[:2]
        if self.low is not None and self.high is not None:
            value = self.low + 0.5 * (action.clamp(-1.0, 1.0) + 1.0) * (self.high - self.low)
        else:
            choices = torch.unravel_index(action, self.num_choices)
            value = torch.stack(choices, -1)
            if isinstance(self.spec, OneHot | MultiOneHot):
                value = torch.cat(list(map(torch.nn.functional.one_hot, choices, self.num_choices)), -1)
        return value.to(self.spec.dtype).reshape(*batch, *self.spec.shape)


class GroupEnv(EnvBase):
    """External environments with the batch size [E], the group ``robots`` and the keys of MarineNavEnv.

    Observations, actions, rewards and ends of episodes are derived from the specs of the EnvBase; see
    docs/environments.md. An agent that has ended is masked until the episode of its environment is over. An episode is
    truncated after ``max_steps``, or at the limit of ``base`` if that is 0.
    """

    batch_locked = True

    def __init__(self, base: EnvBase, name: str, max_steps: int = 0, device: torch.device | None = None) -> None:
        super().__init__(device=device or torch.device("cpu"), batch_size=base.batch_size)
        self.base, self.name, self.max_steps = base, name, max_steps
        self._action_key = self._only_key("action", base.action_keys)
        self._reward_key = self._only_key("reward", base.reward_keys)
        self._group = self._action_key[:-1]
        reward = math.prod(base.full_reward_spec[self._reward_key].shape[1:])
        spec = self._leaf_spec(base.full_action_spec, self._action_key)
        self._require(len(self.batch_size) == 1, "environments", tuple(self.batch_size), "batched along one dimension")
        self.num_envs = self.batch_size[0]
        self.num_robots = spec.shape[1] if self._group else 1
        self._require(reward in (1, self.num_robots), "reward", f"{reward} numbers", "one, or one of each agent")
        self.action_space = self._read_action_space(spec)
        self._observed_leaves = self._read_observation()
        self.entries: dict[str, Entry] = {entry.name: entry for entry, _ in self._observed_leaves.values()}
        observed = _to_tuples(base.full_observation_spec.keys(True, True))
        self._success_key = next((key for key in observed if key[-1] in SUCCESS_NAMES), None)
        """Key of the entry that reports whether an episode is a success; None if there is none."""
        self.statistics: tuple[str, ...] = ("return", "length", *(("success",) if self._success_key else ()))
        """Names of the columns of the key ``episode_statistics``: return, length and, if reported, success."""
        self.env_steps = 0
        """Env-steps so far: steps of all environments together."""
        shape = self.num_envs, self.num_robots
        action_size = 1 if self.action_space.low is None else len(self.action_space.low)
        count = None if self.action_space.is_continuous else self.action_space.num_actions
        specs = make_specs(
            shape, self.entries, False, count, self.device, torch.float32, len(self.statistics), action_size
        )
        self.observation_spec, self.action_spec, self.reward_spec, self.done_spec = specs
        self._base_state: TensorDictBase = TensorDict({}, self.batch_size)
        self._terminated, self._truncated, self._has_joined = torch.zeros(
            3, *shape, dtype=torch.bool, device=self.device
        )
        """Masks [E, R] of agents that are terminated, that are truncated, and that have been present in the episode."""
        self._steps = torch.zeros(self.num_envs, dtype=torch.int64, device=self.device)
        self._reward_sum = torch.zeros(self.num_envs, device=self.device)
        """Sum of the rewards of all agents in the episode, [E]."""
        self._has_restored_state = False
        self._global_random = GlobalRandomState()

    # Specs --------------------------------------------------------------------------------------

    def _require(self, holds: bool, what: str, value: Any, allowed: str) -> None:
        """Raise a ConfigError that names the environment unless ``holds``; see ``support.validation.require``."""
        require(holds, f"{self.name}: {what}", value, allowed)

    def _only_key(self, what: str, keys: Any) -> NestedKey:
        """Return the only key of the actions or rewards; raise a ConfigError for several, which mean several groups."""
        names = _to_tuples(keys)
        self._require(len(names) == 1, f"{what}s", [".".join(key) for key in names], "those of one group of agents")
        return names[0]

    def _leaf_spec(self, spec: Any, key: NestedKey) -> TensorSpec:
        """Return the leaf spec with a key; raise a ConfigError if the agents do not have equal specs."""
        try:
            leaf: TensorSpec = spec[key]
            is_equal = -1 not in leaf.shape
        except (RuntimeError, ValueError, NotImplementedError):
            is_equal = False
        self._require(is_equal, ".".join(key), "different for each agent", "the same for all agents of the group")
        return leaf

    def _agent_shape(self, shape: Any) -> tuple[int, ...]:
        """Return the shape that a leaf [E, ...] or, in a group of agents, [E, R, ...] has for one agent."""
        return tuple(shape[2 if self._group else 1 :])

    def _read_action_space(self, spec: TensorSpec) -> ActionSpace:
        """Return the action space of an agent, given the spec of the actions of all agents."""
        own, key = spec[(0,) * (2 if self._group else 1)], ".".join(self._action_key)
        if isinstance(own, Bounded) and own.dtype.is_floating_point:
            pairs = ((spec.space.low, own.space.low), (spec.space.high, own.space.high))
            is_same = all(bool((bounds == first).all()) for bounds, first in pairs)
            self._require(is_same, key, "of different bounds", "the same for all agents of the group")
            low, high = (bound.flatten().float().to(self.device) for bound in (own.space.low, own.space.high))
            is_finite = bool((low.isfinite() & high.isfinite() & (low < high)).all())
            self._require(is_finite, key, "without finite bounds", "bounded below and above")
            return ActionSpace(own, low, high)
        if isinstance(own, MultiCategorical):
            sizes = tuple(own.nvec.flatten().tolist())
        elif isinstance(own, MultiOneHot):
            sizes = tuple(int(box.n) for box in own.space)
        elif isinstance(own, Binary):
            sizes = (2,) * math.prod(own.shape)
        elif isinstance(own, OneHot | Categorical):
            # TorchRL gives several components with equally many choices the spec of a single one, of another shape.
            components = own.shape[:-1] if isinstance(own, OneHot) else own.shape
            sizes = (int(own.space.n),) * math.prod(components)
        else:
            self._require(False, key, type(spec).__name__, "bounded numbers, or discrete or multi-discrete choices")
        count = math.prod(sizes)
        self._require(1 < count <= MAX_ACTIONS, key, f"{count} combinations", f"2 to {MAX_ACTIONS} of them")
        return ActionSpace(own, num_choices=sizes)

    def _read_observation(self) -> dict[NestedKey, tuple[Entry, tuple[int, ...]]]:
        """Return, by key, the specification of every observed leaf as an entry, and its shape for one agent."""
        observation = self.base.full_observation_spec
        keys, depth = _to_tuples(observation.keys(True, True)), len(self._group)
        names = {
            key: "_".join(key[depth:])
            for key in keys
            if key[:depth] == self._group
            and len(key) > depth
            and not {*key[depth:]} & {*_UNOBSERVED_NAMES, *SUCCESS_NAMES}
        }
        self._require(bool(names), "observation", "nothing", "an observation of each agent")
        are_own = len({*names.values()}) == len(names) and not {"self_state", "objects_state"} & {*names.values()}
        allowed = "of different names, and none of self_state and objects_state, which are a vessel's"
        self._require(are_own, "observation", ", ".join(names.values()), allowed)
        for key in keys:
            self._require(key[-1] != "action_mask", ".".join(key), "a mask of actions", "left out; it is not supported")
        specs = {key: self._leaf_spec(observation, key) for key in names}
        shapes = {names[key]: self._agent_shape(spec.shape) for key, spec in specs.items()}
        sets = {name for name, shape in shapes.items() if len(shape) == 2 and shapes.get(f"{name}_mask") == shape[:1]}
        found = {}
        for key, spec in specs.items():
            name, inner = names[key], shapes[names[key]]
            is_image = len(inner) > 2 or (spec.dtype == torch.uint8 and len(inner) == 2)
            self._require(not is_image, name, f"an image {list(inner)}", "numbers; images are not supported")
            is_index = isinstance(spec, Categorical) and not isinstance(spec, Binary) and spec.dtype != torch.bool
            self._require(not is_index, name, "an index", "numbers, or one-hot")
            found[key] = (self._make_entry(name, spec, inner, sets), inner)
        return found

    def _make_entry(self, name: str, spec: TensorSpec, inner: tuple[int, ...], sets: set[str]) -> Entry:
        """Return the specification of a leaf as an entry: a set of objects, the mask of a set, or a vector."""
        if name.removesuffix("_mask") in sets - {name} and spec.dtype == torch.bool:
            return Entry(name, "mask", inner)
        mask = f"{name}_mask" if name in sets else ""
        shape = inner or (1,)
        scale: tuple[float, ...] = ()
        if isinstance(spec, Bounded | Unbounded):  # unbounded bytes are from 0 to 255
            bounds = torch.stack((spec.space.low, spec.space.high)).float()
            largest = bounds.abs().reshape(-1, shape[-1]).amax(0)
            if bool(((largest > 0.0) & (largest <= _MAX_SCALE)).all()):
                scale = tuple(largest.tolist())
        return Entry(name, "objects" if mask else "vector", shape, scale=scale, mask=mask)

    # Steps --------------------------------------------------------------------------------------

    @property
    def active(self) -> Tensor:
        """Return the mask [E, R] of the agents whose episode goes on."""
        return ~(self._terminated | self._truncated)

    def _wrap_errors(self, what: str) -> AbstractContextManager[None]:
        """Return a context that turns errors of the environment into a ConfigError; see ``wrap_errors``."""
        return wrap_errors(f"{self.name}: {what}", self.base)

    def _set_seed(self, seed: int | None) -> None:
        with self._wrap_errors("seeding failed"), self._global_random.activate(seed):
            self.base.set_seed(seed)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        over = None if tensordict is None else tensordict.get("_reset", None)
        if over is not None or not self._has_restored_state:
            self._reset_envs(None if over is None else over.reshape(-1).to(self.device))
        self._has_restored_state = self._has_restored_state and over is not None
        with self._wrap_errors("a reset gave no observation"):
            return self._current_tensordict()

    def _reset_envs(self, over: Tensor | None) -> None:
        """Start new episodes in the environments of a mask [E], or in all if it is None."""
        with self._wrap_errors("a reset failed"), self._global_random.activate():
            if over is None or self._base_state.is_empty():
                self._base_state, over = self.base.reset(), torch.ones_like(self._steps, dtype=torch.bool)
            else:
                request = self._base_state.copy()
                for key in _to_tuples(self.base.reset_keys):
                    like = self._base_state.get((*key[:-1], "done"))
                    request.set(key, over.to(like.device).view(-1, *[1] * (like.ndim - 1)).expand(like.shape).clone())
                self._base_state = self.base.reset(request).exclude(*self.base.reset_keys)
            reported = self._present_agents(self._base_state)
        there = torch.ones_like(self._has_joined) if reported is None else reported
        self._has_joined = torch.where(over[:, None], there, self._has_joined)
        self._terminated = torch.where(over[:, None], ~there, self._terminated)
        self._truncated = self._truncated & ~over[:, None]
        self._reward_sum = torch.where(over, 0.0, self._reward_sum)
        self._steps = torch.where(over, 0, self._steps)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        action: Any = tensordict.get((GROUP, "action"))
        before = self.active
        converted = self.action_space.to_env_actions(action)
        converted = converted if self._group else converted.squeeze(1)
        with self._wrap_errors("a step failed"):
            with self._global_random.activate():
                after = self.base.step(self._base_state.copy().set(self._action_key, converted.to(self.base.device)))
            self._base_state = self.base.step_mdp(after)
            following = after.get("next")
            observation = self._observation(following)
            # A single reward of an environment is the reward of each of its agents.
            reward = following.get(self._reward_key).to(self.device).reshape(self.num_envs, -1).expand(before.shape)
            done, terminated = (self._agent_flag(following, name) for name in ("done", "terminated"))
            there = self._present_agents(following)
        self.env_steps += self.num_envs
        self._steps = self._steps + 1
        is_late = self._steps >= (self.max_steps or math.inf)
        self._record_ends(before, done | terminated | is_late[:, None], terminated, there)
        over = ~self.active.any(-1)
        reward = torch.where(before, reward.float(), 0.0)
        self._reward_sum = self._reward_sum + reward.sum(-1)
        timed_out = over & ~(self._terminated | ~before).all(-1)
        success = over
        if self._success_key is not None:
            reported = following.get(self._success_key).reshape(self.num_envs, -1).to(self.device)
            success = over & (reported > 0).all(-1)
        result = self._tensordict(observation, before | self.active, over, timed_out, success)
        result.get(GROUP).set("reward", reward[..., None])
        return result

    def _agent_flag(self, source: TensorDictBase, name: str) -> Tensor:
        """Return the flag done or terminated of each agent, [E, R] bool: its own, or that of its environment."""
        flag = torch.zeros_like(self._has_joined)
        for key in {(name,), (*self._group, name)}:
            value = source.get(key, None)
            if value is not None:
                flag = flag | value.reshape(self.num_envs, -1).to(flag)
        return flag

    def _present_agents(self, source: TensorDictBase) -> Tensor | None:
        """Return from the environment's output the mask [E, R] of the agents that are in it; None if it has no mask."""
        mask = source.get((*self._group, "mask"), None) if self._group else None
        return None if mask is None else mask.reshape(self._has_joined.shape).to(self._has_joined)

    def _record_ends(self, before: Tensor, leaves: Tensor, terminated: Tensor, present: Tensor | None) -> None:
        """Record which agents ended in a step: those that leave are truncated, those that join become active."""
        if present is None:
            ended, arrives = before & leaves, torch.zeros_like(before)
        else:
            ended, arrives = before & (leaves | ~present), ~before & present & ~leaves
        self._terminated = (self._terminated | (ended & terminated)) & ~arrives
        self._truncated = (self._truncated | (ended & ~terminated)) & ~arrives
        self._has_joined = self._has_joined | self.active

    def _observation(self, source: TensorDictBase) -> dict[str, Tensor]:
        """Return the entries [E, R, ...] of the observation by name, from a TensorDict of ``base``."""
        entries = {}
        for key, (entry, inner) in self._observed_leaves.items():
            value = source.get(key)
            shape = self._agent_shape(value.shape)
            self._require(shape == inner, f"the shape of {entry.name}", list(shape), f"{list(inner)}, as its spec says")
            value = value.reshape(self.num_envs, self.num_robots, *entry.shape).to(self.device)
            entries[entry.name] = value.to(entry.dtype(torch.float32))
        return entries

    def _tensordict(
        self, observation: Mapping[str, Tensor], observing: Tensor, over: Tensor, timed_out: Tensor, success: Tensor
    ) -> TensorDictBase:
        """Return the tensordict of a state, with the keys of MarineNavEnv."""
        shape = self.num_envs, self.num_robots
        entries = {
            name: torch.where(observing.view(*shape, *[1] * (value.ndim - 2)), value, torch.zeros_like(value))
            for name, value in observation.items()
        }
        flags = {"done": ~self.active, "terminated": self._terminated, "truncated": self._truncated}
        group = {
            "observation": TensorDict(entries, shape),
            "mask": self.active,
            **{name: flag[..., None] for name, flag in flags.items()},
        }
        ends = {"done": over, "terminated": over & ~timed_out, "truncated": timed_out}
        mean_return = self._reward_sum / self._has_joined.sum(-1).clamp_min(1)
        columns = [mean_return, self._steps.float(), success.float()]
        content = {
            GROUP: TensorDict(group, shape),
            STATISTICS: torch.stack(columns[: len(self.statistics)], -1),
            INIT: (self._steps == 0)[:, None],
            **{name: flag[:, None] for name, flag in ends.items()},
        }
        return TensorDict(content, self.batch_size, device=self.device)

    def _current_tensordict(self) -> TensorDictBase:
        """Return the tensordict of the current state, from which the next step is made."""
        nothing = torch.zeros(3, self.num_envs, dtype=torch.bool, device=self.device)
        return self._tensordict(self._observation(self._base_state), self.active, *nothing)

    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """Make a step, and start new episodes where it ended one; see EnvBase.step_and_maybe_reset."""
        tensordict = self.step(tensordict)
        over = tensordict.get(("next", "done")).reshape(-1)
        if over.any():
            self._reset_envs(over)
        return tensordict, self._current_tensordict()

    # State --------------------------------------------------------------------------------------

    @property
    def is_batched(self) -> bool:
        """Return whether ``base`` is one batched environment, rather than several single ones."""
        return not isinstance(self.base, SerialEnv | ParallelEnv)

    @property
    def saves_state(self) -> bool:
        """Return whether ``base`` is batched and declares, by ``saves_state``, that its ``state_dict`` is complete."""
        return self.is_batched and getattr(self.base, "saves_state", False) is True

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return everything that the rest of the episodes depends on, by name; None if ``saves_state`` is false."""
        if not self.saves_state:
            return None
        with self._global_random.activate():
            base_state = self.base.state_dict()
        return {
            "base": base_state,
            "now": self._base_state.to_dict(),
            "terminated": self._terminated.clone(),
            "truncated": self._truncated.clone(),
            "steps": self._steps.clone(),
            "present": self._has_joined.clone(),
            "total": self._reward_sum.clone(),
            "env_steps": self.env_steps,
        }

    def load_state_dict(self, state: Any, *args: Any, **kwargs: Any) -> None:
        """Restore the result of state_dict; the next full reset continues its episodes instead of starting new ones."""
        with self._global_random.activate():
            self.base.load_state_dict(state["base"])
        self._base_state = TensorDict(state["now"], self.batch_size)
        if self.base.device is not None:
            self._base_state = self._base_state.to(self.base.device)
        restored = (self._terminated, self._truncated, self._steps, self._has_joined, self._reward_sum)
        for tensor, name in zip(restored, ("terminated", "truncated", "steps", "present", "total"), strict=True):
            tensor.copy_(state[name])
        self.env_steps, self._has_restored_state = state["env_steps"], True

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the environments."""
        if not self.base.is_closed:
            with preserve_num_threads(), suppress(RuntimeError):  # raised for processes that had to be ended
                self.base.close(raise_if_closed=False)
        super().close(raise_if_closed=raise_if_closed)


def _to_tuples(keys: Iterable[str | NestedKey]) -> list[NestedKey]:
    return [key if isinstance(key, tuple) else (key,) for key in keys]


@contextmanager
def wrap_errors(what: str, env: EnvBase | None = None) -> Iterator[None]:
    """Raise any error of external code in this context as a ConfigError of one sentence."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        reason = summarize_error(error) + _place_of(error)
        if isinstance(env, ParallelEnv):  # its messages name neither the setting nor the reason
            if "BATCHED_PIPE_TIMEOUT" in reason:
                reason = f"no answer within env.timeout, {env.BATCHED_PIPE_TIMEOUT:g} s"
            if "dead." in reason:
                reason = f"{reason.partition('dead.')[0]}dead; its own error, if it raised one, is printed above"
        raise ConfigError(f"{what} ({reason})") from error


def _place_of(error: BaseException) -> str:
    """Return file and line of the external code that raised an error, as the end of a sentence; empty if unknown."""
    folders = tuple(f"{Path(str(module.__file__)).parent}{os.sep}" for module in (torch, torchrl, tensordict))
    folders = (*folders, f"{Path(__file__).parents[1]}{os.sep}")
    frames = traceback.extract_tb(error.__traceback__)
    place = next((frame for frame in reversed(frames) if not frame.filename.startswith(folders)), None)
    return f", {place.filename}, line {place.lineno}" if place else ""
