"""Collection on a GPU as a CUDA graph, with all state in static tensors.

Policy and world are more than a hundred small kernels, also compiled, which a GPU finishes faster
than Python can start them. Captured, a vector step is one launch: start new episodes where the last
step ended one, act, and step the world. So are all steps of a batch. Before it the reset pool may
be refreshed, in its own memory, by a graph of its own; when this is due is decided on the host.
Batches within which it is due are made step by step.

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
from marinenav_env.captured import Captured
from marinenav_env.compiling import compiled
from marinenav_env.layout import copy_all, copy_in
from marinenav_env.world import WorldState
from train_RL_agents.memory.replay import copied


class GraphCollector:
    """Collects what TorchRL's collector does, draw for draw.

    It holds the environment's state in static tensors. Episodes that ended are reset before the
    next step, not after the last one; ``settle`` starts them at once.

    Args:
        env: the world; collection continues from its present state.
        policy: writes the actions of a step; what else it writes is collected, too. To be compiled
            it also has ``draw_noise``, see PolicyWrapper.
        generators: that policy and world draw from, to capture the step; None runs it as it is.
        say: prints a line if the capture fails.
        steps: vector steps T of a batch.
        compile: whether a whole step becomes one function of generated code.
    """

    def __init__(
        self,
        env: MarineNavEnv,
        policy: Callable[..., TensorDictBase],
        generators: Sequence[torch.Generator] | None = None,
        say: Callable[[str], None] = print,
        steps: int = 1,
        compile: bool = False,
    ) -> None:
        self.env, self.policy, self._count = env, policy, steps
        env.reset()
        now, parameters = env.world_state
        own = parameters.batch_size[0] > 1
        self._world = WorldState(now.clone(), parameters.clone() if own else parameters)
        env.world_state = self._world
        self._over = torch.zeros(env.num_envs, dtype=torch.bool, device=env.generator.device)
        self._ended = False
        self._step: TensorDictBase | None = None
        self._batch: TensorDictBase | None = None
        self._columns: list[list[Tensor]] = []
        self._draws = compile
        device = env.generator.device
        self._make_step = compiled(self._write_step, device) if compile else self._write_step
        self._next = Captured(
            self._next_step, device, generators or (), name="a step of the world",
            capture=generators is not None, say=say,
        )  # fmt: skip
        self._next_batch = Captured(
            self._make_batch, device, generators or (), name="a batch of steps",
            capture=generators is not None, say=say,
        )  # fmt: skip
        self._renew = Captured(
            env.reset_pool.renew, device, [env.generator], say=say,
            name="a refresh of scenarios", capture=generators is not None,
        )  # fmt: skip

    @torch.no_grad()
    def collect(self) -> TensorDictBase:
        """The next vector steps [E, T], always in the same tensors."""
        envs, first = self.env.num_envs, self.env.env_steps
        last = first + (self._count - 1) * envs
        if self._count > 1 and self._ended and not self.env.reset_pool.due_within(first, last):
            for env_steps in range(first, last + 1, envs):
                self._refresh_pool(env_steps)
            self._next_batch()
        else:
            # No graph for a batch whose first step starts no episodes: there are few of these.
            next_step: Callable[[], Any] = self._next if self._ended else self._next_step
            for number in range(self._count):
                self._collect_step(number, next_step)
        self.env.env_steps, self._ended = last + envs, True
        assert self._batch is not None
        return self._batch

    def _collect_step(self, number: int, next_step: Callable[[], Any]) -> None:
        """Make one step of a batch, after a refresh of the pool if one is due."""
        if number or self._ended:
            self._refresh_pool(self.env.env_steps + number * self.env.num_envs)
            next_step()
        else:
            self._write_step(False, *self._drawn())
        self._keep(number)

    def _make_batch(self) -> None:
        """Make all steps of a batch, between which the pool needs no refresh."""
        for number in range(self._count):
            self._next_step()
            self._keep(number)

    def _keep(self, number: int) -> None:
        """Copy the latest step into the batch, if that is of several."""
        if self._count > 1:
            assert self._step is not None
            copy_all(self._columns[number], self._step.values(True, True))

    @torch.no_grad()
    def settle(self) -> None:
        """Start new episodes where the last step ended one: before the world is saved."""
        if self._ended:
            self._refresh_pool(self.env.env_steps)
            self._write(self.env.start_episodes(self._world, self._over))
        self._ended = False

    def _refresh_pool(self, env_steps: int) -> None:
        """Draw new entries of the reset pool when due after so many env-steps."""
        for begin in self.env.reset_pool.due(env_steps):
            self._renew(begin)

    def _next_step(self) -> None:
        """Start new episodes where the last step ended one, and make a step."""
        self._make_step(True, *self._drawn())

    def _drawn(self) -> tuple[Any, ...]:
        """Random numbers of a step that the policy is given; those of the world are by counter."""
        policy: Any = self.policy
        return (policy.draw_noise(self.env.state.active.shape),) if self._draws else ()

    def _write_step(self, starts: bool, *acting: Any) -> None:
        """Act and step the world; writes step and state to the static tensors.

        Args:
            starts: whether episodes start where the last step ended one.
            acting: further arguments of the policy.
        """
        env, world = self.env, self._world
        world = env.start_episodes(world, self._over) if starts else world
        step = self.policy(env.to_tensordict(world), *acting)
        following, outcome = env.advance(world, step.get((GROUP, "action")))
        step.set("next", env.to_tensordict(following, outcome))
        if self._step is None:
            self._allocate(step)
        copy_in(self._step, step)
        self._write(following)
        self._over.copy_(outcome.episode_done)

    def _write(self, world: WorldState) -> None:
        """Write a state to the static one."""
        copy_in(self._world.now, world.now)
        copy_in(self._world.parameters, world.parameters)

    def _allocate(self, step: TensorDictBase) -> None:
        """Make the static step and the batch, of which each column has the layout of the step."""
        self._step = copied(step)
        if self._count == 1:
            self._batch = self._step.unsqueeze(1)
            return
        rows = self._step.expand(self._count, *step.batch_size).apply(_allocated)
        self._columns = [list(row.values(True, True)) for row in rows.unbind(0)]
        self._batch = rows.transpose(0, 1)


def _allocated(expanded: Tensor) -> Tensor:
    """Memory for what was expanded along a new first dimension, one part after another."""
    strides = (expanded[0].numel(), *expanded.stride()[1:])
    return torch.empty_strided(
        expanded.shape, strides, dtype=expanded.dtype, device=expanded.device
    )
