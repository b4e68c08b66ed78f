"""Write a web page in which a policy acts, to experiment with it in a browser."""

from __future__ import annotations

import argparse
import os
import sys
import webbrowser
from pathlib import Path

from train_RL_agents.commands.choosing import POLICY_HELP, WHICH_OPTION, parse_html_path, require_policies

THREADS = 1
SUPPORTED_ENTRIES = {"self_state", "objects_state", "objects_mask", "objects_id", "duties", "shore", "shore_mask"}
"""Entries of the observation that the simulation in the page provides for a policy."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``marinenav demo`` to its parser."""
    add = parser.add_argument
    about = f"{POLICY_HELP}; ac_iqn by default"
    add("policy", metavar="POLICY", type=Path, nargs="?", default=Path("ac_iqn"), help=about)
    add("--which", default="best", **WHICH_OPTION)
    add("--out", metavar="FILE", type=parse_html_path, default=Path("demo.html"), help="page (demo.html by default)")
    add("--no-open", action="store_true", help="do not open the page in a browser")


def check(arguments: argparse.Namespace) -> None:
    """Check that the policy exists."""
    require_policies([str(arguments.policy)], baselines=False)


def run(arguments: argparse.Namespace) -> int:
    """Run ``marinenav demo``, and return its exit status."""
    from marinenav_env.support.files import require_writable_outputs
    from marinenav_env.support.validation import require
    from train_RL_agents.evaluation.running.estimates import returns_scale
    from train_RL_agents.exporting.graph import policy_graphs
    from train_RL_agents.figures.demo import make_page
    from train_RL_agents.run.checkpoint import load_policy
    from train_RL_agents.utils.files import write_atomically

    require_writable_outputs(arguments.out)
    loaded = load_policy(arguments.policy, arguments.which)
    loaded.config.env.require_built_in("the page")
    observed = set(loaded.agent.spec.exclude(loaded.config.agent.excluded).entries)
    require(
        observed <= SUPPORTED_ENTRIES,
        str(arguments.policy),
        ", ".join(sorted(observed - SUPPORTED_ENTRIES)),
        "a policy that observes its own state, objects, duties and shores only",
    )
    config = loaded.config
    title = f"{config.agent_type} after {loaded.env_steps:,} env-steps"
    risk = getattr(config.agent, "risk", None) if loaded.agent.supports_risk else None
    page = make_page(
        title,
        config.world,
        policy_graphs(loaded.agent),
        loaded.agent.continuous,
        risk,
        returns_scale(loaded),
        loaded.agent.scores_are_returns,
    )
    write_atomically(arguments.out, page)
    print(arguments.out)
    if not arguments.no_open and _has_display():
        webbrowser.open(arguments.out.resolve().as_uri())
    return 0


def _has_display() -> bool:
    """Return whether a browser can open a window; otherwise a text browser might take over the terminal."""
    has_screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return has_screen or sys.platform in ("darwin", "win32")
