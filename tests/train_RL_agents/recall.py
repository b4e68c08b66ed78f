"""Environments that take memory: what to do is told once, in this episode or in the last."""

from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.data import Binary, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase

STEPS = 4
"""Steps of an episode; only the action of the last one counts."""


class Recall(EnvBase):
    """A choice of two at the end of an episode, rewarded by 1 where it is the one told at the beginning, else by -1.

    Args:
        num_envs: number of environments.
        device: not used.
        seed: seed of what is told.
        tells: when it is told: in the first step of the episode, or in the last step of the episode before.
    """

    saves_state = True

    def __init__(self, num_envs: int, device: torch.device, seed: int, tells: str = "first") -> None:
        super().__init__(device=torch.device("cpu"), batch_size=[num_envs])
        self.tells = tells
        self.observation_spec = Composite(cue=Unbounded((num_envs, 2)), shape=[num_envs])
        self.action_spec = Categorical(2, (num_envs,))
        self.reward_spec = Unbounded((num_envs, 1))
        self.done_spec = Binary(1, (num_envs, 1), dtype=torch.bool)
        self.age = torch.zeros(num_envs, dtype=torch.int64)
        self.answer = torch.ones(num_envs)
        self.set_seed(seed)

    def _set_seed(self, seed: int | None) -> None:
        self.generator = torch.Generator().manual_seed(seed or 0)
        self.following = self._draw()

    def _draw(self) -> Tensor:
        return torch.randint(2, self.batch_size, generator=self.generator) * 2.0 - 1.0

    def _content(self, done: Tensor) -> TensorDict:
        hint = self.answer * (self.age == 0) if self.tells == "first" else self.following * (self.age == STEPS - 1)
        cue = torch.stack((hint, self.age / STEPS), -1)
        return TensorDict({"cue": cue, "done": done, "terminated": done.clone()}, self.batch_size)

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> TensorDict:
        again = None if tensordict is None else tensordict.get("_reset", None)
        over = torch.ones(self.batch_size, dtype=torch.bool) if again is None else again.view(-1)
        drawn = self._draw()
        self.answer = torch.where(over, self.following, self.answer)
        self.following = torch.where(over, drawn, self.following)
        self.age = torch.where(over, 0, self.age)
        return self._content(torch.zeros(*self.batch_size, 1, dtype=torch.bool))

    def _step(self, tensordict: Any) -> TensorDict:
        ends = self.age == STEPS - 1
        right = (tensordict["action"] * 2 - 1) == self.answer
        self.age = self.age + 1
        content = self._content(ends[:, None])
        return content.set("reward", (ends * torch.where(right, 1.0, -1.0))[:, None])

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return {"age": self.age, "answers": (self.answer, self.following), "drawn": self.generator.get_state()}

    def load_state_dict(self, state: Any, *args: Any, **kwargs: Any) -> None:
        self.age, (self.answer, self.following) = state["age"], state["answers"]
        self.generator.set_state(state["drawn"])
