"""The same as the ``marinenav`` command: ``python -m train_RL_agents``."""

from train_RL_agents.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
