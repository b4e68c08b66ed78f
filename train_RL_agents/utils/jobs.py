"""Commands as processes of their own, at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence

import torch

from train_RL_agents.utils.device import cpu_cores
from train_RL_agents.utils.signals import first_signal


def run_together(commands: Sequence[Sequence[str]]) -> int:
    """Run commands at the same time; a failure of one does not end the others.

    The first Ctrl-C or SIGTERM asks all of them to stop; a second one ends them.

    Args:
        commands: program and arguments of each.

    Returns:
        0, or the exit status of the first one that failed, in their order.
    """
    jobs: list[subprocess.Popen[bytes]] = []
    stopped = threading.Event()

    def stop() -> None:
        stopped.set()
        for job in jobs:
            job.terminate()

    try:
        with first_signal(stop):
            for command, each in zip(commands, shares(len(commands)), strict=True):
                # Sessions of their own: Ctrl-C reaches them once, from here.
                jobs.append(
                    subprocess.Popen(command, env=os.environ | each, start_new_session=True)
                )
                if stopped.is_set():  # while it started
                    stop()
                    break
            statuses = [job.wait() for job in jobs]
    finally:
        for job in jobs:
            if job.poll() is None:
                job.kill()
    for number, status in enumerate(statuses):
        if status < 0:
            print(f"marinenav: job {number} was ended by signal {-status}", file=sys.stderr)
    return next((abs(status) for status in statuses if status), 0)


def shares(jobs: int) -> list[dict[str, str]]:
    """Environment variables that give each of several jobs its share of cores and GPUs."""
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, cpu_cores() // jobs))
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = named.split(",") if named else [str(each) for each in range(count)]
    devices = [{"CUDA_VISIBLE_DEVICES": gpus[job % len(gpus)]} if gpus else {}
               for job in range(jobs)]  # fmt: skip
    return [{"OMP_NUM_THREADS": threads} | each for each in devices]
