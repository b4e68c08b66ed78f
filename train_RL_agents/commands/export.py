"""Write a policy as TorchScript or ONNX, and check the files."""

from __future__ import annotations

import argparse
from pathlib import Path

from train_RL_agents.commands.choosing import POLICY_HELP, WHICH_OPTION, require_policies


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``marinenav export`` to its parser."""
    add = parser.add_argument
    add("checkpoint", metavar="POLICY", type=Path, help=POLICY_HELP)
    add("--which", default="best", **WHICH_OPTION)
    add("--out", metavar="DIR", type=Path, required=True, help="folder, new or not, for the files and contract.json")
    formats = "torchscript (default; for C++ with libtorch), onnx (for evaluate, boats and others)"
    add("--format", nargs="+", choices=("torchscript", "onnx"), default=["torchscript"], help=formats)
    numbers = "type of the numbers in the files (float64, which C++ planners expect of TorchScript)"
    add("--dtype", choices=("float64", "float32"), default="float64", help=numbers)


def check(arguments: argparse.Namespace) -> None:
    """Check that the policy exists."""
    require_policies([str(arguments.checkpoint)], baselines=False)


def run(arguments: argparse.Namespace) -> int:
    """Run ``marinenav export``, and return its exit status."""
    import torch

    from marinenav_env.support.extras import import_optional
    from marinenav_env.support.files import require_writable_folder
    from train_RL_agents.boat.runtime import CONTRACT_FILE
    from train_RL_agents.exporting.export import NUM_CHECKS, export
    from train_RL_agents.run.checkpoint import load_policy

    formats, dtype = arguments.format, arguments.dtype
    for name in ("onnx", "onnxscript", "onnxruntime") if "onnx" in formats else ():
        import_optional(name, "export")  # reports a missing package before anything is written
    require_writable_folder(arguments.out)
    written = export(load_policy(arguments.checkpoint, arguments.which), arguments.out, formats, getattr(torch, dtype))
    for entry in written["files"].values():
        print(
            f"{arguments.out / entry['file']}: differs from the agent by at most "
            f"{entry['largest_difference']:.1e} on {NUM_CHECKS} observations"
        )
    print(f"{arguments.out / CONTRACT_FILE}: inputs, outputs and what an action does")
    return 0
