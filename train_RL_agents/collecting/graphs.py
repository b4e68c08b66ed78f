"""Collection with all state in tensors that stay where they are, to be captured as CUDA graphs.

Policy, world and insertion into replay are more than a hundred small kernels, also compiled, which
a GPU finishes faster than Python can start them. Captured, a vector step is two launches: act, step
and store; then start new episodes. Between the two, on the host, the pool of starts may be
refreshed, in its own memory.

What Python numbers decide is fixed at the capture, so none may change from step to step: epsilon
and the exponent of the importance weights are tensors, counters are kept out of the graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from tensordict import TensorDictBase

from marinenav_env import MarineNavEnv
from marinenav_env.layout import copy_in
from train_RL_agents.memory.host import HostReplay
from train_RL_agents.memory.replay import Replay
from train_RL_agents.memory.ring import copied
from train_RL_agents.memory.transitions import MultiStep
from train_RL_agents.utils.captured import Captured


class InPlaceCollector:
    """Collects what the Collector does, draw for draw, and stores it itself.

    Args:
        env: the world; it goes on from its present state.
        policy: acts.
        streams: make the rows.
        replay: takes them; outside the graph if it is on the host. None: nothing is stored.
        generators: that policy and world draw from, to capture the step; None runs it as it is.
        say: where to say so if the capture fails.
    """

    def __init__(
        self,
        env: MarineNavEnv,
        policy: Callable[[TensorDictBase], TensorDictBase],
        streams: MultiStep,
        replay: Replay | HostReplay | None,
        generators: Sequence[torch.Generator] | None = None,
        say: Callable[[str], None] = print,
    ) -> None:
        self.env, self.policy, self.streams, self.replay = env, policy, streams, replay
        self.streams.in_place = True
        self._carrier: TensorDictBase = copied(env.reset())
        env.hold()
        self._rows: TensorDictBase | None = None
        self._step, self._start = (
            Captured(
                function, env.generator.device, generators or (),
                name=name, capture=generators is not None, say=say,
            )
            for function, name in (
                (self._step_and_store, "a step of the world"),
                (self._start_anew, "the start of episodes"),
            )
        )  # fmt: skip

    @torch.no_grad()
    def step(self) -> None:
        """One vector step of the world, stored."""
        env_steps = self.env.env_steps + self.env.num_envs
        self._step()
        self.env.env_steps = env_steps  # a replayed step leaves Python's counters alone
        if self.replay is not None and self._rows is not None:
            self.replay.extend(self._rows)
        self.env.refresh_starts()
        self._start()

    def _step_and_store(self) -> None:
        """Act, move the world, and store the rows that close."""
        self.env.hold()
        step = self.env.step(self.policy(self._carrier.clone(recurse=False)))
        if self.replay is not None:
            self._store(self.replay, self.streams.rows(step.unsqueeze(1)))
        self.env.settle()
        copy_in(self._carrier, step.get("next"))

    def _store(self, replay: Replay | HostReplay, rows: TensorDictBase) -> None:
        """Insert rows, or hand them to ``step`` for a replay that is not on the device."""
        if replay.on_device:
            replay.extend(rows)
        elif self._rows is None:
            self._rows = copied(rows)
        else:
            copy_in(self._rows, rows)

    def _start_anew(self) -> None:
        """Start new episodes where one is over."""
        self.env.hold()
        fresh = self.env.reset_done(self._carrier.clone(recurse=False))
        self.env.settle()
        copy_in(self._carrier, fresh)
