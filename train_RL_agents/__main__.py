"""The ``marinenav`` command, also as ``python -m train_RL_agents``."""

from train_RL_agents.utils.signals import exit_on_signal


def main() -> int:
    """Run the command that the arguments of the process name, and return its exit status."""
    with exit_on_signal():
        from train_RL_agents.commands.cli import main as command

        return command()


if __name__ == "__main__":
    raise SystemExit(main())
