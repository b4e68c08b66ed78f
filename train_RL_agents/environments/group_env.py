"""Adapter of any EnvBase with one group of agents to the keys and shapes that training works on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Binary, Bounded, Categorical, MultiCategorical, MultiOneHot, OneHot, TensorSpec
from torchrl.envs import EnvBase, ParallelEnv, SerialEnv

from marinenav_env.sensing.entries import Entry
from marinenav_env.specs import GROUP, STATISTICS, make_specs
from marinenav_env.support.plugins import first_line
from marinenav_env.support.validation import ConfigError, require

MOST_ACTIONS = 1024
"""Largest number of discrete actions, also of combinations of a multi-discrete action."""
_NOT_OBSERVED = {"mask", "info", "state", "episode_reward", "step_count"}
"""Names in a group's observation that are no input of policies."""
SUCCESS = ("success", "is_success")
"""Names by which an environment tells whether an episode is a success."""
_RESERVED = {"self_state", "objects_state"}
"""Names of observations that networks encode as those of vessels."""
_LARGEST_SCALE = 1e4
"""Bounds of observations above this are not taken for their typical magnitude."""
Key = tuple[str, ...]


class Actions(NamedTuple):
    """The actions of an environment."""

    low: Tensor | None
    """Lower bounds [D] of continuous actions; None for discrete ones."""
    high: Tensor | None
    """Upper bounds [D]."""
    sizes: tuple[int, ...]
    """Numbers of choices of a discrete action; of a multi-discrete one several."""
    shape: tuple[int, ...]
    """Shape of the action of one agent."""
    one_hot: bool
    """True if choices are one-hot."""
    dtype: torch.dtype
    """Type of the environment's actions."""

    @property
    def continuous(self) -> bool:
        """Return whether actions are continuous."""
        return self.low is not None

    @property
    def number(self) -> int:
        """Return the number of discrete actions, of combinations if they are multi-discrete; 0 for continuous ones."""
        return 0 if self.continuous else math.prod(self.sizes)

    def convert(self, action: Tensor) -> Tensor:
        """Return actions as the environment takes them, [E, R, *shape].

        Args:
            action: [E, R, D] in [-1, 1], or [E, R] index of a choice, or of a combination with the last choice
                varying fastest.
        """
        if self.low is not None and self.high is not None:
            scaled = self.low + 0.5 * (action.clamp(-1.0, 1.0) + 1.0) * (self.high - self.low)
            return scaled.to(self.dtype).reshape(*action.shape[:-1], *self.shape)
        choices = torch.unravel_index(action, self.sizes)
        if self.one_hot:
            parts = [
                torch.nn.functional.one_hot(choice, size) for choice, size in zip(choices, self.sizes, strict=True)
            ]
            value = torch.cat(parts, -1)
        else:
            value = torch.stack(choices, -1)
        return value.to(self.dtype).reshape(*action.shape, *self.shape)


class GroupEnv(EnvBase):
    """Environments of others with the batch [E], the group ``robots`` and the keys of MarineNavEnv.

    What policies observe, how they act, rewards and endings follow from the specs of the EnvBase; see
    docs/environments.md. An agent that has ended is masked until its episode is over.

    Args:
        base: environments of the batch [E].
        name: name of the environment, for messages.
        max_steps: steps after which an episode is truncated; 0: the limit of ``base``.
        device: device of the steps.

    Raises:
        ConfigError: when the specs are of a kind that training does not support.
    """

    batch_locked = True

    def __init__(self, base: EnvBase, name: str, max_steps: int = 0, device: torch.device | None = None) -> None:
        super().__init__(device=device or torch.device("cpu"), batch_size=base.batch_size)
        self.base, self.name, self.max_steps = base, name, max_steps
        self._action_key = self._only_key("action", base.action_keys)
        self._reward_key = self._only_key("reward", base.reward_keys)
        self._group = self._action_key[:-1]
        reward = math.prod(base.full_reward_spec[self._reward_key].shape[1:])
        spec = self._leaf(base.full_action_spec, self._action_key)
        self._require(len(self.batch_size) == 1, "environments", tuple(self.batch_size), "batched along one dimension")
        self.num_envs = self.batch_size[0]
        self.num_robots = spec.shape[1] if self._group else 1
        self._require(reward in (1, self.num_robots), "reward", f"{reward} numbers", "one, or one of each agent")
        self.actions = self._read_actions(spec)
        self._observed = self._read_observation()
        self.entries: dict[str, Entry] = {entry.name: entry for entry, _ in self._observed.values()}
        """Descriptions of the entries of the observation by name."""
        observed = _as_tuples(base.full_observation_spec.keys(True, True))
        self._success_key = next((key for key in observed if key[-1] in SUCCESS), None)
        """Key by which the environment tells whether an episode is a success; None without one."""
        self.statistics: tuple[str, ...] = ("return", "length", *(("success",) if self._success_key else ()))
        """Names of the statistics of an episode."""
        self.env_steps = 0
        """Env-steps so far."""
        shape = self.num_envs, self.num_robots
        action_size = 1 if self.actions.low is None else len(self.actions.low)
        count = None if self.actions.continuous else self.actions.number
        specs = make_specs(
            shape, self.entries, False, count, self.device, torch.float32, len(self.statistics), action_size
        )
        self.observation_spec, self.action_spec, self.reward_spec, self.done_spec = specs
        self._now: TensorDictBase = TensorDict({}, self.batch_size)
        self._flags = torch.zeros(4, *shape, dtype=torch.bool, device=self.device)
        self._steps = torch.zeros(self.num_envs, dtype=torch.int64, device=self.device)
        self._present = torch.zeros(*shape, dtype=torch.bool, device=self.device)
        self._total = torch.zeros(self.num_envs, device=self.device)
        self._sums = torch.zeros(self.num_envs, len(self.statistics), device=self.device)
        self._continues = False

    # Specs --------------------------------------------------------------------------------------

    def _require(self, holds: bool, what: str, value: Any, allowed: str) -> None:
        require(holds, f"{self.name}: {what}", value, allowed)

    def _only_key(self, what: str, keys: Any) -> Key:
        """Return the only key of a kind; several are several groups of agents."""
        names = _as_tuples(keys)
        self._require(len(names) == 1, f"{what}s", [".".join(key) for key in names], "those of one group of agents")
        return names[0]

    def _leaf(self, spec: Any, key: Key) -> TensorSpec:
        """Return a leaf of a spec; its agents must have equal specs."""
        try:
            leaf: TensorSpec = spec[key]
            is_equal = -1 not in leaf.shape
        except (RuntimeError, ValueError, NotImplementedError):
            is_equal = False
        self._require(is_equal, ".".join(key), "different for each agent", "the same for all agents of the group")
        return leaf

    def _inner(self, shape: Any) -> tuple[int, ...]:
        """Return the shape of one agent's part of a leaf [E, ...] or [E, R, ...]."""
        return tuple(shape[2 if self._group else 1 :])

    def _read_actions(self, spec: TensorSpec) -> Actions:
        """Return the actions that a spec describes."""
        inner, key = self._inner(spec.shape), ".".join(self._action_key)
        index: Any = (0,) * (len(spec.shape) - len(inner))
        if isinstance(spec, Bounded) and spec.dtype.is_floating_point:
            bounds = [torch.as_tensor(bound).expand(spec.shape) for bound in (spec.space.low, spec.space.high)]
            is_same = all(bool((bound == bound[index]).all()) for bound in bounds)
            self._require(is_same, key, "of different bounds", "the same for all agents of the group")
            low, high = (bound[index].flatten().float().to(self.device) for bound in bounds)
            is_finite = bool((low.isfinite() & high.isfinite() & (low < high)).all())
            self._require(is_finite, key, "without finite bounds", "bounded below and above")
            return Actions(low, high, (), inner, False, spec.dtype)
        if isinstance(spec, MultiCategorical):
            sizes = tuple(spec.nvec.reshape(-1, spec.nvec.shape[-1])[0].tolist())
        elif isinstance(spec, MultiOneHot):
            sizes = tuple(int(box.n) for box in spec.space)
        elif isinstance(spec, Binary):
            sizes = (2,) * math.prod(inner)
        elif isinstance(spec, OneHot | Categorical):
            sizes = (int(spec.space.n),)
        else:
            self._require(False, key, type(spec).__name__, "bounded numbers, or discrete or multi-discrete choices")
        count = math.prod(sizes)
        self._require(1 < count <= MOST_ACTIONS, key, f"{count} combinations", f"2 to {MOST_ACTIONS} of them")
        return Actions(None, None, sizes, inner, isinstance(spec, OneHot | MultiOneHot), spec.dtype)

    def _read_observation(self) -> dict[Key, tuple[Entry, tuple[int, ...]]]:
        """Return the entry and the shape in the environment of every observed leaf by its key."""
        observation = self.base.full_observation_spec
        keys, depth = _as_tuples(observation.keys(True, True)), len(self._group)
        names = {
            key: "_".join(key[depth:])
            for key in keys
            if key[:depth] == self._group and len(key) > depth and not {*key[depth:]} & {*_NOT_OBSERVED, *SUCCESS}
        }
        self._require(bool(names), "observation", "nothing", "an observation of each agent")
        reserved = sorted(_RESERVED & {*names.values()})
        self._require(not reserved, "observation", ", ".join(reserved), "of another name, as this one is a vessel's")
        for key in keys:
            self._require(key[-1] != "action_mask", ".".join(key), "a mask of actions", "left out; it is not supported")
        specs = {key: self._leaf(observation, key) for key in names}
        shapes = {names[key]: self._inner(spec.shape) for key, spec in specs.items()}
        sets = {name for name, shape in shapes.items() if len(shape) == 2 and shapes.get(f"{name}_mask") == shape[:1]}
        found = {}
        for key, spec in specs.items():
            name, inner = names[key], self._inner(spec.shape)
            is_image = len(inner) > 2 or (spec.dtype == torch.uint8 and len(inner) == 2)
            self._require(not is_image, name, f"an image {list(inner)}", "numbers; images are not supported")
            is_index = isinstance(spec, Categorical) and not isinstance(spec, Binary) and spec.dtype != torch.bool
            self._require(not is_index, name, "an index", "numbers, or one-hot")
            found[key] = (self._entry(name, spec, inner, sets), inner)
        return found

    def _entry(self, name: str, spec: TensorSpec, inner: tuple[int, ...], sets: set[str]) -> Entry:
        """Return the entry of a leaf: a set of objects, its mask, or numbers."""
        if name.removesuffix("_mask") in sets - {name} and spec.dtype == torch.bool:
            return Entry(name, "mask", inner)
        mask = f"{name}_mask" if name in sets else ""
        scale: tuple[float, ...] = ()
        if isinstance(spec, Bounded) and len(inner) == 1 and spec.dtype.is_floating_point:
            low, high = (
                torch.as_tensor(bound).expand(spec.shape).flatten()[-inner[0] :].abs()
                for bound in (spec.space.low, spec.space.high)
            )
            largest = torch.maximum(low, high)
            if bool(((largest > 0.0) & (largest <= _LARGEST_SCALE)).all()):
                scale = tuple(largest.tolist())
        return Entry(name, "objects" if mask else "vector", inner or (1,), scale=scale, mask=mask)

    # Steps --------------------------------------------------------------------------------------

    @property
    def active(self) -> Tensor:
        """Return which agents are active, [E, R] bool."""
        return self._flags[0]

    def _set_seed(self, seed: int | None) -> None:
        with self._reported("seeding failed"):
            self.base.set_seed(seed)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        over = None if tensordict is None else tensordict.get("_reset", None)
        if over is None and self._continues:
            self._continues = False
            return self._current()
        self._begin(None if over is None else over.reshape(-1).to(self.device))
        with self._reported("a reset gave no observation"):
            return self._current()

    def _reported(self, what: str) -> AbstractContextManager[None]:
        """Return a context in which errors of the environment become one sentence; see reported."""
        return reported(f"{self.name}: {what}", self.base)

    def _begin(self, over: Tensor | None) -> None:
        """Start new episodes in some environments [E], or in all."""
        with self._reported("a reset failed"):
            if over is None or not len(self._now.keys()):
                self._now, over = self.base.reset(), torch.ones_like(self._steps, dtype=torch.bool)
            else:
                request = self._now.copy()
                for key in _as_tuples(self.base.reset_keys):
                    like = self._now.get((*key[:-1], "done"))
                    request.set(key, over.to(like.device).view(-1, *[1] * (like.ndim - 1)).expand(like.shape).clone())
                self._now = self.base.reset(request).exclude(*self.base.reset_keys)
        there = self._there(self._now)
        present = torch.ones_like(self._flags[0]) if there is None else there
        begun = torch.stack((present, ~present, ~present, torch.zeros_like(present)))
        self._flags = torch.where(over[:, None], begun, self._flags)
        self._present = torch.where(over[:, None], present, self._present)
        self._total = torch.where(over, 0.0, self._total)
        self._steps = torch.where(over, 0, self._steps)
        self._sums = torch.where(over[:, None], 0.0, self._sums)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        action: Any = tensordict.get((GROUP, "action"))
        before = self.active
        converted = self.actions.convert(action)
        converted = converted if self._group else converted.squeeze(1)
        with self._reported("a step failed"):
            after = self.base.step(self._now.copy().set(self._action_key, converted.to(self.base.device)))
            self._now = self.base.step_mdp(after)
            following = after.get("next")
            observation = self._observation(following)
            # A number of the environment is that of each of its agents.
            reward = following.get(self._reward_key).to(self.device).reshape(self.num_envs, -1).expand(before.shape)
            done, terminated, over = self._endings(following)
        self.env_steps += self.num_envs
        self._steps = self._steps + 1
        if self.max_steps:
            over = over | (self._steps >= self.max_steps)
        self._flags = self._after(before, done, terminated, over, self._there(following))
        self._present = self._present | self.active
        over = over | ~self.active.any(-1)
        reward = torch.where(before, reward.float(), 0.0)
        self._add(reward, following, over)
        timed_out = over & ~(self._flags[2] | ~before).all(-1)
        result = self._tensordict(observation, before, over, timed_out)
        result.get(GROUP).set("reward", reward[..., None])
        return result

    def _there(self, source: TensorDictBase) -> Tensor | None:
        """Return which agents there are, [E, R] bool; None if the environment does not tell."""
        mask = source.get((*self._group, "mask"), None) if self._group else None
        return None if mask is None else mask.reshape(self._flags[0].shape).to(self._flags)

    def _after(self, before: Tensor, done: Tensor, terminated: Tensor, over: Tensor, there: Tensor | None) -> Tensor:
        """Return the flags active, done, terminated and truncated [4, E, R] after a step.

        An agent that is not there any more is truncated; one that is there again, or for the first time, is active.
        """
        leaves = done | terminated | over[:, None]
        ended = before & (leaves if there is None else leaves | ~there)
        _, was_done, was_terminated, was_truncated = self._flags
        flags = (was_done | ended, was_terminated | (ended & terminated), was_truncated | (ended & ~terminated))
        if there is None:
            return torch.stack((before & ~ended, *flags))
        arrives = ~before & there & ~leaves
        return torch.stack(((before & ~ended) | arrives, *(flag & ~arrives for flag in flags)))

    def _endings(self, following: TensorDictBase) -> tuple[Tensor, Tensor, Tensor]:
        """Return which agents are done and which are terminated, [E, R], and which episodes are over [E]."""
        shape = self.num_envs, self.num_robots
        flags = []
        for name in ("done", "terminated"):
            own = following.get((*self._group, name), None) if self._group else None
            shared = following.get(name, None)
            shared = torch.zeros(shape[0], 1) if shared is None else shared.reshape(-1, 1)
            both = shared.bool().expand(shape)
            flags.append(both if own is None else both | own.reshape(shape).to(both))
        done, terminated = (flag.to(self.device) for flag in flags)
        whole = following.get("done", None)
        return done, terminated, done.all(-1) if whole is None else whole.reshape(-1).to(self.device)

    def _add(self, reward: Tensor, following: TensorDictBase, over: Tensor) -> None:
        """Add a step to the statistics of the episodes."""
        self._total = self._total + reward.sum(-1)
        columns = [self._total / self._present.sum(-1).clamp_min(1), self._steps.float()]
        if self._success_key is not None:
            told = following.get(self._success_key).reshape(self.num_envs, -1).to(self.device) > 0
            columns.append((told.all(-1) & over).float())
        self._sums = torch.stack(columns, -1)

    def _observation(self, source: TensorDictBase) -> dict[str, Tensor]:
        """Return the entries [E, R, ...] by name."""
        entries = {}
        for key, (entry, inner) in self._observed.items():
            value = source.get(key)
            shape = self._inner(value.shape)
            self._require(shape == inner, f"the shape of {entry.name}", list(shape), f"{list(inner)}, as its spec says")
            value = value.reshape(self.num_envs, self.num_robots, *entry.shape).to(self.device)
            entries[entry.name] = value.to(entry.dtype(torch.float32))
        return entries

    def _tensordict(
        self, observation: Mapping[str, Tensor], observing: Tensor, over: Tensor, timed_out: Tensor
    ) -> TensorDictBase:
        """Return the keys of a state: observations, those of agents that do not observe are 0, mask and flags."""
        shape = self.num_envs, self.num_robots
        entries = {
            name: torch.where(observing.view(*shape, *[1] * (value.ndim - 2)), value, torch.zeros_like(value))
            for name, value in observation.items()
        }
        flags = dict(zip(("done", "terminated", "truncated"), self._flags[1:].unsqueeze(-1), strict=True))
        group = TensorDict({"observation": TensorDict(entries, shape), "mask": self.active, **flags}, shape)
        ends = {"done": over, "terminated": over & ~timed_out, "truncated": timed_out}
        content = {GROUP: group, STATISTICS: self._sums, **{name: flag[:, None] for name, flag in ends.items()}}
        return TensorDict(content, self.batch_size, device=self.device)

    def _current(self) -> TensorDictBase:
        """Return the present state, from which the next step is made."""
        over, timed_out = torch.zeros(2, self.num_envs, dtype=torch.bool, device=self.device)
        return self._tensordict(self._observation(self._now), self.active, over, timed_out)

    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """Make a step and start new episodes where it ended one, as EnvBase.step_and_maybe_reset."""
        tensordict = self.step(tensordict)
        over = tensordict.get(("next", "done")).reshape(-1)
        if over.any():
            self._begin(over)
        return tensordict, self._current()

    # State --------------------------------------------------------------------------------------

    @property
    def is_batched(self) -> bool:
        """Return whether the environment has a batch of its own, rather than being one of several."""
        return not isinstance(self.base, SerialEnv | ParallelEnv)

    @property
    def saves_state(self) -> bool:
        """Return whether ``state_dict`` of a batched environment holds everything, which its ``saves_state`` tells."""
        return self.is_batched and getattr(self.base, "saves_state", False) is True

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return everything that the episodes depend on; None if the environment has no state to save."""
        if not self.saves_state:
            return None
        return {
            "base": self.base.state_dict(),
            "now": self._now.to_dict(),
            "flags": self._flags.clone(),
            "steps": self._steps.clone(),
            "sums": self._sums.clone(),
            "present": self._present.clone(),
            "total": self._total.clone(),
            "env_steps": self.env_steps,
        }

    def load_state_dict(self, state: Any, *args: Any, **kwargs: Any) -> None:
        """Restore a state; the next reset of all environments returns its observation."""
        self.base.load_state_dict(state["base"])
        self._now = TensorDict(state["now"], self.batch_size)
        if self.base.device is not None:
            self._now = self._now.to(self.base.device)
        restored = (self._flags, self._steps, self._sums, self._present, self._total)
        for tensor, name in zip(restored, ("flags", "steps", "sums", "present", "total"), strict=True):
            tensor.copy_(state[name])
        self.env_steps, self._continues = state["env_steps"], True

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the environments."""
        if not self.base.is_closed:
            with suppress(RuntimeError):  # processes that had to be ended
                self.base.close(raise_if_closed=False)
        super().close(raise_if_closed=raise_if_closed)


def _as_tuples(keys: Iterable[str | Key]) -> list[Key]:
    """Return keys of tensordicts, which are names or tuples of names, as tuples."""
    return [key if isinstance(key, tuple) else (key,) for key in keys]


@contextmanager
def reported(what: str, env: EnvBase | None = None) -> Iterator[None]:
    """Raise whatever the code of others raises in this context as one sentence.

    Args:
        what: beginning of the sentence.
        env: environment whose code is called, which may be in a process of its own.

    Raises:
        ConfigError: for any error.
    """
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        reason = first_line(error)
        if isinstance(env, ParallelEnv):  # whose messages name no setting, and no reason
            if "BATCHED_PIPE_TIMEOUT" in reason:
                reason = f"no answer within env.timeout, {env.BATCHED_PIPE_TIMEOUT:g} s"
            if reason.endswith("dead."):
                reason = f"{reason.removesuffix('.')}; its own error, if it raised one, is printed above"
        raise ConfigError(f"{what} ({reason})") from error
