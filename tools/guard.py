"""Hashes of short training runs: the same before and after a change that keeps behaviour.

Every agent trains 60,000 env-steps on the CPU with one thread, without compilation and with a fixed
seed. One line an agent gives hashes of the final weights, the evaluations and the replay buffer, if
there is one. Hashes depend on the processor and on the version of torch, so compare lines printed
on the same machine:

    python tools/guard.py --out before.json
    python tools/guard.py --against before.json
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
STEPS = 60_000
SETTINGS = (
    f"total_timesteps={STEPS}", f"eval_freq={STEPS // 2}", "device=cpu", "threads=1",
    "compile=false", "seed=3", "draw_evaluations=false", "monitor=false",
    "eval_schedule.num_episodes=2,2,2,2,2,2",
)  # fmt: skip
OFF_POLICY = ("trainer.learning_starts=10000",)
ON_POLICY = ("trainer.num_envs=64", "trainer.rollout_steps=32", "trainer.batch_size=1024")
AGENTS = {
    "AC-IQN": OFF_POLICY, "IQN": OFF_POLICY, "DDPG": OFF_POLICY, "DQN": OFF_POLICY,
    "SAC": OFF_POLICY, "Rainbow": OFF_POLICY, "PPO": ON_POLICY, "A2C": ON_POLICY,
}  # fmt: skip
TIMES = ("train_time", "wall_time")


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in nested containers."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors(each)


def digest(parts: list[bytes]) -> str:
    """Hash of parts whatever their order, so that renaming keys does not change it."""
    hashes = sorted(hashlib.sha256(part).digest() for part in parts)
    return hashlib.sha256(b"".join(hashes)).hexdigest()[:12]


def content(tensor: torch.Tensor) -> bytes:
    """Type, shape and bytes of a tensor."""
    flat = tensor.contiguous().reshape(-1).view(torch.uint8)
    return f"{tensor.dtype} {list(tensor.shape)} ".encode() + flat.numpy().tobytes()


def hashes(run: Path) -> dict[str, str]:
    """Hashes of what a run folder holds.

    Args:
        run: folder of a finished run.
    """
    folder = run / "checkpoints"
    manifest = json.loads((folder / "manifest.json").read_text())
    policy = torch.load(folder / manifest["latest"], weights_only=True)
    state = torch.load(folder / "training_state.pt", weights_only=True)
    with (run / "evaluations.csv").open() as stream:
        rows = [{k: v for k, v in row.items() if k not in TIMES} for row in csv.DictReader(stream)]
    found = {
        "weights": digest([content(each) for each in tensors(policy["weights"])]),
        "evaluations": digest([json.dumps(rows, sort_keys=True).encode()]),
    }
    if "replay" in state:
        rows = [content(each) for each in tensors(state["replay"]) if each.numel() > 1]
        found["memory"] = digest(rows)
    return found


def train(agent: str, parent: Path) -> dict[str, str]:
    """Train an agent in a process of its own; returns its hashes."""
    command = [
        sys.executable, "-m", "train_RL_agents", "train", "--quiet", "-C",
        str(ROOT / "configs" / f"{agent.lower().replace('-', '_')}.json"),
        *SETTINGS, *AGENTS[agent], f"save_dir={parent}",
    ]  # fmt: skip
    if not Path(command[6]).is_file():
        command[5:7] = [f"agent_type={agent}"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return hashes(next(parent.glob("*/seed_*")))


def main() -> int:
    """Train, print, and compare if asked to; returns 1 where a hash differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=list(AGENTS))
    parser.add_argument("--out", type=Path, help="write the hashes to this file")
    parser.add_argument("--against", type=Path, help="compare with the hashes in this file")
    arguments = parser.parse_args()
    known = json.loads(arguments.against.read_text()) if arguments.against else {}
    found, differing = {}, 0
    for agent in arguments.agents:
        with tempfile.TemporaryDirectory() as folder:
            found[agent] = train(agent, Path(folder))
        words = []
        for name, value in found[agent].items():
            same = agent not in known or known[agent].get(name) == value
            differing += not same
            words.append(f"{name} {value}" + ("" if same else " DIFFERS"))
        print(f"{agent:8} {'  '.join(words)}", flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(found, indent=1))
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
