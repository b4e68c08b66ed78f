"""The ``marinenav`` command, also as ``python -m train_RL_agents``."""

from train_RL_agents.utils.signals import ended_at_once


def main() -> int:
    """Run the command that the arguments of the process say; its exit status."""
    with ended_at_once():
        from train_RL_agents.cli import main as command

        return command()


if __name__ == "__main__":
    raise SystemExit(main())
