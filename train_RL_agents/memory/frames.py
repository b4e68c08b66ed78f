"""Observations of replay stored once, of which transitions refer to the last k by their places."""

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marinenav_env import GROUP
from marinenav_env.support.tensors import restore_tensors
from marinenav_env.support.validation import require
from train_RL_agents.memory.prioritized import SPARE_SLOTS
from train_RL_agents.networks.frames import FrameStack
from train_RL_agents.networks.memory import MEMORY
from train_RL_agents.networks.observation import Observation, to_observation

PLACES = "places"
"""Name of the places [k] int64 of the last observations of a robot, the latest first, in place of its observation."""


class FrameStore:
    """Ring buffer of single robots' observations, in which new ones replace the oldest.

    It is large enough for all transitions of a replay, each of which has at most one observation of its own and the
    first one of an episode. Observations that are not stored go to spare rows past the end.

    Args:
        frames: stack of the agent's frames.
        shape: numbers (E, R) of environments and of robots of each.
        capacity: number of transitions of the replay.
        n_steps: number of steps until a transition is in replay.
        device: device of the observations.
    """

    def __init__(
        self, frames: FrameStack, shape: tuple[int, int], capacity: int, n_steps: int, device: torch.device
    ) -> None:
        self._frames, self._shape = frames, shape
        number = frames.size // frames.width + 1
        self.capacity = 2 * (capacity + (n_steps + number) * shape[0] * shape[1])
        self._rows = torch.zeros(self.capacity + 1 + SPARE_SLOTS, frames.width, device=device)
        self._count = torch.zeros((), dtype=torch.int64, device=device)  # of all observations so far
        # The row after the ring stays blank: it stands for what was before an episode.
        self._latest = torch.full((*shape, number), self.capacity, dtype=torch.int64, device=device)

    def refer(self, steps: TensorDictBase) -> TensorDictBase:
        """Store the observations of steps [E, T], and return the steps with places in place of observations."""
        before, after = zip(*(self._refer_step(steps[:, t]) for t in range(steps.shape[1])), strict=True)
        return with_places(steps, torch.stack(before, 1), torch.stack(after, 1))

    def _refer_step(self, step: TensorDictBase) -> tuple[Tensor, Tensor]:
        """Store the observations of a step [E], and return the places [E, R, k] before and after it."""
        active, done = step.get((GROUP, "mask")), step.get(("next", GROUP, "done")).squeeze(-1)
        newest = self._latest[..., 0]
        starts = active & (newest == self.capacity)
        first = self._append(step.get((GROUP, "observation")), starts)
        before = torch.cat((torch.where(starts, first, newest)[..., None], self._latest[..., 1:]), -1)
        following = self._append(step.get(("next", GROUP, "observation")), active)
        after = torch.cat((following[..., None], before[..., :-1]), -1)
        self._latest.copy_(torch.where((active & ~done)[..., None], after, self.capacity))
        return before, after

    def _append(self, observation: TensorDictBase, stored: Tensor) -> Tensor:
        """Store the observations [E, R] in a mask, and return their places; those of others have no meaning."""
        mask = stored.flatten()
        rank = mask.cumsum(0)
        spare = self.capacity + 1 + torch.arange(len(mask), device=mask.device) % SPARE_SLOTS
        place = torch.where(mask, (self._count + rank - 1) % self.capacity, spare)
        self._rows.index_copy_(0, place, self._frames.pack(to_observation(observation)).flatten(0, 1))
        self._count.add_(rank[-1])
        return place.view(self._shape)

    def observation(self, places: Tensor) -> Observation:
        """Return the observations [B] at places [B, k], with the memory before them."""
        rows = self._rows[places]
        return {**self._frames.unpack(rows[:, 0]), MEMORY: rows[:, 1:].flatten(1)}

    @property
    def nbytes(self) -> int:
        """Return the size of the ring buffer in bytes."""
        return int(self._rows.nbytes)

    def forget(self) -> None:
        """Begin new episodes, because the environments were replaced by new ones."""
        self._latest.fill_(self.capacity)

    def state_dict(self) -> dict[str, Any]:
        """Return copies of the stored ``rows``, the ``count`` of all so far and the ``latest`` places."""
        return {name: tensor.clone() for name, tensor in self._tensors(int(self._count)).items()}  # host: saving

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``."""
        restore_tensors(self._tensors(int(state["count"])), state)  # host: loading a checkpoint
        are_valid = bool(((self._latest >= 0) & (self._latest <= self.capacity)).all())  # host: loading a checkpoint
        require(are_valid, "frames latest", "...", f"from 0 to {self.capacity}")

    def _tensors(self, count: int) -> dict[str, Tensor]:
        """Return the tensors of the state after so many observations."""
        return {"rows": self._rows[: min(count, self.capacity)], "count": self._count, "latest": self._latest}


def with_places(steps: TensorDictBase, before: Tensor, after: Tensor) -> TensorDictBase:
    """Return steps with places [..., R, k] of the observations before and after them in place of these."""
    referring = steps.clone(recurse=False)
    for path, places in (((), before), (("next",), after)):
        referring.set((*path, GROUP, "observation"), TensorDict({PLACES: places}, places.shape[:-1]))
    return referring
