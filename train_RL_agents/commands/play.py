"""Show what a policy does: a film, still pictures, an overview or an interactive page."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from train_RL_agents.commands.choosing import add_choice, page, refuse_beside

if TYPE_CHECKING:
    from train_RL_agents.evaluation.recording import Recording
    from train_RL_agents.figures.episode_view import EpisodeView

THREADS = 1
"""A few episodes: more threads wait for one another."""
_CHOICES = ("suite", "scenarios", "strict", "levels", "episodes", "seed", "fresh", "which")
"""Options that choose what is played, and mean nothing for what has been recorded."""
_UNUSED = {"html": ("vessel", "out", "speed"), "overview": ("vessel", "out", "speed"), "frames": ("speed",)}
"""Options that mean nothing for what is written instead of a film."""
_SPEED = 5.0
"""Of a film, times real time."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    plain: dict[str, Any] = {"default": argparse.SUPPRESS}
    add = parser.add_argument
    add(
        "policies",
        metavar="POLICY",
        nargs="*",
        help="run folder, policy file, name of a shipped "
        "policy or baseline (straight, apf, orca, mppi); two of them with --html",
    )
    add("--checkpoint", "--policy", metavar="POLICY", dest="more", nargs="+", default=[], help="the same as an option")
    add(
        "--recording",
        metavar="FILE",
        type=Path,
        nargs="+",
        default=[],
        help="recorded evaluation instead; two of the same scenarios with --html",
    )
    add_choice(parser)
    add(
        "--episode",
        metavar="K",
        type=int,
        help="which of these, from 1: by default the first, with --html and --overview all",
        **plain,
    )
    add("--vessel", metavar="N", type=int, help="whose view a film or still shows, from 1 (default)", **plain)
    add("--out", metavar="DIR", type=Path, help="folder of films and stills; by default this one", **plain)
    add("--speed", metavar="X", type=float, help="of the film, times real time; 5 by default", **plain)
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument(
        "--frames",
        metavar="T",
        type=int,
        nargs="+",
        help="write these frames (control steps, from 0) as PNG, instead of a film",
        **plain,
    )
    shape.add_argument(
        "--html", metavar="FILE", type=page, help="write an interactive page, instead of a film", **plain
    )
    shape.add_argument(
        "--overview",
        metavar="FILE",
        type=Path,
        help="write one picture of all tracks (.png, .pdf, .svg), instead of a film",
        **plain,
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    given = vars(arguments)
    given["policies"] = [*arguments.policies, *arguments.more]
    _check(arguments.parser, given)
    _check_outputs(given)
    if arguments.recording:
        from train_RL_agents.evaluation.recording import load

        recordings = [load(path) for path in arguments.recording]
        _require_few(max(len(each.steps) for each in recordings), given)
    else:
        recordings = _play(given)
    sides = [_views(recording, given) for recording in recordings]
    for path in _write(sides, given):
        print(path)
    return 0


def _check(parser: argparse.ArgumentParser, given: dict[str, Any]) -> None:
    """Refuse options that contradict each other or are out of range.

    Raises:
        SystemExit: after a message.
    """
    policies, recordings = given["policies"], given["recording"]
    if bool(policies) == bool(recordings):
        parser.error(
            "either a POLICY is needed (a run folder, a policy file, a shipped policy's "
            "name or a baseline) or --recording"
        )
    refuse_beside(parser, given if recordings else (), "recording", _CHOICES)
    for shape, others in _UNUSED.items():
        refuse_beside(parser, given, shape, others)
    if not 0.1 <= given.get("speed", _SPEED) <= 100.0:
        parser.error(f"argument --speed: must be from 0.1 to 100, not {given['speed']}")
    source = "--recording" if recordings else "POLICY"
    most, count = 2 if "html" in given else 1, len(recordings or policies)
    if count > most:
        advice = "" if most == 2 else "; --html shows two"
        parser.error(f"argument {source}: at most {most}, not {count}{advice}")


def _check_outputs(given: dict[str, Any]) -> None:
    """Refuse what cannot be written, or drawn with the packages that there are, before any work.

    Raises:
        ConfigError: for the first output or package.
    """
    from marinenav_env.support.files import check_folder, check_outputs

    pages = [given[name] for name in ("html", "overview") if name in given]
    check_outputs(*pages)
    if "html" in given:
        return
    from train_RL_agents.figures.animation import require_ffmpeg
    from train_RL_agents.figures.drawing import check_picture

    if "overview" in given:
        check_picture(given["overview"])
        return
    check_folder(given.get("out", Path()))
    if "frames" not in given:
        require_ffmpeg()


def _play(given: dict[str, Any]) -> list[Recording]:
    """Let every policy play the scenarios that are chosen for the first.

    All of them, also when one is shown: the noise of an episode follows from its number, so that it
    looks the same either way.
    """
    import torch

    from train_RL_agents.evaluation.contenders import (
        ActingOptions,
        common_world,
        find,
        require_which,
        run_set,
    )
    from train_RL_agents.evaluation.selection import choose_set, defaults
    from train_RL_agents.utils.device import keep_freed_memory

    keep_freed_memory()
    device = torch.device("cpu")
    found = [find(name, given.get("which", "best"), device) for name in given["policies"]]
    require_which(found, given)
    schedule, world = defaults(found)
    world = common_world(found, world)
    chosen, _ = choose_set(world, schedule, given)
    _require_few(len(chosen), given)
    recordings = [run_set(each, chosen, world, ActingOptions(estimates=True), device, each.label)[1] for each in found]
    return [each for each in recordings if each is not None]


def _require_few(episodes: int, given: dict[str, Any]) -> None:
    """Refuse more episodes than a page can show, before any is played or packed.

    Raises:
        ConfigError: when there are too many.
    """
    from marinenav_env.support.validation import require
    from train_RL_agents.figures.replay_page import MOST_EPISODES

    fine = "html" not in given or "episode" in given or episodes <= MOST_EPISODES
    require(fine, "--html", f"{episodes} episodes", f"at most {MOST_EPISODES}; --episode shows one")


def _views(recording: Recording, given: dict[str, Any]) -> list[EpisodeView]:
    """The episodes asked for.

    Raises:
        ConfigError: when there is no such episode.
    """
    from train_RL_agents.figures.episode_view import view_episode

    every = range(1, len(recording.steps) + 1)
    first = every if "html" in given or "overview" in given else [1]
    numbers = [given["episode"]] if "episode" in given else first
    return [view_episode(recording, number) for number in numbers]


def _write(sides: list[list[EpisodeView]], given: dict[str, Any]) -> list[Path]:
    """Write what is asked for; the files written."""
    if "html" in given:
        from train_RL_agents.figures.replay_page import write_page
        from train_RL_agents.utils.files import write_atomically

        write_atomically(given["html"], write_page(sides))
        return [given["html"]]
    if "overview" in given:
        from train_RL_agents.figures.drawing import draw_overview, save_figure

        save_figure(draw_overview(sides[0]), given["overview"])
        return [given["overview"]]
    return _film(sides[0][0], given)


def _film(view: EpisodeView, given: dict[str, Any]) -> list[Path]:
    """Write a film, or stills, of one episode."""
    from marinenav_env.support.validation import require
    from train_RL_agents.figures.animation import write_animation
    from train_RL_agents.figures.drawing import Scene
    from train_RL_agents.utils.files import make_folder

    for frame in given.get("frames", ()):
        require(0 <= frame < view.frames, "--frames", frame, f"from 0 to {view.frames - 1}")
    vessel, out = given.get("vessel", 1), given.get("out", Path())
    scene = Scene(view, vessel - 1)
    make_folder(out)
    # What a recording names a policy may be a path.
    agent = re.sub(r"[^\w.-]", "_", Path(view.policy.split(" ")[0]).name.lower())
    name = f"{agent}_episode_{view.number}_vessel_{vessel}"
    if "frames" in given:
        stills = {frame: out / f"{name}_frame_{frame:04}.png" for frame in given["frames"]}
        for frame, path in stills.items():
            scene.save(frame, path)
        return list(stills.values())
    return write_animation(scene, out, name, given.get("speed", _SPEED))
