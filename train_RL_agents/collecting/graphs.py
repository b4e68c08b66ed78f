"""Collection on a GPU as CUDA graphs, with all state in static tensors.

Policy and world are many small kernels, also compiled, which a GPU finishes faster than Python can
start them. Captured, a vector step is one launch: act, step the world, and start new episodes where
the step ended one. Before it the reset pool may be refreshed, in its own memory, by a graph of its
own; when this is due is decided on the host.

Python scalars are baked into the graph, so none may change from step to step: epsilon is a tensor,
and counters are kept out of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env import GROUP, MarineNavEnv
from marinenav_env.runtime.execution import Execution
from marinenav_env.runtime.loop import copied, stateless
from marinenav_env.state import WorldState
from train_RL_agents.collecting.local import LocalCollector


class GraphCollector(LocalCollector):
    """Collects what LocalCollector does, draw for draw.

    It holds the environment's state in static tensors.

    Args:
        env: the world; collection continues from its present state.
        policy: writes the actions of a step; what else it writes is collected, too. To be compiled
            it also has ``draw_noise``, see PolicyWrapper.
        generators: all that policy and world draw from.
        execution: whether a whole step becomes one function of generated code, and is captured.
        log: prints a line if the capture fails.
        steps: vector steps T of a batch.
    """

    def __init__(
        self,
        env: MarineNavEnv,
        policy: Callable[..., TensorDictBase],
        generators: Sequence[torch.Generator],
        execution: Execution,
        log: Callable[[str], None] = print,
        steps: int = 1,
    ) -> None:
        super().__init__(env, policy, steps)
        env.reset()
        shape, device = env.state.active.shape, env.generator.device

        def draws() -> tuple[Any, ...]:
            acting: Any = policy
            return (acting.draw_noise(shape),) if execution.compile else ()

        self.loop = execution.loop(
            self._step,
            env.world_state,
            device,
            draws=draws,
            generators=generators,
            log=log,
            name="a step of the world",
        )
        """Makes vector steps."""
        self.refresh = execution.loop(
            stateless(lambda begin: env.reset_pool.replace(begin)),
            (),
            device,
            generators=[env.generator],
            compile=False,
            log=log,
            name="a refresh of scenarios",
        )
        """Draws new entries of the reset pool from one on."""
        self._latest: TensorDictBase | None = None
        """The latest step, of which ``_batch`` is another view."""
        self._batch: TensorDictBase

    @torch.no_grad()
    def collect(self) -> TensorDictBase:
        """Return the next vector steps [E, T]; a single one once captured in the same tensors."""
        env, made = self.env, []
        for _ in range(self.steps):
            env.env_steps += env.num_envs
            for begin in env.reset_pool.due(env.env_steps):
                self.refresh(begin)
            self.loop.state = env.world_state  # in case that another one was set
            step: TensorDictBase = self.loop()
            env.world_state = self.loop.state
            # The next step of a graph overwrites this one.
            made.append(copied(step) if self.steps > 1 and self.loop.captures else step)
        if self.steps > 1:
            return torch.stack(made, 1)
        if made[0] is not self._latest:
            self._latest, self._batch = made[0], made[0].unsqueeze(1)
        return self._batch

    def set_seed(self, seed: int, static_seed: bool = False) -> int:
        """Seed the world, which gets another pool of scenarios; see LocalCollector."""
        following = super().set_seed(seed, static_seed)
        self.loop.reset()
        self.refresh.reset()
        return following

    def _step(self, world: WorldState, *noise: Any) -> tuple[WorldState, TensorDictBase]:
        """Act and step the world: what the next step starts from, and TorchRL's keys."""
        env = self.env
        # What is collected shares no memory with the state.
        step = self.policy(env.to_tensordict(world).apply(Tensor.clone), *noise)
        following, (_, after, _) = env.make_step(world, step.get((GROUP, "action")))
        return following, step.set("next", after)
