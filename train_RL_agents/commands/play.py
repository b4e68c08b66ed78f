"""Show how a policy acts: an animation, still pictures, an overview or an interactive page."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from train_RL_agents.commands.choosing import POLICY_HELP, add_scenario_options, parse_html_path, require_policies

if TYPE_CHECKING:
    from train_RL_agents.evaluation.running.recording import Recording
    from train_RL_agents.figures.episode_view import EpisodeView

THREADS = 1
"""Number of CPU threads; with few episodes, several threads would mostly wait for each other."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``marinenav play`` to its parser."""
    parser.argument_default = argparse.SUPPRESS
    add = parser.add_argument
    about = f"{POLICY_HELP} or baseline (straight, apf, orca); two of them with --html"
    add("policies", metavar="POLICY", nargs="*", default=[], help=about)
    recorded = "recorded evaluation, in place of a policy; two of the same scenarios with --html"
    add("--recording", metavar="FILE", type=Path, nargs="+", default=[], help=recorded)
    add_scenario_options(parser)
    add("--episode", metavar="K", type=int, help="episode, from 1; by default the first, all in pages and overviews")
    add("--vessel", metavar="N", type=int, default=1, help="vessel of the view in animations and stills; 1 by default")
    add("--out", metavar="DIR", type=Path, default=Path(), help="folder of animations and stills; by default this one")
    add("--speed", metavar="X", type=float, default=5.0, help="speed of the animation, 5 times real time by default")
    add = parser.add_mutually_exclusive_group().add_argument
    stills = "write these frames (control steps, from 0) as PNG, instead of an animation"
    add("--frames", metavar="T", type=int, nargs="+", help=stills)
    add("--html", metavar="FILE", type=parse_html_path, help="write an interactive page, instead of an animation")
    add("--overview", metavar="FILE", type=Path, help="write one picture of all tracks (.png, .pdf, .svg) instead")


def check(arguments: argparse.Namespace) -> None:
    """Check names and options that contradict each other."""
    _check_options(arguments.parser, vars(arguments))
    require_policies(arguments.policies)


def run(arguments: argparse.Namespace) -> int:
    """Run ``marinenav play``, and return its exit status."""
    options = vars(arguments)
    _check_outputs(options)
    if arguments.recording:
        from train_RL_agents.evaluation.running.recording import load

        recordings = [load(path) for path in arguments.recording]
    else:
        recordings = _record_policies(options)
    sides = [_episode_views(recording, options) for recording in recordings]
    for path in _write_views(sides, options):
        print(path)
    return 0


def _check_options(parser: argparse.ArgumentParser, options: dict[str, Any]) -> None:
    """Reject parsed options, by name, that contradict each other or are out of range."""
    policies, recordings = options["policies"], options["recording"]
    if bool(policies) == bool(recordings):
        parser.error("either a POLICY is needed (a run folder, a policy file or a baseline) or --recording")
    if not 0.1 <= options["speed"] <= 100.0:
        parser.error(f"argument --speed: must be from 0.1 to 100, not {options['speed']}")
    source = "--recording" if recordings else "POLICY"
    limit, count = 2 if "html" in options else 1, len(recordings or policies)
    if count > limit:
        advice = "" if limit == 2 else "; --html shows two"
        parser.error(f"argument {source}: at most {limit}, not {count}{advice}")


def _check_outputs(options: dict[str, Any]) -> None:
    """Check that the outputs in the parsed options can be written, and drawn with the installed packages."""
    from marinenav_env.support.files import require_writable_folder, require_writable_outputs

    pages = [options[name] for name in ("html", "overview") if name in options]
    require_writable_outputs(*pages)
    if "html" in options:
        return
    from train_RL_agents.figures.drawing import check_picture_format, require_ffmpeg

    if "overview" in options:
        check_picture_format(options["overview"])
        return
    require_writable_folder(options["out"])
    if "frames" not in options:
        require_ffmpeg()


def _record_policies(options: dict[str, Any]) -> list[Recording]:
    """Run the policies in the parsed options in the scenarios chosen for the first one, and return their recordings."""
    import torch

    from train_RL_agents.evaluation.comparing.selection import choose_scenarios, default_schedule_and_world
    from train_RL_agents.evaluation.judging.policies import ActingOptions, find_evaluated, run_set
    from train_RL_agents.utils.device import keep_freed_memory

    keep_freed_memory()
    device = torch.device("cpu")
    policies = [find_evaluated(name, options.get("which", "best"), device) for name in options["policies"]]
    schedule, world = default_schedule_and_world(policies)
    scenario_set, _ = choose_scenarios(world, schedule, options)
    acting = ActingOptions(estimates=True)
    recordings = [run_set(evaluated, scenario_set, world, acting, device, evaluated.label)[1] for evaluated in policies]
    return [recording for recording in recordings if recording is not None]


def _episode_views(recording: Recording, options: dict[str, Any]) -> list[EpisodeView]:
    """Return views of the episodes of a recording that the parsed options ask for."""
    from train_RL_agents.figures.episode_view import view_episode

    all_numbers = range(1, len(recording.steps) + 1)
    default = all_numbers if "html" in options or "overview" in options else [1]
    numbers = [options["episode"]] if "episode" in options else default
    return [view_episode(recording, number) for number in numbers]


def _write_views(sides: list[list[EpisodeView]], options: dict[str, Any]) -> list[Path]:
    """Write the output that the parsed options ask for, of one or two recordings' views, and return its files."""
    if "html" in options:
        from train_RL_agents.figures.replay_page import make_page
        from train_RL_agents.utils.files import write_atomically

        write_atomically(options["html"], make_page(sides))
        return [options["html"]]
    if "overview" in options:
        from train_RL_agents.figures.drawing import draw_overview, save_figure

        save_figure(draw_overview(sides[0]), options["overview"])
        return [options["overview"]]
    return _write_episode(sides[0][0], options)


def _write_episode(view: EpisodeView, options: dict[str, Any]) -> list[Path]:
    """Write an animation, or the stills ``frames``, of one episode, and return the files."""
    from marinenav_env.support.validation import require
    from train_RL_agents.figures.drawing import EpisodeScene, write_animation
    from train_RL_agents.utils.files import make_folder

    for frame in options.get("frames", ()):
        require(0 <= frame < view.frames, "--frames", frame, f"from 0 to {view.frames - 1}")
    vessel, out = options["vessel"], options["out"]
    scene = EpisodeScene(view, vessel - 1)
    make_folder(out)
    # The name of a recorded policy may be a path.
    agent = re.sub(r"[^\w.-]", "_", Path(view.policy.split(" ")[0]).name.lower())
    name = f"{agent}_episode_{view.number}_vessel_{vessel}"
    if "frames" in options:
        stills = {frame: out / f"{name}_frame_{frame:04}.png" for frame in options["frames"]}
        for frame, path in stills.items():
            scene.save_frame(frame, path)
        return list(stills.values())
    return write_animation(scene, out, name, options["speed"])
