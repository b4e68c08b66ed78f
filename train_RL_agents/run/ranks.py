"""Training of one agent by several processes: what each holds, and how they synchronise.

``torchrun`` starts the same program several times; each copy is a *rank*. Settings are totals: a
rank has its share of the environments, of the replay buffer and of every batch, gradients are
averaged over the ranks, and env-steps are counted over all of them. All ranks take the same steps
in the same order, so they hold the same weights; the first one evaluates, logs and writes.

In a single process every method here returns at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from marinenav_env.support.validation import ConfigError, is_count, require
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.run.checkpoint import STATE, TRAINING, read_checked
from train_RL_agents.utils.device import cpu_cores, cpu_threads, resolve_device
from train_RL_agents.utils.files import inside, write_atomically

Made = TypeVar("Made")

_CPU = torch.device("cpu")
_SEED_STRIDE = 1_000_000_007
"""Between the seeds of ranks; odd, as CPU generators look at the lower 32 bits of a seed only."""
_BAD_INPUT = 2


@contextmanager
def joined() -> Iterator[None]:
    """Within it, the processes that torchrun started are connected; else nothing happens."""
    if not (dist.is_available() and dist.is_torchelastic_launched()) or _world_size() == 1:
        yield
        return
    # What is said from rank to rank lies on the CPU, gradients on the device.
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


def _world_size() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


class Ranks:
    """This process among those that train together."""

    def __init__(self) -> None:
        several = dist.is_available() and dist.is_initialized()
        self.rank = dist.get_rank() if several else 0
        self.size = dist.get_world_size() if several else 1
        self._here = int(os.environ.get("LOCAL_WORLD_SIZE", self.size)) if several else 1
        self._local = int(os.environ.get("LOCAL_RANK", self.rank)) if several else 0

    @property
    def is_main(self) -> bool:
        """Whether this is the first: it evaluates, logs and writes for all."""
        return self.rank == 0

    # What a rank holds --------------------------------------------------------------------------

    def share(self, config: TrainConfig[Any]) -> TrainConfig[Any]:
        """The configuration of this rank's part.

        Raises:
            ConfigError: when a total cannot be divided.
        """
        if self.size == 1:
            return config
        settings = config.trainer
        parts: dict[str, Any] = {}
        for name in settings.shared:
            total = getattr(settings, name)
            require(
                total % self.size == 0, f"trainer.{name}", total, f"a multiple of {self.size}, the number of processes"
            )
            parts[name] = total // self.size
        # A world counts its own steps, so its levels begin after its share of the steps.
        levels = tuple(
            replace(level, starts_at=-(-level.starts_at // self.size)) for level in config.training_schedule.levels
        )
        schedule = replace(config.training_schedule, levels=levels)
        return replace(config, trainer=replace(settings, **parts), training_schedule=schedule)

    def seed(self, seed: int) -> int:
        """This rank's seed of everything but the first weights; the run's own on the first."""
        return seed + _SEED_STRIDE * self.rank

    def device(self, name: str) -> torch.device:
        """The device of this rank: on a machine with GPUs, one for each.

        Raises:
            ConfigError: when there is none.
        """
        if self.size > 1:
            require(
                name in ("auto", "cpu", "cuda"),
                "execution.device",
                name,
                "auto, cpu or cuda with several processes, each has its own",
            )
            if name != "cpu" and torch.cuda.is_available():
                name = f"cuda:{self._local}"
        device = resolve_device(name, "execution.device")
        if device.type == "cuda":
            # Streams, events and generators are those of the current device where none is named.
            torch.cuda.set_device(device)
        return device

    def threads(self, wanted: int) -> int:
        """CPU threads of this process: as many as wanted, or (0) its share of the cores.

        A process that is alone takes those that are idle, see cpu_threads.
        """
        if wanted or self.size == 1:
            return cpu_threads(wanted)
        # torchrun sets OMP_NUM_THREADS itself, to 1.
        return max(1, cpu_cores() // self._here)

    def command(self) -> list[str]:
        """First words of a command line that resumes this run with as many processes."""
        if self.size == 1:
            return ["marinenav"]
        hosts = self.size // self._here
        several = ["--nnodes", str(hosts)] if hosts > 1 else []
        count = ["--nproc-per-node", str(self._here)]
        return ["torchrun", *several, *count, "-m", "train_RL_agents"]

    # Where ranks meet ---------------------------------------------------------------------------

    def average(self, tensor: Tensor) -> None:
        """Replace a tensor by its mean over the ranks."""
        if self.size > 1:
            dist.all_reduce(tensor)
            tensor.div_(self.size)

    def any(self, flag: bool) -> bool:
        """Whether a flag is true on any rank; every rank gets the same answer."""
        if self.size == 1:
            return flag
        raised = torch.tensor(int(flag))
        dist.all_reduce(raised, op=dist.ReduceOp.MAX)
        return bool(raised)

    def mean(self, values: dict[str, float]) -> dict[str, float]:
        """Means over the ranks of scalars that have the same names on all."""
        if self.size == 1:
            return values
        total = torch.tensor(list(values.values()), dtype=torch.float64)
        dist.all_reduce(total)
        return dict(zip(values, (total / self.size).tolist(), strict=True))

    def copy_first(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite tensors with those of the first rank."""
        if self.size > 1:
            for each in tensors:
                dist.broadcast(each, 0)

    @contextmanager
    def barrier(self) -> Iterator[None]:
        """Leave when all ranks have come to the end; what stops one stops all, with one sentence.

        Raises:
            ConfigError: on the first rank, when there was one on any.
            SystemExit: on the others then, as the first one speaks for all.
        """
        if self.size == 1:
            yield
            return
        mine = None
        try:
            yield
        except ConfigError as error:
            mine = str(error)
        everyone: list[str | None] = [None] * self.size
        dist.all_gather_object(everyone, mine)
        first = next((each for each in everyone if each is not None), None)
        if first is not None:
            raise ConfigError(first) if self.is_main else SystemExit(_BAD_INPUT)

    def broadcast(self, make: Callable[[], Made]) -> Made:
        """Broadcast an object from the first rank."""
        with self.barrier():
            made = [make() if self.is_main else None]
        if self.size > 1:
            dist.broadcast_object_list(made, device=_CPU)
        result: Any = made[0]
        return result

    # Saving -------------------------------------------------------------------------------------

    def _state_file(self, folder: Path, env_steps: int) -> Path:
        """Where this rank's state is saved; the first one's file tells which of the others fit."""
        own = f"{Path(STATE).stem}_rank{self.rank}_{env_steps:012d}.pt"
        return inside(folder.parent, f"{folder.name}/{STATE if self.is_main else own}")

    def write_state(self, folder: Path, state: dict[str, Any]) -> None:
        """Write the states of all ranks so that at any moment those of one step are there.

        The first rank's file replaces the last one when those of the others are complete; these
        have the env-steps in their names, and go when they are not needed any more.
        """
        file = self._state_file(folder, state["env_steps"])
        with self.barrier():
            if not self.is_main:
                write_atomically(file, state, own=True)
        with self.barrier():
            if self.is_main:
                write_atomically(file, state, own=True)
        if not self.is_main:
            for other in folder.glob(f"{Path(STATE).stem}_rank{self.rank}_*.pt"):
                if other != file:
                    other.unlink(missing_ok=True)

    def read_state(self, folder: Path, device: torch.device) -> dict[str, Any]:
        """Read this rank's part of what write_state wrote.

        Raises:
            ConfigError: when it is missing, damaged, or of another number of ranks.
        """
        state: dict[str, Any] = {}
        with self.barrier():
            if self.is_main:
                path = self._state_file(folder, 0)
                state = read_checked(path, TRAINING, device)
                state = {"ranks": 1} | state  # those of before do not say
                for name in ("env_steps", "ranks"):
                    value = state.get(name)
                    require(is_count(value), f"{path}: {name}", value, "a whole number")
                self._require_as_many(path, state["ranks"])
        env_steps = self.broadcast(lambda: int(state["env_steps"]))
        with self.barrier():
            if not self.is_main:
                state = read_checked(self._state_file(folder, env_steps), TRAINING, device)
        return state

    def _require_as_many(self, path: Path, ranks: int) -> None:
        if ranks != self.size:
            start = "marinenav" if ranks == 1 else f"torchrun with {ranks} of them"
            raise ConfigError(
                f"{path}: saved by {_processes(ranks)}, so it cannot be resumed by "
                f"{_processes(self.size)}; start it with {start}"
            )


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"
