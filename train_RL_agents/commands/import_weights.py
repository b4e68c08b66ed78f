"""Turn published weights into a policy file that evaluates like any other."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("file", metavar="FILE", type=Path,
        help="weights of the network that acts, by layer name: arrays (.npz) or a PyTorch state "
        "dict (.pt, .pth)")  # fmt: skip
    add("--agent", metavar="NAME", required=True, help="whose they are: AC-IQN, IQN, DDPG, DQN or "
        "SAC (the layers of AC-IQN and DDPG are alike)")  # fmt: skip
    add("--out", metavar="POLICY", type=Path, required=True, help="policy file to write; a new one")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from marinenav_env.validation import require
    from train_RL_agents.exporting.published import (
        NOTE,
        import_agent,
        published_config,
        read_weights,
    )
    from train_RL_agents.run.checkpoint import save_policy

    out: Path = arguments.out
    require(not out.exists(), "--out", str(out), "a new file")
    config = published_config(arguments.agent)
    agent = import_agent(arguments.agent, read_weights(arguments.file), arguments.file)
    note = f"imported from {arguments.file.name}: {NOTE}"
    save_policy(out, agent, config, 0, {"note": note})
    print(f"{out}: {arguments.agent}, {note}")
    return 0
