"""Fit a boat to a log of its commands and its motion, and write it as a vessel file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

IMPORTS = ("train_RL_agents.identification.report",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``marinenav identify`` to its parser."""
    parser.argument_default = argparse.SUPPRESS
    add = parser.add_argument
    columns = "CSV file with time, commands, position and yaw; see docs/boats.md"
    add("log", metavar="LOG", nargs="?", default=None, type=Path, help=columns)
    add("--vessel", metavar="BOAT", default="published", help="boat to start from: a name or a vessel file (published)")
    add("--out", metavar="FILE", type=Path, help="write the boat there (.json); with --plan, the commands (.csv)")
    add("--page", metavar="FILE", type=Path, help="write a page with measured and predicted tracks there (.html)")
    add("--name", metavar="NAME", help="name of the boat; by default that of the file of --out")
    frames = "ned (default): x north, y east, yaw clockwise from north; enu: x east, y north, anticlockwise from east"
    add("--frame", choices=("ned", "enu"), help=frames)
    add("--fit", metavar="NAME", nargs="+", help="coefficients to fit beside the usual ones")
    add("--keep", metavar="NAME", nargs="+", help="coefficients that keep the values of --vessel")
    add("--force", action="store_true", help="write a boat whose predictions are far off, too")
    add("--plan", action="store_true", help="print the manoeuvres that a log should have, and fit nothing")


def check(arguments: argparse.Namespace) -> None:
    """Check that the log and the files to write are named."""
    given, error = vars(arguments), arguments.parser.error
    if ("plan" in given) == (arguments.log is not None):
        error("either a LOG or --plan is needed")
    if not ("plan" in given or "out" in given):
        error("--out FILE is needed")
    for path in (given[name] for name in ("out", "page") if name in given):
        if arguments.log is not None and path.exists() and arguments.log.exists() and path.samefile(arguments.log):
            error(f"{path} is the log: name another file")


def run(arguments: argparse.Namespace) -> int:
    """Run ``marinenav identify``, and return its exit status."""
    from marinenav_env.support.files import require_writable_outputs

    given = vars(arguments)
    require_writable_outputs(*(given[name] for name in ("out", "page") if name in given))
    if "plan" in given:
        _print_plan(arguments.vessel, given.get("out"))
        return 0
    return _identify(arguments.log, given)


def _print_plan(vessel: str, out: Path | None) -> None:
    """Print the manoeuvres that identify a boat like ``vessel``, and write their commands to ``out`` if it is given."""
    from marinenav_env.vessels import read_vessel
    from train_RL_agents.identification.coefficients import choose_coefficients, plan_manoeuvres, timed_commands
    from train_RL_agents.utils.files import write_atomically
    from train_RL_agents.utils.table import Table

    boat = read_vessel(vessel)
    manoeuvres = plan_manoeuvres(boat)
    fitted = {item.name for in_newtons in (True, False) for item in choose_coefficients(boat, in_newtons)}
    first, second = ("thrust", "angle") if boat.actuators.steering != "thrusters" else ("left", "right")
    rows = [
        {
            "manoeuvre": item.name if not number else "",
            "s": f"{command[0]:g}",
            first: f"{command[1]:g}",
            second: f"{command[2]:g}",
            "tells": ", ".join(name for name in item.identified_coefficients if name in fitted) if not number else "",
        }
        for item in manoeuvres
        for number, command in enumerate(item.commands)
    ]
    total = sum(item.commands[:, 0].sum() for item in manoeuvres)
    Table.from_rows(rows).print(
        f"Manoeuvres for a boat like {boat.name}, {total / 60.0:.1f} minutes; commands are shares of full thrust"
    )
    print("Log at 5 Hz or more; repeat the first two at the end, which is not fitted but predicted.")
    if out is not None:
        lines = [
            f"time,{first}_command,{second}_command",
            *(",".join(f"{value:g}" for value in row) for row in timed_commands(manoeuvres)),
        ]
        write_atomically(out, "\n".join(lines) + "\n")


def _identify(log: Path, given: dict[str, Any]) -> int:
    """Fit a boat to a log, print the results, write the files that the options name, and return the exit status."""
    from marinenav_env.vessels import check_vessel_name
    from train_RL_agents.figures.identification import make_page
    from train_RL_agents.identification import report
    from train_RL_agents.utils.files import write_atomically

    name = given.get("name", given["out"].stem)
    check_vessel_name(name, "--name" if "name" in given else "--out")
    result = report.identify(
        log, given["vessel"], given.get("frame", "ned"), given.get("fit", ()), given.get("keep", ()),
        lambda text: print(text, flush=True),
    )  # fmt: skip
    report.coefficient_table(result.fit).print(f"{name}, from {result.preset.name}")
    for line in (report.nuisance_line(result.fit), *report.summary_lines(result)):
        print(line)
    if "force" not in given:
        report.check_predictions(result)
    write_atomically(given["out"], report.vessel_text(result, name))
    if "page" in given:
        write_atomically(given["page"], make_page(result, name))
    return 0
