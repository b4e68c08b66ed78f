"""The ``marinenav`` command, also as ``python -m train_RL_agents``."""

import atexit
import gc

from train_RL_agents.utils.signals import exit_on_signal


def main() -> int:
    """Run the command that the arguments of the process name, and return its exit status."""
    atexit.register(gc.freeze)  # looking for cycles among the objects of torch at the exit takes a second
    with exit_on_signal():
        from train_RL_agents.cli import main as command

        return command()


if __name__ == "__main__":
    raise SystemExit(main())
