"""Compilation of all functions of a run at once, by copies of its process."""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from importlib import import_module
from multiprocessing import get_context
from typing import Any

import torch

from marinenav_env.runtime.kept_code import KeptFunction
from marinenav_env.support import plugins
from train_RL_agents.torchrl_trainer import TorchRLTrainer


def compiling_at_once(trainer: TorchRLTrainer, keep: Callable[..., AbstractContextManager[Any]]) -> Any:
    """Return a context in which all functions are compiled at once if code is missing when the first steps are made.

    ``keep`` is keep_code_in with its folder and packages. A first copy of this process makes an iteration without
    compiled code, and others compile what it calls.
    """
    can_copy = sys.platform == "linux" and not torch.cuda.is_available() and not plugins.allowed_references()
    # A copy has one thread, and cannot call code for a given number of them.
    follows_load = torch.get_num_threads() > 1 and os.environ.get("TORCHINDUCTOR_CPP_DYNAMIC_THREADS") == "1"
    begin = trainer.env_steps if can_copy and follows_load and trainer.config.env.is_built_in else None

    def make(function: KeptFunction, arguments: Any) -> Any:
        nonlocal begin
        if trainer.env_steps != begin:
            return KeptFunction.make(function, arguments)
        begin = None  # what is missing even after that is compiled here
        first = get_context("fork").Process(target=_rehearse, args=(trainer, keep))
        with suppress(OSError), ExitStack() as ending:  # there may be too little memory
            first.start()
            ending.callback(first.kill)
            import_module("torch._inductor.compile_fx")  # meanwhile, as reading code needs it
            first.join(180)  # seconds; more than a minute only where a copy hangs
        return function.read(arguments) or KeptFunction.make(function, arguments)

    return keep(make=make)


def _rehearse(trainer: TorchRLTrainer, keep: Callable[..., AbstractContextManager[Any]]) -> None:
    """Make an iteration in which processes are started that compile its functions."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    import_module("torch._inductor.compile_fx").config.compile_threads = 1
    torch.set_num_threads(1)  # a copy has no others
    torch.compiler.set_stance("force_eager")

    def start(*call: Any) -> bool:
        get_context("fork").Process(target=KeptFunction.make, args=call).start()
        return False  # the first copy calls the function as it is

    with keep(make=start):
        collector, steps = trainer.collector, max(2, trainer.config.trainer.vector_steps)  # the last starts no episode
        trainer.algorithm.add_steps(collector.env.rollout(steps, collector.policy, break_when_any_done=False))
        with torch.enable_grad():  # it is off while steps are made
            trainer.algorithm.update(sys.maxsize)  # ends by an error at once, as the optimiser must be compiled
