"""From what the collector yields to the rows that replay stores, with multi-step returns."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.envs import EnvBase

from marinenav_env import GROUP
from train_RL_agents.agents import Batch
from train_RL_agents.memory.replay import STORED, WEIGHTS
from train_RL_agents.memory.ring import copied
from train_RL_agents.networks import Inputs

OBSERVATION = (GROUP, "observation")


def inputs_of(observation: TensorDictBase) -> Inputs:
    """The network inputs in an observation of the environment, of any batch shape."""
    return Inputs(*(observation.get(name) for name in Inputs._fields))


class MultiStep:
    """Builds n-step transitions along each robot's own stream.

    A window opens at every step of an active robot and closes n steps later, or when the robot
    ends or its episode is cut: then all its open windows close at once. A closed window is one
    row: first observation and action, discounted sum of rewards, last observation, and the
    discount of its value, which is 0 only if the robot terminated. Time-outs thus bootstrap.

    Args:
        n_steps: n.
        gamma: discount per step.
        reward_scale: factor on rewards.
    """

    def __init__(self, n_steps: int, gamma: float, reward_scale: float) -> None:
        self.n_steps, self.gamma, self.reward_scale = n_steps, gamma, reward_scale
        self.in_place = False
        """Whether open windows stay in the same memory, as a captured step needs."""
        self._open: TensorDict | None = None

    def rows(self, batch: TensorDictBase) -> TensorDictBase:
        """Rows that close during a batch.

        Args:
            batch: [E, T] from the collector.

        Returns:
            [T * n * E * R] rows; STORED tells which are real.
        """
        steps = [self._step(batch[:, t]) for t in range(batch.shape[1])]
        rows = steps[0] if len(steps) == 1 else torch.cat(steps)
        return rows

    def _step(self, step: TensorDictBase) -> TensorDictBase:
        """Rows [n * E * R] that close in one vector step [E]."""
        group, following = step.get(GROUP), step.get(("next", GROUP))
        active = group.get("mask")
        zeros = torch.zeros_like(following.get("reward").squeeze(-1))
        window = TensorDict(
            {
                "observation": group.get("observation"),
                "action": group.get("action"),
                "reward": zeros,
                "discount": zeros + 1.0,
                STORED: active,
            },
            active.shape,
        )
        # Age k = 0 opens now; the window of age n - 1 closes at the end of this step.
        if self.n_steps == 1:
            windows = window[None]
        elif self._open is None:
            never = window.clone()
            never.set(STORED, torch.zeros_like(active))
            windows = torch.stack([window, *[never] * (self.n_steps - 1)])
        else:
            windows = torch.cat((window[None], self._open[:-1]))

        reward = self.reward_scale * following.get("reward").squeeze(-1)
        windows.set("reward", windows.get("reward") + windows.get("discount") * reward)
        windows.set("discount", windows.get("discount") * self.gamma)
        ended = following.get("done").squeeze(-1)
        age = torch.arange(self.n_steps, device=active.device)[:, None, None]
        closes = windows.get(STORED) & (ended | (age == self.n_steps - 1))

        alive = ~following.get("terminated").squeeze(-1)
        rows = windows.clone(recurse=False)
        rows.set(STORED, closes)
        rows.set("discount", windows.get("discount") * alive)
        rows.set("next_observation", following.get("observation").expand(windows.shape))
        if self.n_steps > 1:
            windows.set(STORED, windows.get(STORED) & ~ended)
            self._keep(windows)
        return rows.reshape(-1)

    def _keep(self, windows: TensorDict) -> None:
        """Remember the open windows."""
        if not self.in_place:
            self._open = windows
        elif self._open is None:
            self._open = windows.clone()
        else:
            self._open.apply(Tensor.copy_, windows)

    def state_dict(self) -> dict[str, Any]:
        """The open windows."""
        return {} if self._open is None else {"open": copied(self._open).to_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore them."""
        self._open = None
        if "open" in state:
            shape: Tensor = state["open"][STORED]
            self._open = TensorDict(state["open"], shape.shape)


def example_row(env: EnvBase, streams: MultiStep) -> TensorDictBase:
    """A row of replay without batch dimensions, for shapes and types.

    Args:
        env: the world; it is not stepped.
        streams: like those that will make the rows; its windows are left alone.
    """
    fresh = MultiStep(streams.n_steps, streams.gamma, streams.reward_scale)
    return fresh.rows(env.fake_tensordict()[:, None])[0].exclude(STORED)


def batch_of(rows: TensorDictBase) -> Batch:
    """Rows drawn from replay, as agents want them."""
    return Batch(
        inputs_of(rows.get("observation")),
        rows.get("action"),
        rows.get("reward"),
        rows.get("discount"),
        inputs_of(rows.get("next_observation")),
        rows.get(WEIGHTS, None),
    )
