"""Collection on a GPU as CUDA graphs, with all state in tensors that stay where they are.

Policy and world are more than a hundred small kernels, also compiled, which a GPU finishes faster
than Python can start them. Captured, a vector step is two launches: start episodes where the last
ones are over; act and step. Between steps, on the host, the pool of reset states may be refreshed,
in its own memory.

Python scalars are baked into the graph, so none may change from step to step: epsilon is a tensor,
counters are kept out of the graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from tensordict import TensorDictBase

from marinenav_env import MarineNavEnv
from marinenav_env.layout import copy_in
from train_RL_agents.memory.ring import copied
from train_RL_agents.utils.captured import Captured


class GraphCollector:
    """Collects what TorchRL's collector does, draw for draw.

    Args:
        env: the world; it goes on from its present state.
        policy: acts.
        generators: that policy and world draw from, to capture the step; None runs it as it is.
        say: prints a line if the capture fails.
    """

    def __init__(
        self,
        env: MarineNavEnv,
        policy: Callable[[TensorDictBase], TensorDictBase],
        generators: Sequence[torch.Generator] | None = None,
        say: Callable[[str], None] = print,
    ) -> None:
        self.env, self.policy = env, policy
        self._carrier: TensorDictBase = copied(env.reset())
        self._ended = False
        env.hold()
        self._step, self._restart = (
            Captured(
                function, env.generator.device, generators or (),
                name=name, capture=generators is not None, say=say,
            )
            for function, name in (
                (self._act_and_step, "a step of the world"),
                (self._start_episodes, "the start of episodes"),
            )
        )  # fmt: skip

    @torch.no_grad()
    def collect(self) -> TensorDictBase:
        """The next vector step [E, 1]; once captured, always in the same tensors."""
        self.settle()
        env_steps = self.env.env_steps + self.env.num_envs
        step: TensorDictBase = self._step()
        self.env.env_steps = env_steps  # a replayed step leaves Python's counters alone
        self._ended = True
        return step

    @torch.no_grad()
    def settle(self) -> None:
        """Start new episodes where the last step ended one: before the next step, or saving."""
        if self._ended:
            self.env.refresh_starts()
            self._restart()
            self._ended = False

    def _act_and_step(self) -> TensorDictBase:
        """Act and move the world."""
        self.env.hold()
        step = self.env.step(self.policy(self._carrier.clone(recurse=False)))
        self.env.settle()
        following = step.get("next")
        # The step is read after the carrier has moved on: it needs an observation of its own.
        result = step.update(copied(self._carrier)).set("next", following).unsqueeze(1)
        copy_in(self._carrier, following)
        return result

    def _start_episodes(self) -> None:
        """Start new episodes where one is over."""
        self.env.hold()
        fresh = self.env.reset_done(self._carrier.clone(recurse=False))
        self.env.settle()
        copy_in(self._carrier, fresh)
