"""Convert published weights to a policy file that can be evaluated like any other."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``marinenav import`` to its parser."""
    add = parser.add_argument
    kinds = "published TorchScript file, or weights by layer name: arrays (.npz) or a state dict (.pt, .pth)"
    add("file", metavar="FILE", type=Path, help=kinds)
    agents = "AC-IQN, IQN, DDPG, DQN or SAC; needed where layers and names do not tell AC-IQN from DDPG"
    add("--agent", metavar="NAME", default="", help=agents)
    add("--out", metavar="POLICY", type=Path, required=True, help="new policy file to write, or a folder for policy.pt")


def run(arguments: argparse.Namespace) -> int:
    """Run ``marinenav import``, and return its exit status."""
    from marinenav_env.support.files import require_writable_folder, require_writable_outputs
    from marinenav_env.support.validation import require
    from train_RL_agents.run.checkpoint import SHIPPED_POLICY_FILE, save_policy
    from train_RL_agents.run.published import import_policy
    from train_RL_agents.utils.files import make_folder

    out: Path = arguments.out
    in_folder = out.is_dir() or not out.suffix
    out = out / SHIPPED_POLICY_FILE if in_folder else out
    require(not out.exists(), "--out", str(out), "a new file")
    if in_folder:
        require_writable_folder(out.parent)
    else:
        require_writable_outputs(out)
    agent, config, note = import_policy(arguments.file, arguments.agent)
    if in_folder:
        make_folder(out.parent)
    save_policy(out, agent, config, 0, {"note": note})
    print(f"{out}: {config.agent_type}, {note}")
    return 0
