"""Identify a boat's coefficients from a log of its commands and its motion."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add(
        "log",
        metavar="LOG",
        type=Path,
        nargs="?",
        help="CSV with time, left and right (N; or left_command and right_command, -1 to 1), x and y to the north and "
        "east (m; or north and east), yaw clockwise from north (rad; or yaw_deg)",
    )
    add("--boat", metavar="NAME", default="otter", help="vessel, or its file, to start from: the closest there is")
    add("--out", metavar="OUT", type=Path, help="vessel file to write")
    add("--name", metavar="NAME", help="name of the boat; by default that of the file")
    add("--plan", action="store_true", help="print the manoeuvres that a log should have")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from marinenav_env.support.files import check_outputs
    from marinenav_env.vessels import read_vessel_file
    from train_RL_agents.identification.fit import fit
    from train_RL_agents.identification.log import read_log
    from train_RL_agents.identification.report import PLAN, held_out, lines, vessel_content
    from train_RL_agents.utils.files import write_atomically

    if arguments.plan:
        print(PLAN)
        return 0
    if arguments.log is None or arguments.out is None:
        arguments.parser.error("a LOG and --out are needed, or --plan")
    check_outputs(arguments.out)
    start = read_vessel_file(arguments.boat)
    log = read_log(arguments.log, start.vessel)
    found = fit(log, start.vessel, held_out(log))
    print("\n".join(lines(found, start, log)))
    name = arguments.name or arguments.out.stem
    write_atomically(arguments.out, vessel_content(found, start, name, arguments.log.name))
    print(f"next: marinenav train world.vessel={arguments.out}")
    return 0
