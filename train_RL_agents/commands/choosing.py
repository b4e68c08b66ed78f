"""Options that choose scenarios, which several commands have."""

from __future__ import annotations

import argparse
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

_MOST = 100_000
"""Episodes of a level or group."""


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Declare the options; those not given are not in the result."""
    plain: dict[str, Any] = {"default": argparse.SUPPRESS}
    add = parser.add_argument
    add("--which", metavar="NAME", help="of a run: best (default), latest or a file's name", **plain)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--levels", metavar="L", type=int, nargs="+", help="from 1; all by default", **plain)
    source.add_argument(
        "--suite",
        metavar="NAME",
        help="paper, fresh, currents, crowd, noise, "
        "vessels, weather, faults, rules, imazu or encounters (or imazu_own, "
        "encounters_own), instead of levels",
        **plain,
    )
    source.add_argument(
        "--scenarios", "--scenario", metavar="FILE", type=Path, help="scenario file, instead of levels", **plain
    )
    add(
        "--strict",
        action="store_true",
        help="refuse a scenario file with goals in obstacles, "
        "contact at the start or places off the map, which a warning counts otherwise",
        **plain,
    )
    add(
        "--episodes",
        metavar="N",
        type=episode_count,
        help="a level, or a group of a suite; by default as while training, or the suite's",
        **plain,
    )
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument(
        "--seed", metavar="N", type=int, help="of scenarios and noise; by default the fixed set's", **plain
    )
    seeds.add_argument("--fresh", action="store_true", help="scenarios and noise never seen before", **plain)


def refuse_beside(parser: argparse.ArgumentParser, given: Container[str], option: str, others: Sequence[str]) -> None:
    """Refuse options that have no effect beside another.

    Args:
        parser: of the command.
        given: names of the options that were given.
        option: the name of the other, without hyphens.
        others: names of the options.

    Raises:
        SystemExit: after a message.
    """
    for name in others:
        if option in given and name in given:
            parser.error(f"argument --{name}: not allowed with --{option}")


def page(text: str) -> Path:
    """Return the path of a page, which a browser knows by its ending.

    Raises:
        ArgumentTypeError: when it has another ending.
    """
    if Path(text).suffix.lower() not in (".html", ".htm"):
        raise argparse.ArgumentTypeError(f"must be a page that ends in .html, not {text}")
    return Path(text)


def episode_count(text: str) -> int:
    """A number of episodes.

    Raises:
        ArgumentTypeError: when it is none.
    """
    if not (text.isdecimal() and len(text) < 10 and 1 <= int(text) <= _MOST):
        raise argparse.ArgumentTypeError(f"must be from 1 to {_MOST:,}, not {text}")
    return int(text)
