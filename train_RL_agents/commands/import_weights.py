"""Convert published weights to a policy file that can be evaluated like any other."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``marinenav import`` to its parser."""
    add = parser.add_argument
    add(
        "file",
        metavar="FILE",
        type=Path,
        help="a published TorchScript file (traced_DQN_model.pt), or weights of the acting network "
        "by layer name: arrays (.npz) or a PyTorch state dict (.pt, .pth)",
    )
    add(
        "--agent",
        metavar="NAME",
        default="",
        help="agent of the weights: AC-IQN, IQN, DDPG, "
        "DQN or SAC; needed if neither layers nor names in the file decide (AC-IQN and DDPG have "
        "the same layers)",
    )
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
