"""Small environments of others, and ways in which one may break the contract."""

import time
from typing import Any

import gymnasium
import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.data import Binary, Bounded, Categorical, Composite, MultiCategorical, OneHot, Unbounded
from torchrl.envs import EnvBase, GymEnv

AGENTS, CHOICES = 3, 4
ACTIONS = {
    "bounded": lambda shape: Bounded(-2.0, 4.0, (*shape, 2)),
    "unbounded": lambda shape: Unbounded((*shape, 2)),
    "categorical": lambda shape: Categorical(CHOICES, shape),
    "one_hot": lambda shape: OneHot(CHOICES, (*shape, CHOICES)),
    "multi": lambda shape: MultiCategorical([2, 3], (*shape, 2)),
    "binary": lambda shape: Binary(3, (*shape, 3)),
    "many": lambda shape: MultiCategorical([64, 64], (*shape, 2)),
}
"""Specs of actions by name, for the shape of the agents."""


class Chase(EnvBase):
    """Agents on a line, whose reward is minus their distance from 0; the first number of an action moves them.

    Args:
        num_envs: number of environments.
        device: device of the tensors.
        seed: seed of the starts.
        action: name in ACTIONS.
        ends: how episodes end: never, or agent by agent after 2, 3 and 4 steps.
        tells: what else is told: success, mask, tides (a mask that changes) or nothing.
        breaks: what goes wrong in the third step: raise, hang, nan, reward, shape or nothing.
    """

    saves_state = True

    def __init__(
        self,
        num_envs: int,
        device: torch.device,
        seed: int,
        action: str = "bounded",
        ends: str = "never",
        tells: str = "",
        breaks: str = "",
    ) -> None:
        super().__init__(device=torch.device("cpu"), batch_size=[num_envs])
        shape = self.shape_ = (num_envs, AGENTS)
        self.ends, self.tells, self.breaks, self.taken = ends, tells, breaks, []
        place = {"place": Bounded(-8.0, 8.0, (*shape, 2)), "objects": Unbounded((*shape, 4, 3))}
        place |= {"objects_mask": Binary(4, (*shape, 4), dtype=torch.bool)}
        place |= {"mask": Binary(AGENTS, shape, dtype=torch.bool)} if tells in ("mask", "tides") else {}
        content: dict[str, Any] = {"fleet": Composite(place, shape=shape)}
        content |= {"info": Composite(success=Unbounded((num_envs, 1)), shape=shape[:1])} if tells == "success" else {}
        self.observation_spec = Composite(content, shape=shape[:1])
        self.action_spec = Composite(fleet=Composite(action=ACTIONS[action](shape), shape=shape), shape=shape[:1])
        self.reward_spec = Composite(fleet=Composite(reward=Unbounded((*shape, 1)), shape=shape), shape=shape[:1])
        flags = {name: Binary(1, (num_envs, 1), dtype=torch.bool) for name in ("done", "terminated")}
        if ends == "each":
            group = {name: Binary(1, (*shape, 1), dtype=torch.bool) for name in ("done", "terminated")}
            flags["fleet"] = Composite(group, shape=shape)  # type: ignore[assignment]
        self.done_spec = Composite(flags, shape=shape[:1])
        self.place, self.age = torch.zeros(*shape, 2), torch.zeros(num_envs, dtype=torch.int64)
        self.set_seed(seed)

    def _set_seed(self, seed: int | None) -> None:
        self.generator = torch.Generator().manual_seed(seed or 0)

    def _observed(self) -> TensorDict:
        objects = self.place[..., None, :1].expand(*self.shape_, 4, 3).clone()
        present = (torch.arange(4) < 2).expand(*self.shape_, 4).clone()
        entries = {"place": self.place.clone(), "objects": objects, "objects_mask": present}
        if self.tells == "mask":
            entries["mask"] = (torch.arange(AGENTS) > 0).expand(self.shape_).clone()
        if self.tells == "tides":  # the first leaves after two steps, and comes back after four
            entries["mask"] = ((torch.arange(AGENTS) > 0) | ~((self.age > 1) & (self.age < 4))[:, None]).clone()
        content: dict[str, Any] = {"fleet": TensorDict(entries, self.shape_)}
        if self.tells == "success":
            content["info"] = {"success": (self.place[:, :1, 0].abs() < 0.5).float()}
        return TensorDict(content, self.batch_size)

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> TensorDict:
        begun = torch.randn(*self.shape_, 2, generator=self.generator)
        again = None if tensordict is None else tensordict.get("_reset", None)
        over = torch.ones(self.batch_size, dtype=torch.bool) if again is None else again.view(-1)
        self.place = torch.where(over[:, None, None], begun, self.place)
        self.age = torch.where(over, 0, self.age)
        return self._with_flags(self._observed(), torch.zeros(self.shape_, dtype=torch.bool))

    def _with_flags(self, content: TensorDict, done: Tensor) -> TensorDict:
        whole = done.all(-1, keepdim=True)
        for name in ("done", "terminated"):
            content.set(name, whole.clone())
            if self.ends == "each":
                content.set(("fleet", name), done[..., None].clone())
        return content

    def _step(self, tensordict: Any) -> TensorDict:
        action = tensordict["fleet", "action"]
        self.taken.append(action.clone())
        moved = action.float().flatten(2)[..., :1] if action.ndim > 2 else action.float()[..., None]
        self.place = self.place + torch.cat((0.1 * moved, torch.zeros_like(moved)), -1)
        self.age = self.age + 1
        content = self._observed()
        reward = -self.place[..., :1].abs()
        if self.breaks and int(self.age.max()) == 3:
            if self.breaks == "raise":
                raise ValueError("the winch is jammed")
            if self.breaks == "hang":
                time.sleep(60.0)
            if self.breaks == "nan":
                content["fleet", "place"][0, 0, 0] = torch.nan
            if self.breaks == "reward":
                reward[0, 0] = torch.nan
            if self.breaks == "shape":
                content["fleet"].set("place", torch.zeros(*self.shape_, 3))
        content.set(("fleet", "reward"), reward)
        done = torch.zeros(self.shape_, dtype=torch.bool)
        if self.ends == "each":
            done = self.age[:, None] >= torch.arange(2, 2 + AGENTS)
        return self._with_flags(content, done)

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {"place": self.place.clone(), "age": self.age.clone(), "generator": self.generator.get_state()}

    def load_state_dict(self, state: Any, *args: Any, **kwargs: Any) -> None:
        self.place, self.age = state["place"].clone(), state["age"].clone()
        self.generator.set_state(state["generator"])


class Forgetful(Chase):
    """One whose state cannot be saved."""

    saves_state = False


class Tutored(Chase):
    """One that uses the global random generator, as in TorchRL's tutorials."""

    def _set_seed(self, seed: int | None) -> None:
        self.generator = torch.manual_seed(seed or 0)


class Alone(EnvBase):
    """A single agent in a single environment without a batch, of which one copy is rewarded for being still."""

    def __init__(self, num_envs: int, device: torch.device, seed: int, breaks: str = "") -> None:
        super().__init__(device=torch.device("cpu"), batch_size=[])
        self.breaks, self.steps = breaks, 0
        self.observation_spec = Composite(speed=Unbounded(()), place=Unbounded((2,)))
        self.action_spec = Composite(action=Bounded(-1.0, 1.0, (1,)))
        self.reward_spec = Composite(reward=Unbounded((1,)))
        self.set_seed(seed)

    def _set_seed(self, seed: int | None) -> None:
        self.generator = torch.Generator().manual_seed(seed or 0)

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> TensorDict:
        self.speed = torch.rand((), generator=self.generator)
        return TensorDict({"speed": self.speed, "place": torch.zeros(2)}, [])

    def _step(self, tensordict: Any) -> TensorDict:
        self.steps += 1
        if self.steps == 3 and self.breaks == "hang":
            time.sleep(60.0)
        if self.steps == 3 and self.breaks == "raise":
            raise ValueError("the winch is jammed")
        self.speed = self.speed + tensordict["action"][0]
        done = torch.tensor([bool(self.speed.abs() > 3.0)])
        content = {"speed": self.speed, "place": self.speed.expand(2), "reward": -self.speed.abs()[None]}
        return TensorDict({**content, "done": done, "terminated": done.clone()}, [])


class Harbour(gymnasium.Env[Any, Any]):
    """An environment of Gymnasium whose episodes of two steps are successes if the last action is 1.

    Args:
        key: name in the info by which it tells; empty if it does not.
        breaks: number of the reset that fails, or step for the first step; empty if all is well.
        start: the first of the two actions.
    """

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))

    def __init__(self, key: str = "is_success", breaks: str = "", start: int = 0) -> None:
        self.action_space = gymnasium.spaces.Discrete(2, start=start)
        self.key, self.breaks, self.age, self.resets = key, breaks, 0, 0

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict[str, Any]]:
        self.age, self.resets = 0, self.resets + 1
        if str(self.resets) == self.breaks:
            raise ValueError("the winch is jammed")
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.age += 1
        if self.breaks == "step":
            raise ValueError("the winch is jammed")
        return np.zeros(2, np.float32), 1.0, self.age == 2, False, {self.key: bool(action == 1)} if self.key else {}


def no_environment(num_envs: int, device: torch.device, seed: int) -> str:
    """Return something else."""
    return "a boat"


def resets_late(num_envs: int, device: torch.device, seed: int) -> EnvBase:
    """Return a vector whose steps after the end of an episode only reset, as Gymnasium's are by default."""
    return GymEnv("CartPole-v1", num_envs=num_envs)


def broken(num_envs: int, device: torch.device, seed: int) -> EnvBase:
    """Fail."""
    raise OSError("no water")


def with_specs(num_envs: int = 2, observation: Any = None, actions: Any = None) -> EnvBase:
    """Return one with other observations of its group, or other actions by group."""
    env, shape = Chase(num_envs, torch.device("cpu"), 0), (num_envs, AGENTS)
    if observation is not None:
        env.observation_spec = Composite(fleet=Composite(observation, shape=shape), shape=shape[:1])
    if actions is not None:
        groups = {name: Composite(action=spec, shape=shape) for name, spec in actions.items()}
        env.action_spec = Composite(groups, shape=shape[:1])
    return env
