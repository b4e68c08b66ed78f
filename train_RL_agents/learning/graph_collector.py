"""Collection on a GPU as CUDA graphs, with all state in static tensors.

Policy and world are many small kernels, even when compiled, which a GPU finishes faster than Python can launch them.
Captured, a vector step is one launch: act, step the world, and reset environments whose episode ended. Before it a
separate graph may refresh the reset pool, in the pool's own memory; the host decides when this is due.

Python scalars are constants in a graph, so none may change from step to step: epsilon is a tensor, and counters are
kept out of the graph.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.collectors import BaseCollector

from marinenav_env import GROUP
from marinenav_env.runtime.execution import Execution
from marinenav_env.runtime.loop import as_stateless_step, copy_tensors
from train_RL_agents.policy_wrapper import MEMORY_KEY, PolicyWrapper


class GraphCollector(BaseCollector):
    """Collector of the same steps as TorchRL's Collector, with the same random numbers, by CUDA graphs.

    The state of the environments is in static tensors; collection continues from the current state of ``env``, whose
    step is a pure function (``make_step``). Entries that the policy writes beside actions are collected, too; to be
    compiled it needs ``draw_noise`` (see PolicyWrapper). The generators are those of policy and world, ``log`` prints a
    line if the capture fails, and a batch has ``steps`` vector steps.
    """

    def __init__(
        self,
        env: Any,
        policy: Callable[..., TensorDictBase],
        generators: Sequence[torch.Generator],
        execution: Execution,
        log: Callable[[str], None] = print,
        steps: int = 1,
    ) -> None:
        super().__init__()
        self.env, self.policy, self.steps = env, policy, steps
        env.reset()
        shape, device = env.state.active.shape, env.generator.device

        def draw_inputs() -> tuple[Any, ...]:
            wrapper: Any = policy
            return (wrapper.draw_noise(shape),) if execution.compile else ()

        memory = None
        if isinstance(policy, PolicyWrapper):
            memory = policy.blank_memory(shape) if policy.memory is None else policy.memory
        self.loop = execution.make_loop(
            self._step,
            (env.world_state, memory),
            device,
            draw_inputs=draw_inputs,
            generators=generators,
            log=log,
            name="a step of the world",
        )
        """Loop that makes vector steps, as a CUDA graph where it can."""
        self.refresh = execution.make_loop(
            as_stateless_step(lambda begin: env.reset_pool.replace(begin)),
            (),
            device,
            generators=[env.generator],
            compile=False,
            log=log,
            name="a refresh of scenarios",
        )
        """Loop that replaces entries of the reset pool by new ones, from a given index on."""
        self._latest: TensorDictBase | None = None
        """Latest step [E] of a captured graph, whose tensors the next step overwrites."""
        self._batch: TensorDictBase
        """View [E, 1] of the latest step, kept so that it is made only once."""

    @property
    def memory(self) -> Tensor | None:
        """Return the memory [E, R, H] of the policy after the latest step; None without any."""
        memory: Tensor | None = self.loop.state[1]
        return memory

    @torch.no_grad()
    def collect(self) -> TensorDictBase:
        """Return the next vector steps [E, T]; a single captured step is always in the same tensors."""
        env, collected = self.env, []
        for _ in range(self.steps):
            env.env_steps += env.num_envs
            for begin in env.reset_pool.due_entries(env.env_steps):
                self.refresh(begin)
            self.loop.state = env.world_state, self.memory  # another state may have been set
            step: TensorDictBase = self.loop()
            env.world_state = self.loop.state[0]
            # The next step of a graph overwrites this one.
            collected.append(copy_tensors(step) if self.steps > 1 and self.loop.captures else step)
        if self.steps > 1:
            return torch.stack(collected, 1)
        if collected[0] is not self._latest:
            self._latest, self._batch = collected[0], collected[0].unsqueeze(1)
        return self._batch

    def set_seed(self, seed: int, static_seed: bool = False) -> int:
        """Seed the world, which draws another reset pool; return the seed for the next world, as EnvBase does."""
        next_seed: Any = self.env.set_seed(seed, static_seed)
        self.loop.reset()
        self.refresh.reset()
        return int(next_seed)

    def iterator(self) -> Iterator[TensorDictBase]:
        """Yield batches without end."""
        while True:
            yield self.collect()

    def shutdown(self, timeout: float | None = None, close_env: bool = True, raise_on_error: bool = True) -> None:
        """Close the world, unless ``close_env`` is false."""
        if close_env:
            self.env.close(raise_if_closed=False)

    def state_dict(self) -> OrderedDict[str, Any]:
        """Return the state of the world under TorchRL's key."""
        return OrderedDict(env_state_dict=self.env.state_dict())

    def load_state_dict(self, state_dict: OrderedDict[str, Any]) -> None:
        """Restore a ``state_dict``; the next batch continues from it."""
        self.env.load_state_dict(state_dict["env_state_dict"])
        self.env.reset()  # returns to the restored state

    def _step(self, state: tuple[Any, Tensor | None], *noise: Any) -> tuple[tuple[Any, Tensor | None], TensorDictBase]:
        """Act and step the world once; return the next states of world and memory, and the step [E]."""
        env, (world, memory) = self.env, state
        # Collected steps must share no memory with the state.
        step = env.to_tensordict(world).apply(Tensor.clone)
        step = self.policy(step if memory is None else step.set(MEMORY_KEY, memory), *noise)
        following, (_, after, _) = env.make_step(world, step.get((GROUP, "action")))
        kept = None if memory is None else step.get(MEMORY_KEY).clone()
        return (following, kept), step.set("next", after)
