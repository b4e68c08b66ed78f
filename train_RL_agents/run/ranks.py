"""Training of one agent by several processes: division of settings, and synchronisation.

``torchrun`` starts the same program several times; every process is a *rank*. Settings are totals: a rank has its
share of the environments, of the replay buffer and of every batch, gradients are averaged over the ranks, and
env-steps are counted over all of them. All ranks make the same steps in the same order, so they have the same weights;
the first rank evaluates, logs and saves.

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

from marinenav_env.support.validation import ConfigError, is_nonnegative_int, require
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.run.checkpoint import STATE_FILE, TRAINING_FORMAT, read_checkpoint
from train_RL_agents.utils.device import resolve_device
from train_RL_agents.utils.files import write_atomically
from train_RL_agents.utils.threads import cpu_cores

ResultType = TypeVar("ResultType")

_CPU = torch.device("cpu")
_SEED_STRIDE = 1_000_000_007
"""Difference of the seeds of ranks; odd, as CPU generators use only the lower 32 bits of a seed."""
_BAD_INPUT_STATUS = 2


@contextmanager
def process_group() -> Iterator[None]:
    """Connect the processes that torchrun started in this context; do nothing in a single process."""
    is_launched = dist.is_available() and dist.is_torchelastic_launched()
    if not is_launched or os.environ.get("WORLD_SIZE", "1") == "1":
        yield
        return
    # Messages between ranks are on the CPU, gradients on the device.
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


class Ranks:
    """Communication of this process with the other ranks of the same training; a single process is rank 0 of 1."""

    def __init__(self) -> None:
        several = dist.is_available() and dist.is_initialized()
        self.rank = dist.get_rank() if several else 0
        """Number of this process, from 0."""
        self.size = dist.get_world_size() if several else 1
        self.local_size = int(os.environ.get("LOCAL_WORLD_SIZE", self.size)) if several else 1
        """Number of ranks on this host."""
        self._local = int(os.environ.get("LOCAL_RANK", self.rank)) if several else 0

    @property
    def is_main(self) -> bool:
        """Return whether this is the first rank, which evaluates, logs and saves for all."""
        return self.rank == 0

    # Division of settings ------------------------------------------------------------------------

    def rank_config(self, config: TrainConfig[Any]) -> TrainConfig[Any]:
        """Return the configuration of this rank, which has its shares of the totals."""
        if self.size == 1:
            return config
        settings = config.trainer
        shares: dict[str, Any] = {}
        for name in settings.divided_settings:
            total = getattr(settings, name)
            allowed = f"a multiple of {self.size}, the number of processes"
            require(total % self.size == 0, f"trainer.{name}", total, allowed)
            shares[name] = total // self.size
        # The world of a rank counts its own steps, so its levels start after its share of the steps.
        schedule = config.training_schedule
        levels = tuple(replace(level, starts_at=-(-level.starts_at // self.size)) for level in schedule.levels)
        trainer = replace(settings, **shares)
        return replace(config, trainer=trainer, training_schedule=replace(schedule, levels=levels))

    def rank_seed(self, seed: int) -> int:
        """Return this rank's seed for everything except the initial weights; the first rank uses the run's seed."""
        return seed + _SEED_STRIDE * self.rank

    def rank_device(self, name: str) -> torch.device:
        """Return the device of this rank: on a machine with GPUs, one for every rank."""
        if self.size > 1 and name != "cpu" and torch.cuda.is_available():
            name = f"cuda:{self._local}"
        device = resolve_device(name, "execution.device")
        if device.type == "cuda":
            # Streams, events and generators without an explicit device use the current one.
            torch.cuda.set_device(device)
        return device

    def num_threads(self, wanted: int) -> int:
        """Return the number of CPU threads of this process: the given number, or 0 where it follows the load."""
        # The share is computed here, because torchrun sets OMP_NUM_THREADS to 1.
        return wanted if wanted or self.size == 1 else max(1, len(cpu_cores()) // self.local_size)

    def launch_command(self) -> list[str]:
        """Return the beginning of a command line that resumes this run with the same number of processes."""
        if self.size == 1:
            return ["marinenav"]
        hosts = self.size // self.local_size
        several = ["--nnodes", str(hosts)] if hosts > 1 else []
        count = ["--nproc-per-node", str(self.local_size)]
        return ["torchrun", *several, *count, "-m", "train_RL_agents"]

    # Synchronisation -----------------------------------------------------------------------------

    def average_tensor(self, tensor: Tensor) -> None:
        """Replace a tensor in place by its mean over the ranks."""
        if self.size > 1:
            dist.all_reduce(tensor)
            tensor.div_(self.size)

    def any_rank(self, flag: bool) -> bool:
        """Return whether a flag is true on any rank; the result is the same on every rank."""
        if self.size == 1:
            return flag
        raised = torch.tensor(int(flag))
        dist.all_reduce(raised, op=dist.ReduceOp.MAX)
        return bool(raised)

    def average_scalars(self, values: dict[str, float]) -> dict[str, float]:
        """Return the means over the ranks of scalars by name; all ranks must have the same names."""
        if self.size == 1:
            return values
        total = torch.tensor(list(values.values()), dtype=torch.float64)
        dist.all_reduce(total)
        return dict(zip(values, (total / self.size).tolist(), strict=True))

    def broadcast_tensors(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite tensors on the other ranks with the corresponding tensors of the first rank."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0)

    @contextmanager
    def barrier(self) -> Iterator[None]:
        """Wait at the end of the context until all ranks reach it; a ConfigError on one rank stops them all."""
        if self.size == 1:
            yield
            return
        message = None
        try:
            yield
        except ConfigError as error:
            message = str(error)
        messages: list[str | None] = [None] * self.size
        dist.all_gather_object(messages, message)
        first = next((text for text in messages if text is not None), None)
        if first is not None:
            raise ConfigError(first) if self.is_main else SystemExit(_BAD_INPUT_STATUS)

    def broadcast_result(self, make: Callable[[], ResultType]) -> ResultType:
        """Call a function on the first rank only, and return its result on all ranks."""
        with self.barrier():
            objects = [make() if self.is_main else None]
        if self.size > 1:
            dist.broadcast_object_list(objects, device=_CPU)
        result: Any = objects[0]
        return result

    # Saving --------------------------------------------------------------------------------------

    def _state_file(self, folder: Path, env_steps: int) -> Path:
        """Return the file of this rank's training state; except on the first rank, its name has the env-steps."""
        rank_file = f"{Path(STATE_FILE).stem}_rank{self.rank}_{env_steps:012d}.pt"
        return folder / (STATE_FILE if self.is_main else rank_file)

    def write_state(self, folder: Path, state: dict[str, Any]) -> None:
        """Write the training state of this rank; a complete set of files from one step exists at any moment.

        The first rank's file is replaced when the files of the other ranks are complete; these have the env-steps in
        their names, and the old ones are deleted afterwards.
        """
        file = self._state_file(folder, state["env_steps"])
        with self.barrier():
            if not self.is_main:
                write_atomically(file, state, replace_input=True)
        with self.barrier():
            if self.is_main:
                write_atomically(file, state, replace_input=True)
        if not self.is_main:
            for other in folder.glob(f"{Path(STATE_FILE).stem}_rank{self.rank}_*.pt"):
                if other != file:
                    other.unlink(missing_ok=True)

    def read_state(self, folder: Path, device: torch.device) -> dict[str, Any]:
        """Return the training state of this rank that write_state saved last."""
        state: dict[str, Any] = {}
        with self.barrier():
            if self.is_main:
                path = self._state_file(folder, 0)
                state = read_checkpoint(path, TRAINING_FORMAT, device)
                for name in ("env_steps", "ranks"):
                    value = state.get(name)
                    require(is_nonnegative_int(value), f"{path}: {name}", value, "a whole number")
                allowed = f"{state['ranks']}, as many as saved it; torchrun starts several"
                require(state["ranks"] == self.size, f"{path}: processes", self.size, allowed)
        env_steps = self.broadcast_result(lambda: int(state["env_steps"]))
        with self.barrier():
            if not self.is_main:
                state = read_checkpoint(self._state_file(folder, env_steps), TRAINING_FORMAT, device)
        return state
