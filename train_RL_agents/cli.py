"""The ``marinenav`` command: finds the subcommand, runs it, and reports mistakes in a sentence."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from train_RL_agents.commands import COMMANDS
from train_RL_agents.utils.closest import closest, did_you_mean
from train_RL_agents.utils.provenance import versions
from train_RL_agents.utils.signals import INTERRUPTED, exit_on_signal, interruptible
from train_RL_agents.utils.toolchain import ensure_cache

BAD_INPUT, PIPE_CLOSED = 2, 141
_LONGEST = 300
"""Characters of a message."""
_MOST_THREADS = 1024
_PACKAGES = [Path(__file__).parents[1] / name for name in ("marinenav_env", "train_RL_agents")]
_VERSIONS = ("marinenav", "torch", "torchrl")
_OVERRIDE = re.compile(r"[A-Za-z_][\w.]*=")
_PARTS = (
    "agent_type=",
    "world.reward.function=",
    "world.sensor.entries=",
    "agent.entry_encoders=",
    "training_schedule.sampler=",
    "loggers=",
)
"""Settings that name parts of the user's."""
_PART = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


class Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """Print the line and exit with status 2."""
        shown = message if len(message) <= _LONGEST else f"{message[:_LONGEST]}..."
        self.exit(BAD_INPUT, f"marinenav: error: {shown}; see {self.prog} --help\n")

    def option_names(self) -> list[str]:
        """Names of the long options, without hyphens in front."""
        long = [each for each in self._option_string_actions if each.startswith("--")]
        return [each.removeprefix("--") for each in long]

    def single_options(self) -> list[argparse.Action]:
        """Options that keep one value."""
        return [each for each in self._actions if isinstance(each, argparse._StoreAction)]

    def _get_value(self, action: argparse.Action, text: str) -> Any:
        """Convert a value; a whole number is asked for in words."""
        try:
            return super()._get_value(action, text)
        except argparse.ArgumentError as error:
            if action.type is int:
                several = action.nargs in ("+", "*") and "," in text
                advice = "; several stand apart, as in 1 2" if several else ""
                error.message = f"must be a whole number, not {text}{advice}"
            raise

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Propose the closest of an option's choices, or of the commands."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            names = [*map(str, action.choices or ())]
            if isinstance(action, argparse._SubParsersAction):
                names += [f"--{name}" for name in self.option_names()]
            error.message += did_you_mean(value, names)
            raise


class Version(argparse.Action):
    """Prints versions and ends; they are looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        """See argparse."""
        found = versions()
        print("\n".join(f"{name} {found[name]}" for name in _VERSIONS))
        parser.exit()


def proposed(unknown: Sequence[str], arguments: argparse.Namespace) -> str:
    """What the first unknown word of a command line may have meant; the end of a sentence.

    Args:
        unknown: the words.
        arguments: what was understood.
    """
    word, *values = unknown
    name, _, value = word.lstrip("-").partition("=")
    value = value or next((each for each in values if not each.startswith("-")), "...")
    takes_settings = getattr(arguments.command, "TAKES_OVERRIDES", False)
    if _OVERRIDE.match(word):
        return "; settings are for train, tune and bench"
    agents, settings = _names() if takes_settings else ([], [])
    if not word.startswith("-"):
        apart = "".join(unknown[: 3 if unknown[1:2] == ["="] else 2])  # as in key = value
        if "=" in apart and _OVERRIDE.match(apart):
            return f"; did you mean {apart}, without spaces?" if takes_settings else ""
        if word in settings:
            return f"; did you mean {word}={value}?"
        found = closest(word, agents, 1)
        return f"; did you mean --agent {found[0]}?" if found else ""
    option, setting = (next(iter(closest(name, known, 1)), "") for known in (arguments.parser.option_names(), settings))
    if option:
        return f"; did you mean --{option}?"
    return f"; did you mean {setting}={value}?" if setting else ""


def _names() -> tuple[list[str], list[str]]:
    """Return the names of all agents, and of the settings of the default one."""
    from train_RL_agents.agents import AGENTS
    from train_RL_agents.config.reading import default_config, known_settings
    from train_RL_agents.config.schema import TrainConfig

    return list(AGENTS), list(known_settings(default_config(TrainConfig.agent_type)))


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands; its result has the command's module as ``command``."""
    about = "Trains and evaluates agents for surface vessels."
    parser = Parser(prog="marinenav", description=about, allow_abbrev=False)
    parser.add_argument("--version", action=Version, nargs=0, help="show versions and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        text = (module.__doc__ or "").partition("\n")[0]
        sub = commands.add_parser(
            name,
            help=text,
            description=text,
            allow_abbrev=False,
            add_help=not getattr(module, "OWN_HELP", False),
        )
        module.add_arguments(sub)
        if not getattr(module, "OWN_THREADS", False) and getattr(module, "IMPORTS", True):
            sub.add_argument(
                "--threads",
                metavar="N",
                type=_count,
                default=0,
                help="CPU threads; 0, the default: one for each idle core",
            )
        sub.add_argument(
            "--plugin",
            metavar="PART",
            action="append",
            default=[],
            help="a part of your own that a file names, as package.module:Name",
        )
        sub.set_defaults(command=module, parser=sub, overrides=[], argv=[])
    return parser


def _count(text: str) -> int:
    """Return a number of threads, 0 for one for each idle core.

    Raises:
        ArgumentTypeError: when it is none.
    """
    if not (text.isdecimal() and len(text) < 10 and int(text) <= _MOST_THREADS):
        raise argparse.ArgumentTypeError(
            f"must be a whole number from 0 (one for each idle core) to {_MOST_THREADS}, not {text}"
        )
    return int(text)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line.

    ``key=value`` words are set apart first, so that they may stand anywhere, also after options
    that take several values.

    Raises:
        SystemExit: after help, or after a message about what is wrong.
    """
    overrides = [word for word in argv if _OVERRIDE.match(word)]
    words = [word for word in argv if not _OVERRIDE.match(word)]
    arguments, unknown = make_parser().parse_known_args(words)
    _refuse_twice(arguments.parser, words)
    if not getattr(arguments.command, "TAKES_OVERRIDES", False):
        unknown += overrides
    if unknown:
        # By the command's parser, which names its own help.
        hint = proposed(unknown, arguments)
        arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    arguments.overrides, arguments.argv = overrides, ["marinenav", *argv]
    return arguments


def _refuse_twice(parser: Parser, words: Sequence[str]) -> None:
    """Refuse options that are given twice, of which the first would not count.

    Raises:
        SystemExit: after a message.
    """
    for option in parser.single_options():
        count = sum(word.partition("=")[0] in option.option_strings for word in words)
        if count > 1:
            parser.error(f"argument {'/'.join(option.option_strings)}: given {count} times")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: without the program's name; None for those of the process.

    Returns:
        The exit status: 0, 2 for what cannot be used, 130 when interrupted.
    """
    try:
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
            # File names need not be text, and a terminal need not know all characters.
            sys.stdout.reconfigure(errors="backslashreplace")
        status = _status(sys.argv[1:] if argv is None else argv)
        if sys.stdout is not None:  # else it was closed from the start
            sys.stdout.flush()  # at Python's exit it would be too late to be told of a failure
        return status
    except BrokenPipeError:
        _discard_output()  # the reader, such as `head`, has seen enough
        return PIPE_CLOSED
    except OSError as error:  # of the system, which a name or a disk may lead to anywhere
        name, reason = str(error.filename or "a file"), error.strerror or str(error)
        half = _LONGEST // 3
        name = name if len(name) <= 2 * half else f"{name[:half]}...{name[-half:]}"
        print(f"marinenav: error: {name}: {reason[: 2 * half]}", file=sys.stderr)
        _discard_output()
        return BAD_INPUT


def _discard_output() -> None:
    """Keep Python from writing what is left at its exit, where that fails."""
    with suppress(OSError, AttributeError, ValueError):  # closed, or not the process's own
        sys.stdout.flush()
        return
    with suppress(OSError, AttributeError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _status(argv: Sequence[str]) -> int:
    """Run a command; the exit status, as of main."""
    try:
        with exit_on_signal():
            arguments = parse(argv)
            _import(arguments.command)
            with interruptible():
                return _run(arguments)
    except ImportError as error:
        print(
            f"marinenav: error: packages are missing or do not fit together ({error}); marinenav doctor says more",
            file=sys.stderr,
        )
        return BAD_INPUT
    except SystemExit as stop:
        return int(stop.code or 0)
    except KeyboardInterrupt:
        print("marinenav: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (MemoryError, RuntimeError) as error:
        from train_RL_agents.learning.learner import out_of_memory

        if not out_of_memory(error):
            raise
        print("marinenav: error: there is not enough memory for this", file=sys.stderr)
        return BAD_INPUT


def _import(command: ModuleType) -> None:
    """Import what a command needs, with torch; help needs none of it."""
    names = getattr(command, "IMPORTS", ("marinenav_env",))
    problem = ensure_cache() if names else ""
    if problem:
        print(f"marinenav: {problem}; a temporary one is used now", file=sys.stderr)
    for name in names:
        import_module(name)


def _allow_parts(arguments: argparse.Namespace) -> None:
    """Let parts be imported that the command line names, also from the present folder."""
    from marinenav_env.support import plugins

    words = [word.partition("=")[2] for word in arguments.overrides if word.startswith(_PARTS)]
    words.append(str(getattr(arguments, "agent", "")))
    named = [*arguments.plugin, *(found for word in words for found in _PART.findall(word))]
    if named:
        plugins.allow(*named)
        sys.path.append(str(Path.cwd()))


def _set_threads(arguments: argparse.Namespace) -> None:
    """Set the threads of a command, unless they are a setting of its runs."""
    if getattr(arguments.command, "OWN_THREADS", False):
        return
    import torch

    from train_RL_agents.utils.device import THREADS_VARIABLE, cpu_threads

    wanted = arguments.threads or getattr(arguments.command, "THREADS", 0)
    if arguments.threads:
        os.environ[THREADS_VARIABLE] = str(arguments.threads)  # for what the command starts
    torch.set_num_threads(cpu_threads(wanted))


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show warnings of this program as sentences, without the place in the code."""
    usual = warnings.formatwarning

    def shown(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        line: str | None = None,
    ) -> str:
        ours = any(map(Path(filename).is_relative_to, _PACKAGES))
        if ours and issubclass(category, UserWarning):
            return f"marinenav: warning: {message}\n"
        return usual(message, category, filename, lineno, line)

    warnings.formatwarning = shown
    try:
        yield
    finally:
        warnings.formatwarning = usual


def _run(arguments: argparse.Namespace) -> int:
    """Run the command; settings that cannot be used become a sentence."""
    if not getattr(arguments.command, "IMPORTS", True):
        return int(arguments.command.run(arguments))
    from marinenav_env.support.files import kept_inputs
    from marinenav_env.support.validation import ConfigError
    from train_RL_agents.utils.compiling import quiet_compiler

    quiet_compiler()
    _set_threads(arguments)
    try:
        _allow_parts(arguments)
        with kept_inputs(), _plain_warnings():
            return int(arguments.command.run(arguments))
    except ConfigError as error:
        print(f"marinenav: error: {error}", file=sys.stderr)
        return BAD_INPUT
