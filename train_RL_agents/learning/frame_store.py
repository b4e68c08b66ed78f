"""Observations of replay stored once, of which transitions refer to the last k by their places."""

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marinenav_env import GROUP
from marinenav_env.support.tensors import restore_tensors
from marinenav_env.support.validation import require
from train_RL_agents.learning.replay import STORED_MASK, Replay, replay_bytes
from train_RL_agents.networks.frames import FrameStack
from train_RL_agents.networks.memory import MEMORY
from train_RL_agents.networks.observation import Observation, to_observation

PLACES = "places"
"""Name of the places [k] int64 of the last observations of a robot, the latest first, in place of its observation."""
_BLANK = -1
"""Place of what was before an episode, which is zeros."""
_ROW = "row"
"""Key of a packed observation in the ring buffer."""


class FrameStore:
    """Observations of single robots in a ring buffer, a Replay that is not sampled.

    It is large enough for the ``capacity`` of a replay, of which each transition has at most one observation of its
    own and the first one of an episode. The shape is (E, R); a transition is in replay after ``n_steps`` steps.
    """

    def __init__(
        self, frames: FrameStack, shape: tuple[int, int], capacity: int, n_steps: int, device: torch.device
    ) -> None:
        self._frames, self._shape = frames, shape
        size = _ring_size(frames, shape, capacity, n_steps)
        self._ring = Replay(_example_row(frames), size, 1, torch.Generator(device))
        self._latest = torch.full((*shape, frames.number), _BLANK, dtype=torch.int64, device=device)

    @property
    def capacity(self) -> int:
        """Return the number of observations that the ring buffer holds."""
        return self._ring.capacity

    def refer(self, steps: TensorDictBase) -> TensorDictBase:
        """Store the observations of steps [E, T], and return the steps with places in place of observations."""
        before, after = zip(*(self._refer_step(steps[:, t]) for t in range(steps.shape[1])), strict=True)
        return with_places(steps, torch.stack(before, 1), torch.stack(after, 1))

    def _refer_step(self, step: TensorDictBase) -> tuple[Tensor, Tensor]:
        """Store the observations of a step [E], and return the places [E, R, k] before and after it."""
        active, done = step.get((GROUP, "mask")), step.get(("next", GROUP, "done")).squeeze(-1)
        newest = self._latest[..., 0]
        starts = active & (newest == _BLANK)
        first = self._append(step.get((GROUP, "observation")), starts)
        before = torch.cat((torch.where(starts, first, newest)[..., None], self._latest[..., 1:]), -1)
        following = self._append(step.get(("next", GROUP, "observation")), active)
        after = torch.cat((following[..., None], before[..., :-1]), -1)
        self._latest.copy_(torch.where((active & ~done)[..., None], after, _BLANK))
        return before, after

    def _append(self, observation: TensorDictBase, stored: Tensor) -> Tensor:
        """Store the observations [E, R] in a mask, and return their places; those of others have no meaning."""
        packed = self._frames.pack(to_observation(observation)).flatten(0, 1)
        rows = TensorDict({_ROW: packed, STORED_MASK: stored.flatten()}, packed.shape[:1])
        return self._ring.insert(rows).view(self._shape)

    def observation(self, places: Tensor) -> Observation:
        """Return the observations [B] at places [B, k], with the memory before them."""
        found: Tensor = self._ring.transitions_at(places.clamp_min(0).flatten()).get(_ROW)
        rows = found.view(*places.shape, -1) * (places != _BLANK)[..., None]
        return {**self._frames.unpack(rows[:, 0]), MEMORY: rows[:, 1:].flatten(1)}

    def forget(self) -> None:
        """Begin new episodes, because the environments were replaced by new ones."""
        self._latest.fill_(_BLANK)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the ring buffer as ``observations``, and the places of the ``latest`` ones."""
        return {"observations": self._ring.state_dict(), "latest": self._latest.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``."""
        self._ring.load_state_dict(state["observations"])
        restore_tensors({"latest": self._latest}, {"latest": state["latest"]})
        are_valid = bool(((self._latest >= _BLANK) & (self._latest < self.capacity)).all())  # host: loading
        require(are_valid, "frames latest", "...", f"from {_BLANK} to {self.capacity - 1}")


def _example_row(frames: FrameStack) -> TensorDict:
    """Return an observation as it is stored, for shape and dtype."""
    return TensorDict({_ROW: torch.zeros(frames.width)})


def _ring_size(frames: FrameStack, shape: tuple[int, int], capacity: int, n_steps: int) -> int:
    """Return the number of observations that a FrameStore with these arguments holds."""
    return 2 * (capacity + (n_steps + frames.number) * shape[0] * shape[1])


def frame_bytes(frames: FrameStack, shape: tuple[int, int], capacity: int, n_steps: int) -> int:
    """Return the size in bytes of the observations of a FrameStore with these arguments."""
    return replay_bytes(_example_row(frames), _ring_size(frames, shape, capacity, n_steps), False)[0]


def with_places(steps: TensorDictBase, before: Tensor, after: Tensor) -> TensorDictBase:
    """Return steps with places [..., R, k] of the observations before and after them in place of these."""
    referring = steps.clone(recurse=False)
    for path, places in (((), before), (("next",), after)):
        referring.set((*path, GROUP, "observation"), TensorDict({PLACES: places}, places.shape[:-1]))
    return referring
