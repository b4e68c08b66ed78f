"""Collection on a GPU as a CUDA graph, with all state in static tensors.

Policy and world are many small kernels, also compiled, which a GPU finishes faster than Python can
start them. Captured, a vector step is one launch: act, step the world, and start new episodes where
the step ended one. So are all steps of a batch. Before it the reset pool may be refreshed, in its
own memory, by a graph of its own; when this is due is decided on the host. Batches within which it
is due are made step by step.

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
from marinenav_env.runtime.captured import Captured
from marinenav_env.runtime.compiling import compiled
from marinenav_env.runtime.layout import copy_all, copy_in
from marinenav_env.stepping.world import WorldState
from train_RL_agents.collecting.local import LocalCollector
from train_RL_agents.memory.replay import copied


class GraphCollector(LocalCollector):
    """Collects what LocalCollector does, draw for draw.

    It holds the environment's state in static tensors.

    Args:
        env: the world; collection continues from its present state.
        policy: writes the actions of a step; what else it writes is collected, too. To be compiled
            it also has ``draw_noise``, see PolicyWrapper. It is called once more than steps are
            collected.
        generators: all that policy and world draw from.
        say: prints a line if the capture fails.
        steps: vector steps T of a batch.
        compile: whether a whole step becomes one function of generated code.
        capture: whether steps are captured.
    """

    def __init__(
        self,
        env: MarineNavEnv,
        policy: Callable[..., TensorDictBase],
        generators: Sequence[torch.Generator],
        say: Callable[[str], None] = print,
        steps: int = 1,
        compile: bool = False,
        capture: bool = True,
    ) -> None:
        super().__init__(env, policy, steps)
        self._draws, device = compile, env.generator.device
        env.reset()
        self._step = self._blank_step(generators)
        self._columns: list[list[Tensor]] = []
        self._batch = self._step.unsqueeze(1) if steps == 1 else self._blank_batch()
        now, parameters = env.world_state
        own = parameters.batch_size[0] > 1
        self._world = WorldState(now.clone(), parameters.clone() if own else parameters)
        env.world_state = self._world
        self._write_step, self._write_world = self._written_step, self._written_world
        if compile:
            self._write_step = compiled(self._written_step, device)
            self._write_world = compiled(self._written_world, device)
        self._next = Captured(
            self._next_step, device, generators, name="a step of the world", capture=capture,
            say=say,
        )  # fmt: skip
        self._next_batch = Captured(
            self._make_batch, device, generators, name="a batch of steps", capture=capture, say=say
        )
        self._renew = Captured(
            env.reset_pool.renew, device, [env.generator], say=say,
            name="a refresh of scenarios", capture=capture,
        )  # fmt: skip

    @torch.no_grad()
    def collect(self) -> TensorDictBase:
        """Return the next vector steps [E, T], always in the same tensors."""
        envs, pool = self.env.num_envs, self.env.reset_pool
        first = self.env.env_steps + envs
        last = first + (self.steps - 1) * envs
        if self.steps > 1 and not pool.due_within(first, last):
            for env_steps in range(first, last + 1, envs):
                self._refresh_pool(env_steps)
            self._next_batch()
        else:
            for number in range(self.steps):
                self._refresh_pool(first + number * envs)
                self._next()
                self._keep(number)
        self.env.env_steps = last
        return self._batch

    def _make_batch(self) -> None:
        """Make all steps of a batch, between which the pool needs no refresh."""
        for number in range(self.steps):
            self._next_step()
            self._keep(number)

    def _keep(self, number: int) -> None:
        """Copy the latest step into the batch, if that is of several."""
        if self.steps > 1:
            copy_all(self._columns[number], self._step.values(True, True))

    def _refresh_pool(self, env_steps: int) -> None:
        """Draw new entries of the reset pool when due after so many env-steps."""
        for begin in self.env.reset_pool.due(env_steps):
            self._renew(begin)

    def _next_step(self) -> None:
        """Make a step, with the random numbers that the policy is given."""
        following = self._write_step(self._world, *self._drawn())
        self._write_world(following)

    def _drawn(self) -> tuple[Any, ...]:
        """Random numbers of a step that the policy is given; those of the world are by counter."""
        policy: Any = self.policy
        return (policy.draw_noise(self.env.state.active.shape),) if self._draws else ()

    def _written_step(self, world: WorldState, *acting: Any) -> WorldState:
        """Make a step, write it to its static tensors and return what the next starts from.

        That is written to the static state by another function: torch 2.11 generates wrong code for
        one that writes what it also reads.

        Args:
            world: before the step.
            acting: further arguments of the policy.
        """
        step, following = self._stepped(world, *acting)
        copy_in(self._step, step)
        return following

    def _written_world(self, following: WorldState) -> None:
        """Write a state to the static one."""
        copy_in(self._world.now, following.now)
        if following.parameters is not self._world.parameters:
            copy_in(self._world.parameters, following.parameters)

    def _stepped(self, world: WorldState, *acting: Any) -> tuple[TensorDictBase, WorldState]:
        """Act and step the world: the step under TorchRL's keys, and what the next starts from."""
        env = self.env
        step = self.policy(env.to_tensordict(world), *acting)
        made = env.step_and_reset(world, step.get((GROUP, "action")), env.next_source())
        return step.set("next", made.step), made.world

    @torch.no_grad()
    def _blank_step(self, generators: Sequence[torch.Generator]) -> TensorDictBase:
        """Memory for a step, of the layout of one that is made and undone.

        It is not compiled, which would take time for code that is used once.
        """
        before = [each.get_state() for each in generators]
        try:
            with self.env.undone(), torch.compiler.set_stance("force_eager"):
                step, _ = self._stepped(self.env.world_state, *self._drawn())
        finally:
            for each, state in zip(generators, before, strict=True):
                each.set_state(state)
        return copied(step)

    def _blank_batch(self) -> TensorDictBase:
        """Memory for several steps, of which each has the layout of one."""
        rows = self._step.expand(self.steps, *self._step.batch_size).apply(_allocated)
        self._columns = [list(row.values(True, True)) for row in rows.unbind(0)]
        return rows.transpose(0, 1)


def _allocated(expanded: Tensor) -> Tensor:
    """Memory for what was expanded along a new first dimension, one part after another."""
    strides = (expanded[0].numel(), *expanded.stride()[1:])
    return torch.empty_strided(
        expanded.shape, strides, dtype=expanded.dtype, device=expanded.device
    )
