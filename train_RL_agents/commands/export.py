"""Write a policy as TorchScript, torch.export program and ONNX, and check the files."""

from __future__ import annotations

import argparse
from pathlib import Path

from train_RL_agents.commands.choosing import reject_excluded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``marinenav export`` to its parser."""
    add = parser.add_argument
    add(
        "checkpoint", metavar="POLICY", type=Path, nargs="?", help="run folder, policy file or name of a shipped policy"
    )
    add(
        "--which",
        metavar="NAME",
        help="policy of a run: best (default), latest or a file's name",
        default=argparse.SUPPRESS,
    )
    add("--out", metavar="DIR", type=Path, help="folder for the files and contract.json; created if it is missing")
    add(
        "--check",
        metavar="FILE",
        type=Path,
        help="instead of writing: compare an exported file, "
        "or a .json with outputs of another program, with the examples of contract.json in the "
        "same folder",
    )
    add(
        "--format",
        nargs="+",
        choices=("torchscript", "torch", "onnx"),
        default=argparse.SUPPRESS,
        help="torchscript (for C++), torch (a torch.export "
        "program, .pt2), onnx (needs 'marinenav[export]'); by default the first two",
    )
    add(
        "--dtype",
        choices=("float64", "float32"),
        default=argparse.SUPPRESS,
        help="number type of an ONNX file, with its inputs and outputs; the other formats are "
        "float64, as planners load them (default: float64)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run ``marinenav export``, and return its exit status."""
    if arguments.check is not None:
        return _check(arguments)
    required = {"a POLICY": arguments.checkpoint, "--out DIR": arguments.out}
    missing = [name for name, value in required.items() if value is None]
    if missing:
        verb = "are" if len(missing) > 1 else "is"
        arguments.parser.error(f"{' and '.join(missing)} {verb} needed, or --check FILE alone")
    import torch

    from marinenav_env.support.extras import import_optional
    from marinenav_env.support.files import require_writable_folder
    from train_RL_agents.exporting.export import CONTRACT_FILE, NUM_CHECKS, export
    from train_RL_agents.run.checkpoint import load_policy

    formats = vars(arguments).get("format", ["torchscript", "torch"])
    dtype = vars(arguments).get("dtype", "float64")
    if dtype != "float64" and "onnx" not in formats:
        arguments.parser.error("argument --dtype: float32 is for --format onnx")
    for name in ("onnx", "onnxscript") if "onnx" in formats else ():
        import_optional(name, "export")  # reports a missing package before anything is written
    require_writable_folder(arguments.out)
    loaded = load_policy(arguments.checkpoint, vars(arguments).get("which", "best"))
    written = export(loaded, arguments.out, formats, getattr(torch, dtype))
    for entry in written["files"].values():
        print(
            f"{arguments.out / entry['file']}: differs from the agent by at most "
            f"{entry['largest_difference']:.1e} on {NUM_CHECKS} observations"
        )
    print(f"{arguments.out / CONTRACT_FILE}: inputs, outputs and what an action does")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    """Compare an exported file with the examples in the ``contract.json`` beside it, and return the exit status."""
    reject_excluded(arguments.parser, vars(arguments), "check", ("which", "format", "dtype"))
    if arguments.checkpoint is not None or arguments.out is not None:
        arguments.parser.error("argument --check: takes neither POLICY nor --out")
    from train_RL_agents.exporting.checking import check_file

    count, difference = check_file(arguments.check)
    print(f"{arguments.check}: {count} examples compared; the largest difference is {difference:.1e} (1 + |output|)")
    return 0
