"""Systems that lack what Linux has, faked by taking it away."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.train_RL_agents.tiny_runs import TINY

WITHOUT = """
import os, signal, sys
# Other packages ask for the system's name, which stays that of this one.
import gymnasium, psutil, rich.progress, torch.utils.tensorboard, torchrl.collectors
for name in ("sched_getaffinity", "getuid", "O_NOFOLLOW", "killpg", "setsid", "fork"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGHUP", "SIGUSR1", "SIGKILL"):
    if hasattr(signal, name):
        delattr(signal, name)
for name in ("fcntl", "resource", "pwd"):
    sys.modules[name] = None
from train_RL_agents.__main__ import main
sys.exit(main())
"""


@pytest.mark.slow
def test_training_resuming_and_evaluation_go_without_what_only_linux_has(tmp_path):
    config = tmp_path / "tiny.json"
    config.write_text(json.dumps(TINY | {"save_dir": str(tmp_path / "runs")}))

    def run(*words):
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT, *words], text=True, cwd=Path(__file__).parents[2], capture_output=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("train", "-C", str(config), "--no-bar")
    (folder,) = tmp_path.glob("runs/*/seed_0")
    run("train", "--resume", str(folder), "total_timesteps=240", "--no-bar")
    assert "success" in run("evaluate", str(folder), "straight", "--episodes", "1")
