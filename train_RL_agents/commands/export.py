"""Write a policy as TorchScript or ONNX, and check the files."""

from __future__ import annotations

import argparse
from pathlib import Path

from train_RL_agents.commands.choosing import require_policies


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``marinenav export`` to its parser."""
    add = parser.add_argument
    add("checkpoint", metavar="POLICY", type=Path, help="run folder, policy file or name of a shipped policy")
    add("--which", metavar="NAME", help="policy of a run: best (default), latest or a file's name", default="best")
    add(
        "--out",
        metavar="DIR",
        type=Path,
        required=True,
        help="folder for the files and contract.json; created if it is missing",
    )
    add(
        "--format",
        nargs="+",
        choices=("torchscript", "onnx"),
        default=["torchscript"],
        help="torchscript (default; for C++ with libtorch), onnx (for evaluate, boats and others; needs "
        "'marinenav[export]')",
    )
    add(
        "--dtype",
        choices=("float64", "float32"),
        default="float64",
        help="number type of an ONNX file, with its inputs and outputs; TorchScript is float64, as planners load it "
        "(default: float64)",
    )


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
    if dtype != "float64" and "onnx" not in formats:
        arguments.parser.error("argument --dtype: float32 is for --format onnx")
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
