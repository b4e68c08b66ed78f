"""Command line of ``marinenav``: finds the subcommand, runs it, and reports errors in one sentence."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from marinenav_env.support.validation import ConfigError
from train_RL_agents.commands import COMMANDS
from train_RL_agents.commands.choosing import parse_count, require_policies
from train_RL_agents.utils.closest import closest_names, did_you_mean
from train_RL_agents.utils.provenance import software_versions
from train_RL_agents.utils.signals import INTERRUPTED_STATUS, exit_on_signal, interrupt_on_signal
from train_RL_agents.utils.toolchain import ensure_cache

BAD_INPUT_STATUS, PIPE_CLOSED_STATUS = 2, 141
"""Exit statuses for unusable input, and for an output that its reader has closed."""
_PACKAGE_FOLDERS = [Path(__file__).parents[2] / name for name in ("marinenav_env", "train_RL_agents")]
_FORMAT_WARNING = warnings.formatwarning
_OVERRIDE = re.compile(r"[A-Za-z_][\w.]*=")
_CLASS_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


class Parser(argparse.ArgumentParser):
    """Argument parser that reports errors in one line."""

    def error(self, message: str) -> NoReturn:
        """Print an error message in one line and exit with status 2."""
        self.exit(BAD_INPUT_STATUS, f"marinenav: error: {ConfigError(message)}; see {self.prog} --help\n")

    def option_names(self) -> list[str]:
        """Return the names of the options that begin with two hyphens, without the hyphens."""
        return [name.removeprefix("--") for name in self._option_string_actions if name.startswith("--")]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Check that a value is a valid choice; the error proposes the closest choice or command."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += did_you_mean(value, map(str, action.choices or ()))
            raise


def suggest_correction(word: str, arguments: argparse.Namespace) -> str:
    """Return a suggestion for an unknown command-line argument, as the end of a sentence."""
    if _OVERRIDE.match(word):
        return "; settings are for train and bench"
    name = word.lstrip("-").partition("=")[0]
    if near := closest_names(name, arguments.parser.option_names(), 1):
        return f"; did you mean --{near[0]}?"
    if not hasattr(arguments.command, "settings"):
        return ""
    from train_RL_agents.config.reading import known_settings
    from train_RL_agents.config.schema import TrainConfig

    near = closest_names(name, known_settings(TrainConfig()), 1)
    return f"; did you mean {near[0]}=...?" if near else ""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands; parsed arguments have the module of the command as ``command``."""
    description = "Trains and evaluates agents for surface vessels."
    kind, installed = argparse.RawDescriptionHelpFormatter, software_versions()
    parser = Parser(prog="marinenav", description=description, allow_abbrev=False, formatter_class=kind)
    versions = "\n".join(f"{name} {installed[name]}" for name in ("marinenav", "torch", "torchrl"))
    parser.add_argument("--version", action="version", version=versions, help="show versions and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        help_text = (module.__doc__ or "").partition("\n")[0]
        subparser = commands.add_parser(
            name,
            help=help_text,
            description=help_text,
            allow_abbrev=False,
            add_help=not getattr(module, "OWN_HELP", False),
        )
        module.add_arguments(subparser)
        uses_threads = getattr(module, "IMPORTS", True) and getattr(module, "USES_TORCH", True)
        if uses_threads and not hasattr(module, "settings"):
            threads = "CPU threads; 0, the default: one for each core that other programs leave idle"
            count = partial(parse_count, least=0, most=1024)
            subparser.add_argument("--threads", metavar="N", type=count, default=0, help=threads)
        part = "a part of your own that a file refers to, as package.module:Name"
        subparser.add_argument("--plugin", metavar="PART", action="append", default=[], help=part)
        subparser.set_defaults(command=module, parser=subparser, overrides=[], argv=[])
    return parser


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; return its arguments, with ``key=value`` ones as ``overrides`` and the line as ``argv``.

    ``key=value`` arguments are separated first, so that they may be anywhere, even after options with several values.
    """
    overrides = [word for word in argv if _OVERRIDE.match(word)]
    line = [word for word in argv if not _OVERRIDE.match(word)]
    arguments, unknown = make_parser().parse_known_args(line)
    if not hasattr(arguments.command, "settings"):
        unknown += overrides
    if unknown:
        # The parser of the command refers to the help of the command.
        hint = suggest_correction(unknown[0], arguments)
        arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    arguments.overrides, arguments.argv = overrides, ["marinenav", *argv]
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run a ``marinenav`` command, and return its exit status: 0, 2 (bad input), 130 (interrupted), 141 (no reader)."""
    try:
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
            # File names may not be valid text, and terminals may not support all characters.
            sys.stdout.reconfigure(errors="backslashreplace")
        status = _run_command_line(sys.argv[1:] if argv is None else argv)
        if sys.stdout is not None:  # None if it was closed from the start
            sys.stdout.flush()  # a failure at the exit of Python could not be reported
        return status
    except BrokenPipeError:
        _discard_output()  # the reader, such as `head`, has ended
        return PIPE_CLOSED_STATUS
    except OSError as error:  # everything that uses a file can raise it
        status = _refuse(f"{error.filename or 'a file'}: {error.strerror or error}")
        _discard_output()
        return status


def _refuse(reason: object) -> int:
    """Print in one sentence why input cannot be used, and return the exit status."""
    print(f"marinenav: error: {ConfigError(str(reason))}", file=sys.stderr)
    return BAD_INPUT_STATUS


def _discard_output() -> None:
    """Prevent Python from writing remaining output at its exit if that would fail."""
    with suppress(OSError, AttributeError, ValueError):  # closed, or not a file of the process
        sys.stdout.flush()
        return
    with suppress(OSError, AttributeError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run_command_line(argv: Sequence[str]) -> int:
    """Run the command in a list of arguments, print its errors in one sentence, and return the exit status."""
    try:
        with exit_on_signal():
            arguments = parse(argv)
            _check_arguments(arguments)
            _import_modules(arguments.command)
            with interrupt_on_signal():
                return _run_command(arguments)
    except ConfigError as error:
        return _refuse(error)
    except ImportError as error:
        return _refuse(f"packages are missing or do not fit together ({error}); marinenav doctor says more")
    except SystemExit as stop:
        return int(stop.code or 0)
    except KeyboardInterrupt:
        print("marinenav: interrupted", file=sys.stderr)
        return INTERRUPTED_STATUS
    except (MemoryError, RuntimeError) as error:
        from train_RL_agents.learning.learner import is_out_of_memory

        if not is_out_of_memory(error):
            raise
        return _refuse("there is not enough memory for this")


def _check_arguments(arguments: argparse.Namespace) -> None:
    """Raise a ConfigError for arguments that the command refuses, before anything slow is imported."""
    check, settings = (getattr(arguments.command, name, None) for name in ("check", "settings"))
    if check:
        check(arguments)
    # Parts of others may import torch.
    if settings and (found := settings(arguments)) and not _named_parts(arguments):
        from train_RL_agents.config.reading import load_config

        config = load_config(*found)
        require_policies(filter(None, (config.teacher, config.load_model)), baselines=False)


def _import_modules(command: ModuleType) -> None:
    """Import the modules that a command needs, such as torch; this is done after parsing, as help needs none."""
    names = getattr(command, "IMPORTS", ("marinenav_env",))
    problem = ensure_cache() if names else ""
    if problem:
        print(f"marinenav: {problem}; a temporary one is used now", file=sys.stderr)
    for name in names:
        import_module(name)


def _named_parts(arguments: argparse.Namespace) -> list[str]:
    """Return the plugins that the command line names."""
    from train_RL_agents.config.environment import LIBRARY_NAMES
    from train_RL_agents.config.reading import PLUGIN_GROUPS

    settings = tuple(f"{key}=" for key in (*PLUGIN_GROUPS, "loggers"))
    values = [word.partition("=")[2] for word in arguments.overrides if word.startswith(settings)]
    values += [str(getattr(arguments, name, "")) for name in ("agent", "env")]
    values = [value for value in values if value.partition(":")[0] not in LIBRARY_NAMES]
    return [*arguments.plugin, *(part for value in values for part in _CLASS_REFERENCE.findall(value))]


def _allow_plugins(arguments: argparse.Namespace) -> None:
    """Allow imports of the plugins that the command line names, even from the current folder."""
    from marinenav_env.support import plugins

    if named := _named_parts(arguments):
        plugins.allow(*named)
        sys.path.append(str(Path.cwd()))


def _set_threads(arguments: argparse.Namespace) -> None:
    """Set the number of CPU threads, unless it is one of the settings of the command."""
    if hasattr(arguments.command, "settings"):
        return
    from train_RL_agents.utils.threads import THREADS_VARIABLE, set_threads

    if arguments.threads:
        os.environ[THREADS_VARIABLE] = str(arguments.threads)  # for processes that the command starts
    set_threads(arguments.threads or getattr(arguments.command, "THREADS", 0))


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Return a warning as text; one of this program as a sentence, without its location in the code."""
    if issubclass(category, UserWarning) and any(map(Path(filename).is_relative_to, _PACKAGE_FOLDERS)):
        return f"marinenav: warning: {message}\n"
    return _FORMAT_WARNING(message, category, filename, lineno, line)


def _run_command(arguments: argparse.Namespace) -> int:
    """Run the command of parsed arguments, print unusable settings in one sentence, and return the exit status."""
    if not getattr(arguments.command, "IMPORTS", True):
        return int(arguments.command.run(arguments))
    from marinenav_env.support.files import protected_inputs

    if getattr(arguments.command, "USES_TORCH", True):
        from train_RL_agents.utils.compiling import silence_compiler_logs

        silence_compiler_logs()
        _set_threads(arguments)
    _allow_plugins(arguments)
    warnings.formatwarning = _format_warning
    with protected_inputs():
        return int(arguments.command.run(arguments))
